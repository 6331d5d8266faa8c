"""What other threads do while a loop sleeps in its poll, and how often it has polled."""

from __future__ import annotations

import asyncio
import platform
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIMIT_S = 60.0
# Of a quiet loop's stay in a poll: a loop that spins polls thousands of times in it.
QUIET_S = 0.05
FEW_POLLS = 40


# epoll_wait, epoll_pwait, epoll_pwait2 of x86-64 and of the systems with the common table.
EPOLL_CALLS = {"232", "281", "441"} if platform.machine() == "x86_64" else {"22", "441"}


def is_polling(native_id: int) -> bool:
    """True while a thread of this process waits in epoll."""
    return Path(f"/proc/self/task/{native_id}/syscall").read_text().split()[0] in EPOLL_CALLS


class Sleeping:
    """A loop that has nothing to do for an hour."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop: Any = loop
        self.thread = 0

    def polls(self) -> int:
        """So often ours has polled. asyncio's may look a few hundred times while another thread registers something."""
        return int(self.loop.statistics().polls) if hasattr(self.loop, "statistics") else 0

    def wait(self) -> None:
        """Wait, in another thread, until the loop sleeps."""
        end = time.monotonic() + LIMIT_S
        asleep = 0
        while asleep < 3:
            assert time.monotonic() < end, "the loop never sleeps"
            asleep = asleep + 1 if is_polling(self.thread) else 0
            time.sleep(0.0005)

    def while_asleep(self, action: Callable[[], Any], most_polls: int = FEW_POLLS) -> None:
        """Run the loop, and in another thread, while it sleeps, the action; then stop it. It may not have spun."""
        errors: list[BaseException] = []

        def act() -> None:
            try:
                self.wait()
                action()
                time.sleep(QUIET_S)
            except BaseException as error:
                errors.append(error)
            finally:
                self.loop.call_soon_threadsafe(self.loop.stop)

        self.thread = threading.get_native_id()
        before = self.polls()
        thread = threading.Thread(target=act)
        timer = self.loop.call_later(3600, print)
        self.loop.call_soon(thread.start)
        self.loop.run_forever()
        thread.join()
        timer.cancel()
        if errors:
            raise errors[0]
        assert self.polls() - before < most_polls, "the loop spins"

    def wake(self) -> None:
        """Wake the loop, from another thread, and wait until it has run what is ready."""
        woken = threading.Event()
        self.loop.call_soon_threadsafe(self.loop.call_soon, woken.set)
        assert woken.wait(LIMIT_S)
