"""File descriptors: how many a check needs, and how many this process may have."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import suppress

from oneloop.check.options import OptionError

__all__ = ["TooManyFilesError", "allowed", "raise_limit", "require"]

SPARE_DESCRIPTORS = 64
"""Beside connections: files, name servers, what Python has open."""


class TooManyFilesError(OSError):
    """The process ran out of file descriptors: this is no answer of any host, so it ends the run."""

    def __init__(self) -> None:
        super().__init__(
            errno.EMFILE,
            f"{os.strerror(errno.EMFILE)}: lower the concurrency, or raise the limit of file descriptors (ulimit -n)",
        )

    def __reduce__(self) -> tuple[type[TooManyFilesError], tuple[()]]:
        # OSError's own passes arguments, which __init__ does not take. Workers send this to the main process.
        return TooManyFilesError, ()


def allowed() -> int | None:
    """How many file descriptors this process may have; None if there is no limit."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def raise_limit(concurrency: int) -> None:
    """Raise the soft limit to the hard one, if so many connections need it. Child processes inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * concurrency + SPARE_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < needed:
        # Where it cannot be raised, `require` says what that means.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else needed, hard))


def require(concurrency: int) -> None:
    """Check that this many connections fit under the limit.

    Raises:
        OptionError: they do not; says what to do.
    """
    soft = allowed()
    if soft is not None and soft < concurrency + SPARE_DESCRIPTORS:
        raise OptionError(
            f"a concurrency of {concurrency} needs {concurrency + SPARE_DESCRIPTORS} file descriptors, and this"
            f" process may have {soft}: lower the concurrency, or raise the limit (ulimit -n)"
        )
