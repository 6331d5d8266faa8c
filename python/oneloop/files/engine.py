"""The running loop's native `Files`: the one place that finds it, and how everything else here asks it.

Which engine does the operations and how a program chooses one; paths as the kernel gets them; `timeout=`; and jobs,
which are work of several steps on a thread of the pool that its awaiter may abandon between them.

What has to be undone when a job fails (temporary files, half-read directories) is undone by the job itself, on its
thread. An awaiter that is cancelled waits until the job has done that: when its CancelledError arrives, nothing is
left behind. A job that hangs in the kernel holds it up as long.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import inspect
import logging
import numbers
import os
import sys
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from oneloop import _native
from oneloop.loop import Loop

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Coroutine, Mapping

    from oneloop._native import Files

__all__ = [
    "AT_FDCWD",
    "AbandonedError",
    "AnyPath",
    "EngineInfo",
    "FdOrPath",
    "Job",
    "at",
    "bounded",
    "check_timeout",
    "current",
    "encoded",
    "ended",
    "engine_info",
    "files_of",
    "had",
    "named",
    "opened",
    "run_job",
    "undisturbed",
    "use_engine",
    "within",
]

P = ParamSpec("P")
T = TypeVar("T")

AnyPath: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"
FdOrPath: TypeAlias = "int | AnyPath"

AT_FDCWD = -100
"""Paths are relative to the current directory (openat(2))."""

_ENCODING = sys.getfilesystemencoding()
_ERRORS = sys.getfilesystemencodeerrors()
_IS_UTF8 = _ENCODING == "utf-8"

# Threads may still run what a closed loop has left them.
atexit.register(_native.wait_for_file_calls)

ENVIRONMENT = "ONELOOP_FILES"
"""Names the engine that all loops of the process use: ring, aio or threads."""

_log = logging.getLogger("oneloop.files")


@dataclass(frozen=True)
class EngineInfo:
    """How the running loop does file I/O; see `engine_info`."""

    engine: str
    """ring (io_uring), aio (Linux kernel AIO for O_DIRECT files, threads for the rest) or threads."""
    refused: Mapping[str, str]
    """Better engines that do not work here, and why."""
    operations: int
    """Operations under way."""
    threads: int
    """Threads of the pool, which has those alone that work needs."""


def engine_info() -> EngineInfo:
    """Which engine does the running loop's file I/O, and what it is doing.

    Raises:
        RuntimeError, ValueError, OSError: as every use of `oneloop.files`: no oneloop loop is running, or the engine
            that `ONELOOP_FILES` names is none, or forbidden here.
    """
    return EngineInfo(**current().info())


def use_engine(name: str) -> None:
    """Choose the running loop's engine, before its first use of files; wins over `ONELOOP_FILES`.

    Args:
        name: ring, aio or threads.

    Raises:
        ValueError: there is no engine of that name.
        OSError: the kernel, or a sandbox, forbids it.
        RuntimeError: the loop has used files already, or is not a oneloop loop.
    """
    loop = _running()
    if loop._files is not None:
        if loop._files.engine == name:
            return
        raise RuntimeError(
            f"this event loop does its file I/O with {loop._files.engine!r} already: choose before the first use"
        )
    loop._files = _native.Files(loop, name)


def current() -> Files:
    """The file operations of the running loop; made at the first use.

    Raises:
        RuntimeError: no loop is running, or it is not a oneloop loop.
        ValueError: `ONELOOP_FILES` names no engine.
        OSError: `ONELOOP_FILES` names an engine that the kernel, or a sandbox, forbids.
    """
    return files_of(_running())


def files_of(loop: Loop) -> Files:
    """The file operations of a loop, for its thread; as `current`."""
    files = loop._files
    if files is None:
        files = loop._files = _native.Files(loop, os.environ.get(ENVIRONMENT) or None)
        for name, why in files.info()["refused"].items():
            _log.info("file engine %s does not work here (%s): using %s", name, why, files.engine)
    return files


def _running() -> Loop:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, Loop):
        raise RuntimeError(
            f"oneloop.files needs a oneloop event loop, not {type(loop).__name__}: start the "
            "program with oneloop.run(main()) or `oneloop run`"
        )
    return loop


# -- paths -------------------------------------------------------------------------------------------


def encoded(path: AnyPath, function: str = "open", argument: str = "path") -> bytes:
    """The bytes of a path, without NUL.

    Raises:
        TypeError: it is no path; the message names `function` and `argument`, as os's does.
        ValueError: it has a NUL inside.
    """
    if type(path) is str and "\0" not in path:
        if _IS_UTF8:
            try:
                return path.encode()
            except UnicodeEncodeError:
                # Surrogates: bytes that are no text.
                return path.encode("utf-8", _ERRORS)
        return path.encode(_ENCODING, _ERRORS)
    try:
        name = os.fsencode(path)
    except TypeError:
        kind = type(path).__name__
        raise TypeError(f"{function}: {argument} should be string, bytes or os.PathLike, not {kind}") from None
    if 0 in name:
        raise ValueError("embedded null byte")
    return name


def at(dir_fd: int | None) -> int:
    """The directory's descriptor, or AT_FDCWD."""
    return AT_FDCWD if dir_fd is None else dir_fd


def named(error: OSError, path: FdOrPath, path2: AnyPath | None = None) -> OSError:
    """The error, with the filename or filenames that os would have given it."""
    error.filename = path if isinstance(path, int) else os.fspath(path)
    if path2 is not None:
        error.filename2 = os.fspath(path2)
    elif error.filename2 is not None:
        # None would be shown: "-> None".
        del error.filename2
    return error


async def opened(
    files: Files, path: AnyPath, flags: int, mode: int = 0o666, dir_fd: int | None = None, *, function: str = "open"
) -> int:
    """A new descriptor, which is the caller's to close.

    Raises:
        OSError: with `filename`, as `os.open` raises it.
    """
    name = encoded(path, function)
    try:
        fd = files.open(name, flags | os.O_CLOEXEC, mode, at(dir_fd))
        if isinstance(fd, int):
            return fd
        try:
            return await fd
        except BaseException:
            # Opened and cancelled in the same tick: nobody else would close it.
            fd.add_done_callback(partial(_close_late, files))
            raise
    except OSError as error:
        named(error, path)
        raise


async def had(files: Files, opening: Future[T]) -> T:
    """Wait for a descriptor that cannot be called back; what comes too late is closed."""
    try:
        await undisturbed(opening)
    except BaseException:
        opening.add_done_callback(partial(_close_late, files))
        raise
    return opening.result()


def _close_late(files: Files, opening: Future[Any]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        number = opening.result()
        if isinstance(number, int) and number >= 0:
            files.forsake(number)


# -- timeouts ----------------------------------------------------------------------------------------


async def within(
    timeout_s: float, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Await a coroutine function for at most so many seconds; it is cancelled and has ended when the time is up.

    Raises:
        TimeoutError: the time is up.
    """
    async with asyncio.timeout(timeout_s):
        return await function(*args, **kwargs)


def check_timeout(timeout_s: object) -> None:
    """Refuse what `asyncio.timeout` cannot count with.

    Raises:
        TypeError: it is no number.
    """
    if not isinstance(timeout_s, numbers.Real):
        raise TypeError(f"timeout must be a number of seconds or None, not {type(timeout_s).__name__!r}")


def bounded(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make the `timeout` (seconds or None) that a coroutine function declares, and never looks at, true.

    The timeout is checked when it is given, before anything begins; see `within`.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        timeout: Any = kwargs.pop("timeout", None)
        if timeout is None:
            return function(*args, **kwargs)
        check_timeout(timeout)
        return within(timeout, function, *args, **kwargs)

    if hasattr(inspect, "markcoroutinefunction"):  # from Python 3.12 on
        inspect.markcoroutinefunction(call)
    return call


# -- jobs --------------------------------------------------------------------------------------------


class AbandonedError(Exception):
    """Ends a job whose awaiter was cancelled; nobody but the job sees it."""


class Job:
    """What a job's thread knows of its awaiter."""

    __slots__ = ("_begins", "_has_begun", "_is_abandoned")

    def __init__(self) -> None:
        self._is_abandoned = False  # written by the loop's thread, read by the job's
        self._has_begun = False
        self._begins = threading.Lock()

    def begin(self) -> None:
        """Called by the job's thread, first of all. As `check`."""
        with self._begins:
            self.check()
            self._has_begun = True

    def abandon(self) -> bool:
        """Make the next `check()` end the job. False if it has not begun, and never will."""
        with self._begins:
            self._is_abandoned = True
            return self._has_begun

    def check(self) -> None:
        """Called between two steps.

        Raises:
            AbandonedError: the awaiter was cancelled.
        """
        if self._is_abandoned:
            raise AbandonedError


async def run_job(function: Callable[Concatenate[Job, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Await `function(job, ...)` on the pool.

    A cancellation is raised at once while the job waits for a thread, and when it has ended once it has begun.
    """
    job = Job()
    future: Future[T] = current().call_long(_run, function, job, *args, **kwargs)
    try:
        await undisturbed(future)
    except asyncio.CancelledError as cancelled:
        if not job.abandon():
            future.cancel()
            raise
        await ended(future)
        if future.cancelled():
            raise
        error = future.exception()
        if error is None or isinstance(error, AbandonedError):
            raise
        raise cancelled from error
    return future.result()


def _run(function: Callable[..., Any], job: Job, /, *args: Any, **kwargs: Any) -> Any:
    job.begin()
    return function(job, *args, **kwargs)


async def ended(future: Future[T]) -> None:
    """Wait for a future whatever else is cancelled meanwhile: the caller raises that in the end."""
    while not future.done():
        try:
            await undisturbed(future)
        except asyncio.CancelledError:
            continue


def _wake(waiter: Future[None], _: Future[Any]) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def undisturbed(future: Future[Any]) -> None:
    """Wait until `future` is done; cancelling the waiter leaves it alone."""
    waiter = future.get_loop().create_future()
    wake = partial(_wake, waiter)
    future.add_done_callback(wake)
    try:
        await waiter
    finally:
        future.remove_done_callback(wake)
