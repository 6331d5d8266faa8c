"""`run`: does what `oneloop check` does, from reading the input to printing the JSON object."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import signal
import stat
import sys
import time
from contextlib import AsyncExitStack, ExitStack, aclosing, closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import oneloop
from oneloop.check.checking import check
from oneloop.check.counts import Counts, Rules
from oneloop.check.descriptors import raise_limit, require
from oneloop.check.fetch import Fetcher
from oneloop.check.inputs import Form, Source, form_of, read
from oneloop.check.journal import Journal
from oneloop.check.options import OptionError, Options
from oneloop.check.outputs import Csv, Html, JsonLines
from oneloop.check.progress import Progress, entries_in
from oneloop.check.result import BadLine, Result, Target
from oneloop.check.spread import DaskWorkers, Processes, check_spread
from oneloop.check.styles import Style, check_in_style
from oneloop.check.trust import has_authorities

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable
    from types import TracebackType

__all__ = ["Task", "run"]

_BLOCKED_FORMS: tuple[Form, ...] = ("jsonl", "sitemap")
"""Forms for which `--block-private` is the default, because other people usually write such inputs."""
_HOW_TO_UNBLOCK = "to request private addresses, add --no-block-private"
_SAID_BAD_LINES = 20
_FLUSH_S = 1.0
_OF_RESPONSES = (
    "method", "follow", "max_redirects", "headers", "user_agent", "auth", "insecure", "proxy", "family",
    "block_private",
)  # fmt: skip
_OUTPUTS = ("jsonl", "csv", "html")
_DASK_ADDRESS = re.compile(r"local(:[1-9][0-9]*)?|(?!local:)(\w+://)?\S+:[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What the command line says: the input, the options, the outputs."""

    source: Source
    options: Options
    outputs: tuple[tuple[str, str], ...] = ()
    """Kind and path."""
    journal: str | None = None
    fail_on: Rules | None = None
    progress: bool | None = None
    processes: int | None = None
    dask: str | None = None
    style: Style = "coroutines"

    @classmethod
    def of(cls, given: dict[str, Any]) -> Task:
        """Make a task from the values that the command line's parser returned.

        Args:
            given: the options that were given, by name.

        Returns:
            The task.

        Raises:
            ValueError: the values are wrong or contradict each other; the message is for the user.
        """
        source = Source(**{field.name: given[field.name] for field in fields(Source) if field.name in given})
        known = {field.name for field in fields(Options)}
        named: dict[str, Any] = {name: value for name, value in given.items() if name in known}
        if "headers" in named:
            named["headers"] = tuple(named["headers"])
        if "block_private" not in named and form_of(source) in _BLOCKED_FORMS:
            if "proxy" in named:
                raise OptionError(
                    "private addresses cannot be blocked behind a proxy: add --no-block-private, or leave out --proxy"
                )
            named["block_private"] = True
        rest = {name: given[name] for name in ("journal", "progress", "processes", "dask", "style") if name in given}
        made = cls(
            source=source,
            options=Options(**named),
            outputs=tuple((kind, given[kind]) for kind in _OUTPUTS if kind in given),
            fail_on=Rules.parse(given["fail_on"]) if "fail_on" in given else None,
            **rest,
        )
        made._check()
        return made

    def make_journal(self, path: str) -> Journal:
        """Make the journal object for this input and the options that affect the results.

        Args:
            path: the journal's file.

        Returns:
            The journal, which is not open yet.
        """
        named = {name: getattr(self.options, name) for name in _OF_RESPONSES}
        named |= {name: getattr(self.source, name) for name in ("form", "column", "scheme")}
        return Journal(path, self.source.location, named)

    def _check(self) -> None:
        ways = [self.processes is not None, self.dask is not None, self.style != "coroutines"]
        if sum(ways) > 1:
            raise OptionError("--processes, --dask and --style cannot be combined: give only one of them")
        if self.processes is not None and self.processes < 1:
            raise OptionError(f"--processes must be at least 1: {self.processes}")
        if self.dask is not None and not _DASK_ADDRESS.fullmatch(self.dask):
            raise OptionError(
                f"--dask must be the address of a scheduler, such as tcp://127.0.0.1:8786, or local:4 for a cluster of"
                f" four processes on this machine: {self.dask!r}"
            )
        places = [("FILE", _file_at(self.source.location, 0))]
        places += [(f"--{kind}", _file_at(path, 1)) for kind, path in self.outputs]
        if self.journal is not None:
            places.append(("--journal", _file_at(self.journal)))
        for place, (name, file) in enumerate(places):
            for other, same in places[:place]:
                if file is not None and file == same:
                    raise OptionError(f"{other} and {name} cannot be the same file")


def _file_at(path: str, standard: int | None = None) -> tuple[int, int] | str | None:
    """Return an identity for a file that must not have two uses, or None if it may have any number of uses.

    Args:
        path: the file, or `-`.
        standard: the descriptor that `-` means; None if `-` is an ordinary name.
    """
    try:
        found = os.fstat(standard) if path == "-" and standard is not None else Path(path).stat()
    except OSError:
        return os.path.realpath(path)
    if stat.S_ISREG(found.st_mode):
        return (found.st_dev, found.st_ino)
    return "-" if path == "-" and standard == 1 else None


def run(task: Task) -> int:
    """Check the URLs of a list. Print the counts to stdout and everything else to stderr.

    Args:
        task: what to check.

    Returns:
        The exit status: 0, 1 if a result matches `fail_on`, 130 after SIGINT, 143 after SIGTERM.

    Raises:
        OSError: the input cannot be read, or an output cannot be written.
        ValueError: the options do not fit the input.
        JournalError: the journal cannot be used.
        WorkerLostError: worker processes died repeatedly.
        ImportError: a package that an option needs is not installed.
    """
    job = _Job(task)
    began_s = time.monotonic()
    status = 0
    try:
        with job:
            if task.style == "coroutines":
                oneloop.run(job.work())
            else:
                job.work_in_style()
    except (KeyboardInterrupt, asyncio.CancelledError) as error:
        # SIGTERM cancels the main task.
        status = 128 + (signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM)
        _tell("oneloop check: interrupted; these are the counts so far")
    _print_counts(job.counts, task)
    for line in job.said(time.monotonic() - began_s):
        _tell(line)
    if status == 0 and task.fail_on is not None and job.counts.fails(task.fail_on):
        status = 1
    return status


def _print_counts(counts: Counts, task: Task) -> None:
    """Print the counts to stdout, or to stderr where stdout has a table or a page, which they would damage."""
    if any(path == "-" and kind != "jsonl" for kind, path in task.outputs):
        _tell(str(counts))
        return
    try:
        print(counts, flush=True)
    except OSError as error:
        error.filename = "standard output"
        raise


def _total_of(task: Task) -> int | None:
    """How many entries the progress bar expects; None if there is no bar, or if only reading the input tells."""
    is_shown = sys.stderr.isatty() if task.progress is None else task.progress
    if not is_shown or form_of(task.source) == "sitemap":
        return None
    total = entries_in(task.source.location)
    # The first row of a table has the names of its columns.
    is_headed = form_of(task.source) == "csv" and not isinstance(task.source.column, int)
    return total - 1 if total and is_headed else total


class _Job:
    """One run of the command: counts the results, writes them to the outputs and the journal, shows the progress."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.counts = Counts()
        self._known = 0
        self._open = ExitStack()
        self._outputs: list[JsonLines | Csv | Html] = []
        self._page: Html | None = None
        self._journal: Journal | None = None
        self._progress = Progress(self.counts, total=_total_of(task), is_shown=task.progress)

    def __enter__(self) -> None:
        with ExitStack() as opened:
            known: Iterable[Result] = ()
            if self.task.journal is not None:
                self._journal = opened.enter_context(closing(self.task.make_journal(self.task.journal)))
                known = self._journal.open()
            for kind, path in self.task.outputs:
                self._outputs.append(opened.enter_context(closing(self._made(kind, path))))
            opened.push(self._interrupt_page)
            for result in known:
                self._known += 1
                self._count(result)
            opened.enter_context(self._progress)
            self._open = opened.pop_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)

    def _interrupt_page(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._page is not None:
            self._page.interrupt()

    def _made(self, kind: str, path: str) -> JsonLines | Csv | Html:
        if kind == "html":
            location = self.task.source.location
            self._page = Html(path, source="standard input" if location == "-" else location)
            return self._page
        return JsonLines(path) if kind == "jsonl" else Csv(path)

    def said(self, time_s: float) -> list[str]:
        """The lines that are printed to stderr at the end."""
        counts = self.counts
        checked = counts.total - counts.bad_lines - self._known
        urls = "1 URL" if checked == 1 else f"{checked} URLs"
        lines = [f"{urls} in {time_s:.2f} s" + (f", {self._known} from the journal" if self._known else "")]
        if counts.as_dict().get("blocked") and self.task.options.block_private:
            lines.append(f"blocked: {_HOW_TO_UNBLOCK}")
        if counts.as_dict().get("tls") and not self.task.options.insecure and not has_authorities():
            lines.append("tls: no certificate authorities were found: install ca-certificates, or set SSL_CERT_FILE")
        if counts.bad_lines:
            said = "bad line in the input" if counts.bad_lines == 1 else "bad lines in the input"
            lines.append(f"{counts.bad_lines} {said}")
        return lines

    def _count(self, result: Result) -> None:
        self.counts.add(result)
        for output in self._outputs:
            output.write(result)

    def _take(self, result: Result) -> None:
        self._count(result)
        if self._journal is not None and result.error != "retry_after":
            # The URL was not requested, so the next run with this journal requests it.
            self._journal.add(result)
        self._progress.update()

    async def _flush_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_S)
            self._flush()

    def _flush(self) -> None:
        if self._journal is not None:
            self._journal.flush()
        for output in self._outputs:
            output.flush()

    async def work(self) -> None:
        """Check the list on the running loop."""
        loop, this = asyncio.get_running_loop(), asyncio.current_task()
        if this is not None:
            loop.add_signal_handler(signal.SIGTERM, this.cancel)
        task = self.task
        workers: Processes | DaskWorkers | None = None
        if task.dask is None:
            # Worker processes inherit the limit.
            share = -(-task.options.concurrency // (task.processes or 1))
            raise_limit(share)
            require(share)
        if task.processes is not None:
            workers = Processes(task.processes)
        elif task.dask is not None:
            workers = DaskWorkers(task.dask)
        async with AsyncExitStack() as stack:
            flusher = asyncio.create_task(self._flush_now_and_then())
            stack.callback(flusher.cancel)
            targets = await stack.enter_async_context(aclosing(self._targets()))
            if workers is None:
                found = check(targets, task.options)
            else:
                found = check_spread(targets, task.options, await stack.enter_async_context(workers))
            async for result in await stack.enter_async_context(aclosing(found)):
                if flusher.done():
                    # An output could not be written: raise its error.
                    flusher.result()
                self._take(result)

    def work_in_style(self) -> None:
        """Check the list without an event loop, as `--style` says. The whole list is read first."""

        async def read_all() -> list[Target]:
            return [target async for target in self._targets()]

        # As on a loop, SIGTERM becomes CancelledError, which run() handles.
        if self.task.style == "green":
            _send_signals_to_this_green_thread()
        else:
            signal.signal(signal.SIGTERM, _raise_cancelled)
        for result in check_in_style(asyncio.run(read_all()), self.task.options, self.task.style):
            self._take(result)

    async def _targets(self) -> AsyncGenerator[Target]:
        async with aclosing(read(self.task.source, fetch=self._fetch)) as entries:
            async for entry in entries:
                if isinstance(entry, BadLine):
                    self._note(entry)
                elif self._journal is None or not self._journal.is_done(entry):
                    yield entry

    def _note(self, bad: BadLine) -> None:
        self.counts.add(bad)
        if self._page is not None:
            self._page.write_bad_line(bad)
        if self.counts.bad_lines <= _SAID_BAD_LINES:
            _tell(f"{self.task.source.location}:{bad.line}: {bad.reason}: {bad.text}")
        elif self.counts.bad_lines == _SAID_BAD_LINES + 1:
            _tell("further bad lines are counted but not shown")

    async def _fetch(self, url: str) -> AsyncIterator[bytes]:
        """Yield the body of a sitemap. The request obeys the same options as all others."""
        options = replace(self.task.options, method="GET")
        async with Fetcher(options) as fetcher, aclosing(fetcher.body(url)) as pieces:
            try:
                async for piece in pieces:
                    yield piece
            except PermissionError as error:
                raise OSError(errno.EACCES, f"{error.strerror}: {_HOW_TO_UNBLOCK}", url) from error


def _send_signals_to_this_green_thread() -> None:
    """A handler that raises would end whichever green thread runs at that moment, with a traceback on stderr."""
    from greenlet import getcurrent

    from oneloop import green

    this = getcurrent()
    green.signal_handler(signal.SIGINT, green.kill, this, KeyboardInterrupt)
    green.signal_handler(signal.SIGTERM, green.kill, this, asyncio.CancelledError)


def _raise_cancelled(*_: object) -> None:
    raise asyncio.CancelledError


def _tell(text: str) -> None:
    """Print a line to stderr. If stderr is closed, the run continues."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)
