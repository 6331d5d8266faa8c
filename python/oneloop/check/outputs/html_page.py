"""`Html`: one HTML page with a summary of the results so far. It needs no network, no scripts and no other files.

A new page replaces the old one with rename(2), so a reader never sees an incomplete page. Texts from the input and from
servers are escaped, and only http and https URLs become links. The page's content security policy allows only its own
style sheet.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import html
import os
import stat
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from oneloop.check.outputs.summary import EDGES_S, Failure, Summary
from oneloop.check.outputs.writing import write_all

if TYPE_CHECKING:
    from collections.abc import Iterable

    from oneloop.check.result import BadLine, Result

__all__ = ["Html"]

_STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --faint: #667080; --line: #d8dde4; --good: #2f7d4f; --bad: #b3382c;
  --page: #ffffff; --bar: #3b6fb6; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7eb; --faint: #98a2b0; --line: #363d47; --good: #5cb585;
  --bad: #ec7d70; --page: #15181c; --bar: #6f9fe0; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p { margin: .2rem 0; } .faint { color: var(--faint); }
table { border-collapse: collapse; width: 100%; } td, th { padding: .2rem .8rem .2rem 0; text-align: left;
  border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
th { font-weight: 600; color: var(--faint); } .number { text-align: right; white-space: nowrap; width: 7rem; }
.name { white-space: nowrap; width: 11rem; } svg { display: block; width: 100%; height: 1.3rem; }
rect { fill: var(--bar); } .good rect { fill: var(--good); } .bad rect { fill: var(--bad); }
a { color: inherit; }
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'"

_REFRESH_S = 5
_STANDARD_OUTPUT = 1


class Html:
    """A page with counts, latencies, the slowest hosts and failures.

    A regular file is replaced by each `flush()`. Standard output, pipes and devices get the page once, from `close()`.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, title: str = "oneloop check", source: str | None = None
    ) -> None:
        """Write a first page without results, so that a path that cannot be written is an error at the start.

        Args:
            path: the file; `-` is standard output.
            title: the page's heading.
            source: the name of the list of URLs, shown under the heading.

        Raises:
            OSError: for the same reasons as `open(path, "w")`.
        """
        self._title = title
        self._source = source
        self._started = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        self._is_interrupted = False
        self._summary = Summary()
        self._started_s = time.monotonic()
        self._is_new = True  # whether something has changed since the last page
        self._is_closed = False
        self._path = None if path == "-" else Path(path)
        self._is_replaced = self._path is not None and (not self._path.exists() or self._path.is_file())
        if self._is_replaced:
            # If the path is a symbolic link, replace its target, not the link. Only for regular files: /dev/stdout may
            # lead to a pipe, which has no path.
            self._path = Path(os.path.realpath(path))
        if self._path is not None and self._path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        self.flush()

    def write(self, result: Result) -> None:
        """Add a result to the summary."""
        self._summary.add(result)
        self._is_new = True

    def write_bad_line(self, bad: BadLine) -> None:
        """Count a bad line of the input."""
        self._summary.counts.add(bad)
        self._is_new = True

    def interrupt(self) -> None:
        """Make the last page say that the run was interrupted."""
        self._is_interrupted = True

    def flush(self) -> None:
        """Replace the page, if something has changed and the file is a regular file.

        Raises:
            OSError: the page cannot be written.
        """
        if self._is_new and self._is_replaced and self._path is not None:
            _replace(self._path, self._page(is_over=False))
            self._is_new = False

    def close(self) -> None:
        """Write the last page.

        Raises:
            OSError: the page cannot be written.
        """
        if self._is_closed:
            return
        self._is_closed = True
        page = self._page(is_over=True)
        if self._is_replaced and self._path is not None:
            _replace(self._path, page)
        elif self._path is not None:
            with self._path.open("wb", buffering=0) as file:
                write_all(file.fileno(), bytearray(page), str(self._path))
        else:
            write_all(_STANDARD_OUTPUT, bytearray(page), "standard output")

    def _page(self, *, is_over: bool) -> bytes:
        summary = self._summary
        counts = summary.counts
        urls = counts.total - counts.bad_lines
        passed = f"{urls:,} {'URL' if urls == 1 else 'URLs'} in {_seconds(time.monotonic() - self._started_s)}"
        if counts.bad_lines:
            passed += f", {counts.bad_lines:,} bad {'line' if counts.bad_lines == 1 else 'lines'}"
        if not is_over:
            passed += ', <span class="faint">still running</span>'
        elif self._is_interrupted:
            passed += ", <strong>interrupted: the list was not checked completely</strong>"
        origin = f"{_escaped(self._source)}, " if self._source is not None else ""
        refresh = "" if is_over else f'<meta http-equiv="refresh" content="{_REFRESH_S}">\n'
        page = f"""<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
{refresh}<title>{_escaped(self._title)}</title>
<style>{_STYLE}</style>
<h1>{_escaped(self._title)}</h1>
<p class="faint">{origin}started {self._started}</p>
<p>{passed}</p>
{_outcomes(summary)}
{_latencies(summary)}
{_hosts(summary)}
{_failures(summary)}
</html>
"""
        return page.encode("utf-8", "replace")


def _outcomes(summary: Summary) -> str:
    counts = summary.counts.as_dict()
    most = max(counts.values(), default=0)
    rows = (
        f'<tr class="{_kind(outcome)}"><td class="name">{_escaped(outcome)}</td><td class="number">{count:,}</td>'
        f"<td>{_bar(count, most)}</td></tr>"
        for outcome, count in counts.items()
    )
    return _table("Outcomes", ("name", "outcome"), ("number", "URLs"), ("", ""), rows=rows)


def _latencies(summary: Summary) -> str:
    latencies = summary.latencies
    known = [(f"p{percent}", latencies.percentile(percent)) for percent in (50, 90, 99)]
    text = ", ".join(f"{name} {_seconds(value)}" for name, value in known if value is not None)
    most = max(latencies.bars)
    names = [f"up to {_edge(edge)}" for edge in EDGES_S] + [f"over {_edge(EDGES_S[-1])}"]
    used = [place for place, count in enumerate(latencies.bars) if count]
    shown = range(used[0], used[-1] + 1) if used else range(0)
    rows = (
        f'<tr><td class="name">{names[place]}</td><td class="number">{latencies.bars[place]:,}</td>'
        f"<td>{_bar(latencies.bars[place], most)}</td></tr>"
        for place in shown
    )
    note = f"{latencies.count:,} responses{': ' if text else ''}{text}"
    heads = (("name", "time"), ("number", "responses"), ("", ""))
    return _table("Time until the response was complete", *heads, rows=rows, note=note)


def _hosts(summary: Summary) -> str:
    rows = (
        f"<tr><td><bdi>{_escaped(name)}</bdi></td>"
        f'<td class="number">{_seconds(host.mean_s)}</td><td class="number">{_seconds(host.longest_s)}</td>'
        f'<td class="number">{host.count:,}</td></tr>'
        for name, host in summary.slowest()
    )
    note = ""
    if summary.forgotten_hosts:
        note = f"Of the many hosts, {summary.forgotten_hosts:,} faster ones were dropped during the run."
    heads = (("", "host"), ("number", "mean"), ("number", "longest"), ("number", "URLs"))
    return _table("Slowest hosts", *heads, rows=rows, note=note)


def _failures(summary: Summary) -> str:
    rows = (
        f'<tr><td class="name">{_escaped(failure.outcome)}</td><td>{_link(failure)}</td>'
        f"<td><bdi>{_escaped(failure.text)}</bdi></td></tr>"
        for failure in summary.failures
    )
    more = summary.failed - len(summary.failures)
    note = f"{summary.failed:,} in total" + (
        f": the first of each kind are shown, {more:,} more are not shown" if more else ""
    )
    return _table("Failures", ("name", "outcome"), ("", "URL"), ("", "error"), rows=rows, note=note)


def _table(title: str, *heads: tuple[str, str], rows: Iterable[str], note: str = "") -> str:
    body = "\n".join(rows)
    head = "".join(f'<th class="{kind}">{name}</th>' if kind else f"<th>{name}</th>" for kind, name in heads)
    text = f'<p class="faint">{note}</p>\n' if note else ""
    table = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>" if body else "<p>none</p>"
    return f"<h2>{title}</h2>\n{text}{table}"


def _bar(count: int, most: int) -> str:
    width = 100 * count / most if most else 0
    return f'<svg aria-hidden="true"><rect width="{width:.2f}%" height="100%"/></svg>'


def _kind(outcome: str) -> str:
    return "good" if outcome.isdigit() and int(outcome) < 400 else "bad"


def _link(failure: Failure) -> str:
    text = f"<bdi>{_escaped(failure.url)}</bdi>"
    if not failure.url.lower().startswith(("http://", "https://")):
        return text
    return f'<a href="{_escaped(failure.url)}" rel="noopener noreferrer">{text}</a>'


def _escaped(text: str) -> str:
    clean = text if text.isprintable() else "".join(one if one.isprintable() else "�" for one in text)
    return html.escape(clean)


def _seconds(value: float) -> str:
    if value < 0.9995:
        return f"{1000 * value:.{0 if value >= 0.01 else 1}f} ms"
    if value < 120:
        return f"{value:.1f} s"
    return f"{value / 60:.1f} min"


def _edge(value: float) -> str:
    return f"{value:g} s" if value >= 1 else f"{1000 * value:g} ms"


def _replace(path: Path, page: bytes) -> None:
    """Write the page to a new file in the same folder and rename it. The permissions of an old page are kept."""
    beside = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        beside.unlink()  # left by a run that was killed
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        error.filename = str(path)
        raise
    try:
        try:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(fd, stat.S_IMODE(path.stat().st_mode))
            write_all(fd, bytearray(page), str(path))
        finally:
            os.close(fd)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
