"""Initialization of a process that runs an application; it may be a child of a server, not of the benchmarks."""

from __future__ import annotations

import ctypes
import signal

from bench.rivals import endpoint

#: From man 2 prctl.
_PR_SET_PDEATHSIG = 1


def settle() -> None:
    """Makes the process end with its parent, as `leash` does, and initializes the allocator."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    endpoint.grow_heap()
