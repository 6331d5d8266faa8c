"""Which descriptors this process has open, and what on: the fd audit of the tests. Also the limit of their number."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


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


@contextmanager
def room_for(count: int) -> Iterator[None]:
    """Raise the limit of open descriptors (RLIMIT_NOFILE) to `count` or more; skip the test if it cannot be raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count:
        pytest.skip(f"needs {count} descriptors a process; the hard limit is {hard} (ulimit -Hn)")
    with _limited(max(soft, count)):
        yield


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """Lower the limit of open descriptors to `count`, or leave it where it is lower."""
    with _limited(min(count, resource.getrlimit(resource.RLIMIT_NOFILE)[0])):
        yield


@contextmanager
def _limited(count: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
