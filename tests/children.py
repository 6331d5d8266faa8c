"""This process's children, and what became of those that a test has started."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def living() -> set[int]:
    """Pids of all children of this process, those that nobody has waited for yet included."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            found.update(int(pid) for pid in (task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            # A thread that has just ended; its children went to the main thread's list.
            continue
    return found


def end_since(before: set[int]) -> list[str]:
    """Kill and collect children that were not there before; what they were, in words."""
    ended = []
    for pid in living() - before:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        ended.append(f"{pid}: {command or 'ended, never waited for'}")
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return ended
