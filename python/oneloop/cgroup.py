"""What the control groups of this process allow it: CPUs and memory. Containers set their limits this way.

cgroups(7), version 2 and the older version 1. A limit of any parent group holds too. In a container with a namespace of
its own the group is the root of what is mounted.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["cpu_limit", "memory_limit", "usable_cpus"]

MOUNTS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
_NO_LIMIT_BYTES = 1 << 62
"""Version 1 writes a number near 2**63 for no limit."""


def cpu_limit() -> float | None:
    """Return how many CPUs' time the groups of this process may use, or None if there is no limit."""
    found = []
    for folder in _folders("cpu"):
        quota = _read(folder / "cpu.max").split()
        if len(quota) != 2:
            quota = [_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")]
        # "max" and -1 mean no limit.
        if quota[0].isdecimal() and quota[1].isdecimal() and int(quota[1]):
            found.append(int(quota[0]) / int(quota[1]))
    return min(found, default=None)


def memory_limit() -> int | None:
    """Return the bytes of memory that the groups of this process may use, or None if there is no limit."""
    found = []
    for folder in _folders("memory"):
        text = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
        if text.isdecimal() and int(text) < _NO_LIMIT_BYTES:
            found.append(int(text))
    return min(found, default=None)


def usable_cpus() -> int:
    """Return how many processes of this program can run at the same time: at least 1.

    That is the number of CPUs that the process may run on (sched_getaffinity(2)), and not more than the limit of its
    control groups, which is rounded up: two processes can use a limit of 1.5 CPUs, one cannot.
    """
    limit = cpu_limit()
    allowed = len(os.sched_getaffinity(0))
    return allowed if limit is None else max(1, min(allowed, math.ceil(limit)))


def _folders(controller: str) -> Iterator[Path]:
    """The folders with the limits of a controller: of the group of this process, and of its parents."""
    for line in _read(MEMBERSHIP).splitlines():
        _, _, rest = line.partition(":")
        names, _, group = rest.partition(":")
        if names and controller not in names.split(","):
            continue
        # Version 2 has no names and, beside version 1, its own folder.
        tops = [MOUNTS / controller, MOUNTS / names] if names else [MOUNTS, MOUNTS / "unified"]
        top = next((top for top in tops if top.is_dir()), None)
        if top is None:
            continue
        # A group outside of the namespace begins with `/..`: cgroup_namespaces(7).
        parts = [] if group.startswith("/..") else [part for part in group.split("/") if part]
        for count in range(len(parts), -1, -1):
            yield top.joinpath(*parts[:count])


def _read(path: Path) -> str:
    """The content of a file; nothing if there is none or it may not be read, which means that it sets no limit."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
