"""Which descriptors this process has open, and what on: the fd audit of the tests."""

from __future__ import annotations

import os


def open_descriptors(pid: int | str = "self") -> dict[int, str]:
    """Every open descriptor of a process with what it points at, the one for the listing itself left out."""
    found = {}
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        try:
            found[int(name)] = os.readlink(f"{folder}/{name}")
        except FileNotFoundError:
            continue
    return found


def opened_since(before: dict[int, str]) -> dict[int, str]:
    """Descriptors open now that were not, or that point at something else now."""
    return {fd: target for fd, target in open_descriptors().items() if before.get(fd) != target}
