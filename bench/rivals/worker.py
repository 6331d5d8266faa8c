"""What a process that runs an application does as it starts: it may be a server's child, not the bench's."""

from __future__ import annotations

import ctypes
import signal

from bench.rivals import endpoint

#: From man 2 prctl.
_PR_SET_PDEATHSIG = 1


def settle() -> None:
    """Has the process die with its parent, as the bench's own leash does, and brings its heap to size."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    endpoint.grow_heap()
