"""Trees of directories: reading one, finding by pattern, removing; `walk` is in `walking`.

Directories are read on the pool, many entries per trip.
"""

from __future__ import annotations

import asyncio
import glob as patterns
import os
from itertools import islice
from typing import TYPE_CHECKING, Any, AnyStr, Generic, TypeVar, final, overload

from oneloop.files import jobs
from oneloop.files.deadline import bounded, within
from oneloop.files.engine import current
from oneloop.files.entry import DirEntry
from oneloop.files.removing import remove_tree, reporter
from oneloop.files.walking import walk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from types import TracebackType

    from oneloop.files.jobs import Job
    from oneloop.files.kernel_path import AnyPath, FdOrPath

__all__ = ["ScandirIterator", "glob", "listdir", "rmtree", "scandir", "walk"]

T = TypeVar("T")

BATCH = 1000
"""How many entries one trip to the pool brings at most."""


@overload
async def listdir(path: int | str | os.PathLike[str] | None = None, *, timeout: float | None = None) -> list[str]: ...
@overload
async def listdir(path: bytes | os.PathLike[bytes], *, timeout: float | None = None) -> list[bytes]: ...
@bounded
async def listdir(path: FdOrPath | None = None, *, timeout: float | None = None) -> Any:
    """`os.listdir`: the names in a directory; bytes for a path in bytes.

    Raises:
        OSError: with `filename`.
        TimeoutError: the time is up.
    """
    return await current().call(os.listdir, path)


@overload
def scandir(
    path: int | str | os.PathLike[str] | None = None, *, timeout: float | None = None
) -> ScandirIterator[str]: ...
@overload
def scandir(path: bytes | os.PathLike[bytes], *, timeout: float | None = None) -> ScandirIterator[bytes]: ...
def scandir(path: Any = None, *, timeout: float | None = None) -> ScandirIterator[Any]:
    """`os.scandir` as an async iterator and async context manager of `DirEntry`.

    Its errors come when it is first iterated or entered.

    Args:
        path: str, bytes, PathLike, or a directory's descriptor; None is the current directory.
        timeout: seconds that a trip for the next entries may take, or None.

    Raises:
        OSError: with `filename`.
        TimeoutError: the time is up.
    """
    return ScandirIterator(path, timeout)


@final
class ScandirIterator(Generic[AnyStr]):
    """The entries of one directory, read in batches.

    A directory of less than a thousand entries is closed when the first one arrives. For others use
    `async with` (or `close()`) if the iteration may end early; else a ResourceWarning tells.
    """

    __slots__ = ("_batch", "_is_busy", "_is_ended", "_path", "_source", "_timeout_s")

    def __init__(self, path: FdOrPath | None, timeout_s: float | None) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._batch: Iterator[os.DirEntry[Any]] = iter(())
        # Made and read by the pool's thread while `_is_busy`, else ours.
        self._source: Any = None
        self._is_busy = False
        self._is_ended = False

    async def __aenter__(self) -> ScandirIterator[AnyStr]:
        if self._source is None and not self._is_ended:
            await self._fill()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> ScandirIterator[AnyStr]:
        return self

    async def __anext__(self) -> DirEntry[AnyStr]:
        entry = next(self._batch, None)
        while entry is None:
            if self._is_ended:
                raise StopAsyncIteration
            await self._fill()
            entry = next(self._batch, None)
        return DirEntry(entry, self._path if isinstance(self._path, int) else None)

    async def close(self) -> None:
        """End the iteration and close the directory; idempotent."""
        self._end()
        self._batch = iter(())

    async def _fill(self) -> None:
        if self._is_busy:
            raise RuntimeError("the directory is being read by another task")
        self._is_busy = True
        try:
            reading = jobs.run(self._read)
            batch = await (reading if self._timeout_s is None else within(self._timeout_s, reading))
        except BaseException:
            self._end()
            raise
        finally:
            self._is_busy = False
        self._batch = iter(batch)
        if len(batch) < BATCH:
            self._end()

    def _read(self, job: Job) -> list[os.DirEntry[Any]]:
        """The next batch; on the pool."""
        job.check()
        if self._source is None:
            self._source = os.scandir(self._path)
        batch = list(islice(self._source, BATCH))
        for entry in batch:
            # Where the directory does not tell the type, asks for it here, and not on the loop.
            entry.is_symlink()
        return batch

    def _end(self) -> None:
        self._is_ended = True
        if self._source is not None:
            self._source.close()


async def glob(
    pathname: AnyStr,
    *,
    root_dir: AnyPath | None = None,
    dir_fd: int | None = None,
    recursive: bool = False,
    include_hidden: bool = False,
    timeout: float | None = None,
) -> AsyncIterator[AnyStr]:
    """`glob.iglob` as an async iterator: the paths that match a pattern.

    Args:
        pathname: a pattern with `*`, `?`, `[…]`, and with `recursive` also `**`.
        root_dir: where relative patterns start; the paths are relative to it then.
        dir_fd: a descriptor of the directory where relative patterns start.
        recursive: `**` matches any number of folders.
        include_hidden: wildcards match names that begin with a dot.
        timeout: seconds that a trip for the next paths may take, or None. Cancelling ends the
            waiting at once; the pool's thread finishes its batch.

    Raises:
        TimeoutError: the time is up. What cannot be read is left out, as in glob.
    """
    found = patterns.iglob(
        pathname, root_dir=root_dir, dir_fd=dir_fd, recursive=recursive, include_hidden=include_hidden
    )
    async for path in batches(found, timeout):
        yield path


async def batches(paths: Iterator[T], timeout_s: float | None) -> AsyncIterator[T]:
    """What an iterator that asks the kernel gives, taken from it on the pool."""
    files = current()
    while True:
        taking = files.call(_take, paths)
        batch = await (taking if timeout_s is None else asyncio.wait_for(taking, timeout_s))
        for path in batch:
            yield path
        if len(batch) < BATCH:
            return


def _take(paths: Iterator[T]) -> list[T]:
    return list(islice(paths, BATCH))


@bounded
async def rmtree(
    path: AnyPath,
    ignore_errors: bool = False,
    onerror: Callable[[Callable[..., Any], str, Any], object] | None = None,
    *,
    onexc: Callable[[Callable[..., Any], str, BaseException], object] | None = None,
    dir_fd: int | None = None,
    timeout: float | None = None,
) -> None:
    """`shutil.rmtree`: removes a directory with all that is in it. One trip to the pool.

    Args:
        path: str, bytes or PathLike; not a symbolic link.
        ignore_errors: go on whatever fails.
        onerror: called with (function, path, exc_info) for what fails, on the pool's thread.
        onexc: called with (function, path, exception) instead, on every Python version.
        dir_fd: the directory that a relative path starts from.
        timeout: seconds, or None; what was removed by then is gone.

    Raises:
        OSError: with `filename`, at the first failure.
        TimeoutError: the time is up.
    """
    await jobs.run(remove_tree, path, dir_fd, reporter(ignore_errors, onerror, onexc))
