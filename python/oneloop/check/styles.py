"""The same check in other styles, for learning and for benchmarks: green threads, threads and processes.

These styles use `oneloop.http.Client` and support only some of the options. The limits of an attempt are those of the
default style.
"""

from __future__ import annotations

import signal
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias

from oneloop.check.options import OptionError, Options
from oneloop.check.result import Result, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.process import BaseProcess

    from oneloop.check.blocking import Blocking

__all__ = ["STYLES", "Style", "check_in_style"]

Style: TypeAlias = Literal["coroutines", "green", "threads", "processes"]
STYLES: tuple[Style, ...] = ("coroutines", "green", "threads", "processes")

# The options that `Blocking` supports.
_KNOWN = {
    "concurrency", "timeout_s", "method", "follow", "max_redirects", "headers", "user_agent", "auth", "insecure",
    "proxy", "body_limit_bytes", "block_private",
}  # fmt: skip


def check_in_style(urls: Iterable[Target], options: Options, style: Style) -> Iterator[Result]:
    """Check URLs with the client for blocking code.

    Args:
        urls: the URLs.
        options: how to check.
        style: any style except "coroutines", for which `check` is used.

    Returns:
        An iterator of the results, in the order in which the URLs finish.

    Raises:
        OptionError: this style does not support an option.
        ImportError: greenlet is not installed, for green threads.
    """
    _refuse_unknown(options, style)
    # Forked processes have it too.
    from oneloop.check.blocking import Blocking

    if style == "processes":
        # As many processes as the concurrency would be too many.
        most = min(options.concurrency, 32)
        pool = ProcessPoolExecutor(most, initializer=_begin_process, initargs=(options,))
        return _in_pool(urls, options, pool, _fetch_in_process)
    blocking = Blocking(options)
    if style == "green":
        return _in_green_threads(urls, options, blocking)
    threads = ThreadPoolExecutor(options.concurrency)
    return _in_pool(urls, options, threads, blocking.fetch, blocking.close)


def _refuse_unknown(options: Options, style: Style) -> None:
    plain = Options(retries=0, per_host=options.concurrency)
    for name in Options.__dataclass_fields__:
        if name not in _KNOWN and getattr(options, name) not in (getattr(plain, name), getattr(Options(), name)):
            raise OptionError(f"{name} is supported only by --style coroutines, not by --style {style}")


def _in_pool(
    urls: Iterable[Target],
    options: Options,
    pool: Executor,
    fetch: Callable[[Target], Result],
    close: Callable[[], None] | None = None,
) -> Iterator[Result]:
    rest = iter(urls)
    is_finished = False
    try:
        under_way: set[Future[Result]] = set()
        while True:
            for target in islice(rest, 2 * options.concurrency - len(under_way)):
                with _held_signals():
                    under_way.add(pool.submit(fetch, target))
            if not under_way:
                is_finished = True
                return
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    finally:
        # shutdown() makes the pool forget its processes.
        processes: dict[int, BaseProcess] = getattr(pool, "_processes", None) or {}
        workers = list(processes.values())
        if not workers:
            pool.shutdown(wait=False, cancel_futures=True)
        if not is_finished:
            # Interrupted: the attempts in progress would take up to the timeout.
            for process in workers:
                process.terminate()
        if close is not None:
            close()
        # Waits for the pool's own thread too: the interpreter's end and that thread race for a pipe.
        pool.shutdown(cancel_futures=True)


_HELD = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def _held_signals() -> Iterator[None]:
    """Let signals come at the end of the block.

    `submit` forks. A process that has just been forked when an exception comes is known to nobody: it waits for work
    for ever, and the end of the interpreter waits for it. It begins with the signals held, so that it can be ended.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_of_this_process: list[Blocking] = []


def _begin_process(options: Options) -> None:
    """Called in a new process of the pool. The terminal sends SIGINT to all; the parent ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)
    from oneloop.check.blocking import Blocking

    _of_this_process.append(Blocking(options))


def _fetch_in_process(target: Target) -> Result:
    return _of_this_process[0].fetch(target)


def _in_green_threads(urls: Iterable[Target], options: Options, blocking: Blocking) -> Iterator[Result]:
    from oneloop.green.pool import Pool

    found = Pool(options.concurrency).imap_unordered(blocking.fetch, urls, maxsize=2 * options.concurrency)
    try:
        yield from found
    finally:
        blocking.close()
