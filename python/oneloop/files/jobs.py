"""Jobs: work of several steps on a thread of the pool, which its awaiter may abandon between them.

What has to be undone when it fails (temporary files, half-read directories) is undone by the job
itself, on its thread. An awaiter that is cancelled waits until the job has done that: when its
CancelledError arrives, nothing is left behind. A job that hangs in the kernel holds it up as long.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from oneloop.files.engine import current
from oneloop.files.raw import undisturbed

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AbandonedError", "Job", "run"]

P = ParamSpec("P")
T = TypeVar("T")


class AbandonedError(Exception):
    """Ends a job whose awaiter was cancelled; nobody but the job sees it."""


class Job:
    """What a job's thread knows of its awaiter."""

    __slots__ = ("_is_abandoned",)

    def __init__(self) -> None:
        self._is_abandoned = False  # written by the loop's thread, read by the job's

    def abandon(self) -> None:
        """Make the next `check()` end the job."""
        self._is_abandoned = True

    def check(self) -> None:
        """Called between two steps.

        Raises:
            AbandonedError: the awaiter was cancelled.
        """
        if self._is_abandoned:
            raise AbandonedError


async def run(function: Callable[Concatenate[Job, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Await `function(job, ...)` on the pool; a cancellation is raised when the job has ended."""
    job = Job()
    future = current().call(function, job, *args, **kwargs)
    try:
        await undisturbed(future)
    except asyncio.CancelledError as cancelled:
        job.abandon()
        await _ended(future)
        if future.cancelled():
            raise
        error = future.exception()
        if error is None or isinstance(error, AbandonedError):
            raise
        raise cancelled from error
    return future.result()


async def _ended(future: asyncio.Future[T]) -> None:
    """Wait for a future whatever else is cancelled meanwhile: the caller raises that in the end."""
    while not future.done():
        try:
            await undisturbed(future)
        except asyncio.CancelledError:
            continue
