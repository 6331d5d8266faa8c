"""Access to the running loop's native `Files`, and what the other modules share.

Here are: the choice of the engine; paths in the kernel's form; `timeout=`; and jobs. A job is work of several steps on
a thread of the pool. It can be abandoned between two steps.

A job that fails or is abandoned cleans up (temporary files, half-read directories) itself, on its thread. A cancelled
awaiter waits for that, so nothing is left behind when its CancelledError is raised. A job that hangs in the kernel
delays the cancellation for as long.
"""

from __future__ import annotations

import asyncio
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
    "close_late",
    "current",
    "encoded",
    "ended",
    "engine_info",
    "files_of",
    "had",
    "joined",
    "named",
    "opened",
    "run_copy",
    "run_job",
    "run_removal",
    "running_loop",
    "undisturbed",
    "use_engine",
    "within",
]

P = ParamSpec("P")
T = TypeVar("T")

AnyPath: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"
FdOrPath: TypeAlias = "int | AnyPath"

AT_FDCWD = -100
"""As `dir_fd`: paths are relative to the current directory (openat(2))."""

# Bound here to save the attribute look-up in each operation.
running_loop = asyncio._get_running_loop

_ENCODING = sys.getfilesystemencoding()
_ERRORS = sys.getfilesystemencodeerrors()
_IS_UTF8 = _ENCODING == "utf-8"

ENVIRONMENT = "ONELOOP_FILES"
"""The environment variable with the engine for all loops of the process: ring, aio or threads."""

_log = logging.getLogger("oneloop.files")


@dataclass(frozen=True)
class EngineInfo:
    """The running loop's file engine and its load; the result of `engine_info`."""

    engine: str
    """ring (io_uring), aio (Linux kernel AIO for O_DIRECT files, threads for the rest) or threads."""
    refused: Mapping[str, str]
    """Preferred engines that do not work on this system, each with the reason."""
    operations: int
    """Number of operations in progress."""
    threads: int
    """Number of threads in the pool. Threads are started when there is work for them."""


def engine_info() -> EngineInfo:
    """Return the engine of the running loop's file I/O, and its load.

    Raises:
        RuntimeError: no event loop is running, or it is not a oneloop loop.
        ValueError: `ONELOOP_FILES` is not the name of an engine.
        OSError: the kernel or a sandbox forbids the engine in `ONELOOP_FILES`.
    """
    return EngineInfo(**current().info())


def use_engine(name: str) -> None:
    """Choose the running loop's file engine. Call it before the loop's first file operation.

    It takes precedence over the environment variable `ONELOOP_FILES`.

    Args:
        name: ring, aio or threads.

    Raises:
        ValueError: there is no engine of that name.
        OSError: the kernel or a sandbox forbids the engine.
        RuntimeError: the loop already uses another engine, no event loop is running, or it is not a oneloop loop.
    """
    loop = _running()
    if loop._files is not None:
        if loop._files.engine == name:
            return
        raise RuntimeError(
            f"this event loop already uses the file engine {loop._files.engine!r}: call use_engine({name!r}) before"
            " the loop's first file operation"
        )
    loop._files = _native.Files(loop, name)


def current() -> Files:
    """Return the running loop's file operations. They are created on first use.

    Raises:
        RuntimeError: no event loop is running, or it is not a oneloop loop.
        ValueError: `ONELOOP_FILES` is not the name of an engine.
        OSError: the kernel or a sandbox forbids the engine in `ONELOOP_FILES`.
    """
    loop = running_loop()
    files = loop._files if isinstance(loop, Loop) else None
    return files_of(_running()) if files is None else files


def files_of(loop: Loop) -> Files:
    """Return the file operations of a loop; like `current`. Call it in the loop's thread."""
    files = loop._files
    if files is None:
        files = loop._files = _native.Files(loop, os.environ.get(ENVIRONMENT) or None)
        for name, why in files.info()["refused"].items():
            _log.info("file engine %s does not work on this system (%s): using %s", name, why, files.engine)
    return files


def _running() -> Loop:
    loop = running_loop()
    if loop is None:
        raise RuntimeError(
            "no running event loop: call the functions of oneloop.files in a coroutine that runs with"
            " oneloop.run(main())"
        )
    if not isinstance(loop, Loop):
        raise RuntimeError(
            f"oneloop.files needs a oneloop event loop, not {type(loop).__name__}: start the "
            "program with oneloop.run(main()) or `oneloop run`"
        )
    return loop


# -- paths -------------------------------------------------------------------------------------------


def encoded(path: AnyPath, function: str = "open", argument: str = "path") -> bytes:
    """Return a path as bytes, as the kernel needs it.

    Raises:
        TypeError: it is not a path. The message contains `function` and `argument`, as in `os`.
        ValueError: it contains a NUL.
    """
    if type(path) is str and "\0" not in path:
        if _IS_UTF8:
            try:
                return path.encode()
            except UnicodeEncodeError:
                # Surrogates, which stand for bytes that are not UTF-8.
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
    """Return `dir_fd`, or AT_FDCWD for None."""
    return AT_FDCWD if dir_fd is None else dir_fd


def named(error: OSError, path: FdOrPath, path2: AnyPath | None = None) -> OSError:
    """Set the error's filename or filenames as `os` does, and return it."""
    error.filename = path if isinstance(path, int) else os.fspath(path)
    if path2 is not None:
        error.filename2 = os.fspath(path2)
    elif error.filename2 is not None:
        # With filename2 = None, the message would end in "-> None".
        del error.filename2
    return error


async def opened(
    files: Files, path: AnyPath, flags: int, mode: int = 0o666, dir_fd: int | None = None, *, function: str = "open"
) -> int:
    """Open a file and return its descriptor. The caller has to close it.

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
            # Opened and cancelled in the same tick: close it here, because no other code has the descriptor.
            fd.add_done_callback(partial(close_late, files))
            raise
    except OSError as error:
        named(error, path)
        raise


async def had(files: Files, opening: Future[T]) -> T:
    """Wait for a descriptor whose opening cannot be cancelled. If the wait is cancelled, it is closed later."""
    try:
        await undisturbed(opening)
    except BaseException:
        opening.add_done_callback(partial(close_late, files))
        raise
    return opening.result()


def close_late(files: Files, opening: Future[Any]) -> None:
    """Close the descriptor that an opening has returned, alone or with its status, although nobody waits any more."""
    if not opening.cancelled() and opening.exception() is None:
        number = opening.result()
        if isinstance(number, tuple):
            number = number[0]
        if isinstance(number, int) and number >= 0:
            files.forsake(number)


# -- timeouts ----------------------------------------------------------------------------------------


async def within(
    timeout_s: float, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Await `function(*args, **kwargs)` for at most `timeout_s` seconds, then cancel it and wait until it has ended.

    Raises:
        TimeoutError: the timeout has expired.
    """
    async with asyncio.timeout(timeout_s):
        return await function(*args, **kwargs)


def check_timeout(timeout_s: object) -> None:
    """Check a `timeout` argument.

    Raises:
        TypeError: it is not a number.
    """
    if not isinstance(timeout_s, numbers.Real):
        raise TypeError(f"timeout must be a number of seconds or None, not {type(timeout_s).__name__!r}")


def bounded(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Decorate a coroutine function that declares a `timeout` argument (seconds or None): implement the timeout.

    The decorated function does not read the argument itself. It is checked when the function is called, before
    anything begins. See `within`.
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


# -- results ---------------------------------------------------------------------------------------

MUCH_BYTES = 1024 * 1024
"""From this size on, joining pieces is done on a thread."""


async def joined(files: Files, pieces: list[bytes]) -> bytes:
    """Join pieces; long ones on a thread that does not hold the GIL."""
    if sum(map(len, pieces)) < MUCH_BYTES:
        return b"".join(pieces)
    return await files.call(_native.join_bytes, pieces)


# -- jobs --------------------------------------------------------------------------------------------


class AbandonedError(Exception):
    """Ends a job whose awaiter was cancelled. It is not raised to programs."""


class Job:
    """Tells a job on its thread whether its awaiter was cancelled."""

    __slots__ = ("_begins", "_has_begun", "_is_abandoned")

    def __init__(self) -> None:
        self._is_abandoned = False  # written by the loop's thread, read by the job's
        self._has_begun = False
        self._begins = threading.Lock()

    def begin(self) -> None:
        """Mark the job as begun. Its thread calls this first. Raises like `check`."""
        with self._begins:
            self.check()
            self._has_begun = True

    def abandon(self) -> bool:
        """Make the next `check()` raise. Return False if the job has not begun; then it will not run at all."""
        with self._begins:
            self._is_abandoned = True
            return self._has_begun

    def check(self) -> None:
        """Check for abandonment. The job calls this between two steps.

        Raises:
            AbandonedError: the awaiter was cancelled.
        """
        if self._is_abandoned:
            raise AbandonedError


async def run_job(function: Callable[Concatenate[Job, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `function(job, ...)` on the pool and return its result.

    If the awaiter is cancelled before the job has begun, CancelledError is raised immediately; later, it is raised when
    the job has ended.
    """
    return await _outcome(current().call_long, function, *args, **kwargs)


async def run_copy(function: Callable[Concatenate[Job, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Like `run_job`, on threads that only copy: other jobs do not wait for a long copy."""
    return await _outcome(current().call_copy, function, *args, **kwargs)


async def run_removal(function: Callable[Concatenate[Job, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Like `run_job`, on threads that only remove trees."""
    return await _outcome(current().call_removal, function, *args, **kwargs)


async def _outcome(call: Callable[..., Future[Any]], function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    job = Job()
    future: Future[T] = call(_run, function, job, *args, **kwargs)
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
    """Wait for a future and ignore cancellations meanwhile. The caller raises CancelledError afterwards."""
    while not future.done():
        try:
            await undisturbed(future)
        except asyncio.CancelledError:
            continue


def _wake(waiter: Future[None], _: Future[Any]) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def undisturbed(future: Future[Any]) -> None:
    """Wait until `future` is done. Cancelling the waiter does not cancel `future`."""
    waiter = future.get_loop().create_future()
    wake = partial(_wake, waiter)
    future.add_done_callback(wake)
    try:
        await waiter
    finally:
        future.remove_done_callback(wake)
