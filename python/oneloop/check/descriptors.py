"""File descriptors: how many a check needs, and how many this process may open."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import suppress

from oneloop.check.options import OptionError

__all__ = ["TooManyFilesError", "allowed", "raise_limit", "require"]

SPARE_DESCRIPTORS = 64
"""Descriptors for everything except connections: files, name servers, and those that Python itself has open."""


class TooManyFilesError(OSError):
    """The process has no file descriptor left. This is not an error of a host, so it ends the run."""

    def __init__(self) -> None:
        super().__init__(
            errno.EMFILE,
            f"{os.strerror(errno.EMFILE)}: lower the concurrency, or raise the limit on file descriptors (ulimit -n)",
        )

    def __reduce__(self) -> tuple[type[TooManyFilesError], tuple[()]]:
        # OSError.__reduce__ would pass arguments, which __init__ does not accept. Workers pickle this exception to send
        # it to the main process.
        return TooManyFilesError, ()


def allowed() -> int | None:
    """Return how many file descriptors this process may open (the soft limit); None if there is no limit."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def raise_limit(concurrency: int) -> None:
    """Raise the soft limit to the hard limit if this many connections need it. Child processes inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * concurrency + SPARE_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < needed:
        # If this fails and the limit is too low, `require` raises an exception with an explanation.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else needed, hard))


def require(concurrency: int) -> None:
    """Check that this process may open enough file descriptors for this many connections.

    Args:
        concurrency: the number of connections.

    Raises:
        OptionError: the limit is too low; the message says what to do.
    """
    soft = allowed()
    if soft is not None and soft < concurrency + SPARE_DESCRIPTORS:
        raise OptionError(
            f"a concurrency of {concurrency} needs {concurrency + SPARE_DESCRIPTORS} file descriptors, but this"
            f" process can open only {soft}: lower the concurrency, or raise the limit (ulimit -n)"
        )
