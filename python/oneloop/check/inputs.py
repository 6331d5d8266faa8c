"""Reads the URLs to check from text, CSV, JSON lines and sitemaps.

Inputs are read as needed, so memory use does not grow with their size. An entry without a valid URL becomes a BadLine,
and reading continues; an input that cannot be opened raises an exception. `blocks` reads bytes, `lines` splits them,
`tables` parses CSV, `sitemaps` parses XML, and `urls` checks URLs.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import urljoin, urlsplit

from oneloop.check.blocks import DamagedError, blocks_of, unpacked
from oneloop.check.lines import LINE_BYTES, TooLong, lines_of
from oneloop.check.result import BadLine, Target
from oneloop.check.sitemaps import Sitemap, SitemapError
from oneloop.check.tables import NoRow, Rows
from oneloop.check.urls import SCHEMES, shown, url_of

__all__ = ["FORMS", "Fetch", "Form", "Source", "form_of", "read"]

Form: TypeAlias = Literal["text", "csv", "jsonl", "sitemap"]
FORMS: tuple[Form, ...] = ("text", "csv", "jsonl", "sitemap")

_ONLY_SITEMAPS = " (only a sitemap can be given by its URL; write other URLs into a file)"

Fetch: TypeAlias = "Callable[[str], AsyncIterator[bytes]]"
"""A function that requests a URL and yields the body in pieces. Raises OSError if the request fails."""

Entries: TypeAlias = "AsyncGenerator[Target | BadLine, None]"

_FORM_OF_NAME: dict[str, Form] = {
    "csv": "csv",
    "tsv": "csv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "xml": "sitemap",
}

# In text, a # after whitespace begins a comment. Any other # begins a fragment.
_COMMENT = re.compile(r"\s+#")

DEPTH = 4
"""How deep indexes of sitemaps may be nested."""

MEMBERS = 50_000
"""The most sitemaps that one index may name (sitemaps.org)."""

SITEMAPS = 250_000
"""The most sitemaps that all indexes of a run may name. Their locations are kept, so that none is read twice."""


@dataclass(frozen=True, slots=True)
class Source:
    """An input: its location and its form.

    Raises:
        ValueError: a field has a wrong value.
    """

    location: str
    """A path, `-` for standard input, or an http(s) URL, which needs `fetch`."""
    form: Form | None = None
    """None: the end of the name decides: `.csv`, `.tsv`, `.jsonl`, `.ndjson` or `.xml`, also with `.gz`; others are
    text. A location that is a URL is a sitemap."""
    column: str | int | None = None
    """CSV: a column's name, or its number from 1. JSON lines: a field's name. None: `url`."""
    scheme: Literal["http", "https"] | None = None
    """The scheme for URLs without one. None: such URLs are bad lines."""

    def __post_init__(self) -> None:
        if self.form is not None and self.form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(FORMS)}, not {self.form!r}")
        if self.scheme is not None and self.scheme not in SCHEMES:
            raise ValueError(f"scheme must be http or https, not {self.scheme!r}")
        if isinstance(self.column, int) and self.column < 1:
            raise ValueError(f"columns are numbered from 1, not {self.column}")


def form_of(source: Source) -> Form:
    """Return the form of a source: its `form`, or else the form that follows from its location."""
    if source.form is not None:
        return source.form
    if _is_url(source.location):
        return "sitemap"
    name = source.location.lower().removesuffix(".gz")
    return _FORM_OF_NAME.get(name.rpartition(".")[2], "text") if "." in name else "text"


def read(source: Source, *, fetch: Fetch | None = None) -> Entries:
    """Read the entries of a source in order. Content that is compressed with gzip is decompressed.

    The numbers of targets count bad lines too, so correcting a bad line does not change the numbers of other entries.
    A sitemap that an index names is requested with `fetch`, if it is given. Without `fetch`, the index must be a file,
    and the file with the sitemap's name in the directory of the index is read; files in others are never read.
    Each sitemap is read once, even if several indexes name it.

    Args:
        source: the input.
        fetch: returns the body of a URL as an async iterator of bytes, compressed or not. If it raises OSError for a
            member of an index, the member is a bad line.

    Returns:
        An async iterator of `Target` and `BadLine`.

    Raises:
        OSError: the location cannot be opened or read, or `fetch` raised it for the location.
        ValueError: the location is a URL, and `fetch` is not given; or the CSV file does not have the column.
    """
    if fetch is None and _is_url(source.location):
        raise ValueError(f"{shown(source.location)} is a URL, which is only read with the argument fetch")
    form = form_of(source)
    if form == "sitemap":
        return _Sitemaps(source, fetch).read()
    blocks = fetch(source.location) if fetch is not None and _is_url(source.location) else blocks_of(source.location)
    readers = {"text": _read_text, "csv": _read_csv, "jsonl": _read_json}
    return readers[form](source, blocks)


def _is_url(location: str) -> bool:
    return location[:8].lower().startswith(("http://", "https://"))


def _entry(number: int, line: int, text: str, scheme: str | None, where: str = "") -> Target | BadLine:
    try:
        return Target(number, url_of(text, scheme))
    except ValueError as error:
        return BadLine(line, shown(text), f"{error}{where}")


def _no_lines(line: int, page: TooLong | DamagedError) -> BadLine:
    if isinstance(page, DamagedError):
        return BadLine(line, "", str(page))
    return BadLine(line, shown(page.text), f"a line of more than {LINE_BYTES} bytes")


async def _lines(blocks: AsyncIterator[bytes]) -> AsyncGenerator[list[str] | TooLong | DamagedError, None]:
    """Yield the lines and, if the compressed data is damaged, the DamagedError as the last item."""
    try:
        async with aclosing(_closing(blocks)) as source, aclosing(unpacked(source)) as plain:
            async with aclosing(lines_of(plain)) as pages:
                async for page in pages:
                    yield page
    except DamagedError as error:
        yield error


async def _closing(blocks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the blocks that are not empty. If `blocks` is a generator, it is closed together with this one."""
    try:
        async for block in blocks:
            if block:
                yield block
    finally:
        if isinstance(blocks, AsyncGenerator):
            await blocks.aclose()


async def _read_lines(
    blocks: AsyncIterator[bytes], entry: Callable[[int, int, str], Target | BadLine | None]
) -> Entries:
    """Read a form that has one entry per line.

    Args:
        blocks: the content.
        entry: makes an entry from its number, the number of its line and its text; returns None if the line is skipped.
    """
    number = line = 0
    async with aclosing(_lines(blocks)) as pages:
        async for page in pages:
            if not isinstance(page, list):
                line += 1
                number += 1
                yield _no_lines(line, page)
                continue
            for text in page:
                line += 1
                found = entry(number + 1, line, text)
                if found is not None:
                    number += 1
                    yield found


def _read_text(source: Source, blocks: AsyncIterator[bytes]) -> Entries:
    scheme = source.scheme

    def entry(number: int, line: int, text: str) -> Target | BadLine | None:
        text = text.strip()
        if not text or text[0] == "#":
            return None
        if "#" in text:
            text = _COMMENT.split(text, maxsplit=1)[0]
        return _entry(number, line, text, scheme)

    return _read_lines(blocks, entry)


def _read_json(source: Source, blocks: AsyncIterator[bytes]) -> Entries:
    field = "url" if source.column is None else str(source.column)

    def entry(number: int, line: int, text: str) -> Target | BadLine | None:
        if text.isspace():
            return None
        try:
            url = _field(json.loads(text), field)
        except json.JSONDecodeError as error:
            return BadLine(line, shown(text.strip()), f"not JSON: {error.msg} at character {error.pos + 1}")
        except (ValueError, RecursionError) as error:
            return BadLine(line, shown(text.strip()), shown(str(error)))
        return _entry(number, line, url, source.scheme)

    return _read_lines(blocks, entry)


def _field(value: object, field: str) -> str:
    """The URL of a JSON line, which is a string or an object with this field.

    Raises:
        ValueError: the line has no URL.
    """
    if isinstance(value, dict):
        if field not in value:
            raise ValueError(f"no field {field!r}")
        value = value[field]
        if not isinstance(value, str):
            raise ValueError(f"field {field!r} is not a string")
    if not isinstance(value, str):
        raise ValueError("neither an object nor a string")
    return value


async def _read_csv(source: Source, blocks: AsyncIterator[bytes]) -> Entries:
    column = _Column(source)
    is_tsv = source.location.lower().endswith((".tsv", ".tsv.gz"))
    rows = Rows(None if column.index is None else "\t" if is_tsv else ",")
    number = 0
    async with aclosing(_lines(blocks)) as pages:
        async for page in pages:
            if isinstance(page, list):
                found = rows.feed(page)
                bad = None
            else:
                found = rows.end()
                bad = page
            for line, row in found:
                entry = column.entry(number + 1, line, row)
                if entry is not None:
                    number += 1
                    yield entry
            if bad is not None:
                number += 1
                yield _no_lines(rows.skip_line(), bad)
    for line, row in rows.end():
        entry = column.entry(number + 1, line, row)
        if entry is not None:
            number += 1
            yield entry


class _Column:
    """The CSV column that contains the URL."""

    def __init__(self, source: Source) -> None:
        column = "url" if source.column is None else source.column
        self._name = str(column)
        self._scheme = source.scheme
        self._is_first = True
        is_number = isinstance(column, int) or (column.isascii() and column.isdigit() and int(column) > 0)
        self.index = int(column) - 1 if is_number else None

    def entry(self, number: int, line: int, row: list[str] | NoRow) -> Target | BadLine | None:
        """Make an entry from a row. Return None for empty rows and the header.

        Raises:
            ValueError: the first row does not have this column.
        """
        if isinstance(row, NoRow):
            return BadLine(line, shown(row.text.strip()), row.reason)
        if not row:
            return None
        if self._is_first:
            self._is_first = False
            if self._is_header(row):
                return None
        assert self.index is not None
        if self.index >= len(row):
            return BadLine(line, shown(",".join(row)), f"no column {self.index + 1}: the row has {len(row)}")
        return _entry(number, line, row[self.index], self._scheme)

    def _is_header(self, row: list[str]) -> bool:
        if self.index is not None:
            if self.index >= len(row):
                raise ValueError(f"no column {self.index + 1} in the first row, which has {len(row)}")
            # The name of a column contains none of these characters; a URL contains one.
            return not any(mark in row[self.index] for mark in ".:/")
        names = [name.strip() for name in row]
        for known, wanted in ((names, self._name), ([name.lower() for name in names], self._name.lower())):
            if wanted in known:
                self.index = known.index(wanted)
                return True
        there = shown(", ".join(names))
        raise ValueError(
            f"no column {self._name!r} in the first row ({there}): give one of these names, or a column's number"
        )


async def _next_addresses(sitemap: Sitemap, blocks: AsyncIterator[bytes]) -> tuple[list[tuple[int, str]], bool]:
    """Parse the next block of a sitemap. Return its addresses, and whether it was the last block.

    Raises:
        SitemapError: the XML or the compressed data is damaged. `found()` returns the addresses before the damage.
    """
    try:
        block = await anext(blocks, b"")
    except DamagedError as error:
        sitemap.flush()
        raise SitemapError(sitemap.line, str(error)) from error
    return (sitemap.feed(block), False) if block else (sitemap.end(), True)


class _Sitemaps:
    """Reads a sitemap and, if it is an index, the sitemaps that it names, one after the other."""

    def __init__(self, source: Source, fetch: Fetch | None) -> None:
        self._source = source
        self._fetch = fetch
        self._number = 0
        self._seen = {source.location}

    async def read(self) -> Entries:
        # A stack of the sitemaps to read: location, depth, and the line and index that name it.
        waiting: list[tuple[str, int, tuple[int, str] | None]] = [(self._source.location, 0, None)]
        while waiting:
            location, depth, named = waiting.pop()
            members: list[tuple[int, str]] = []
            try:
                async with aclosing(self._read_one(location, depth, members)) as entries:
                    async for entry in entries:
                        yield entry
            except OSError as error:
                if named is None:
                    raise
                line, where = named
                yield self._bad(line, location, f"cannot be read: {shown(error.strerror or str(error))}", where)
            below: list[tuple[str, int, tuple[int, str] | None]] = []
            for line, address in members:
                try:
                    member = self._member(location, address)
                except ValueError as error:
                    yield self._bad(line, address, str(error), location)
                else:
                    below.append((member, depth + 1, (line, location)))
            waiting += reversed(below)

    def _has_nothing_from(self, location: str, sitemap: Sitemap) -> bool:
        """Whether the user has named a URL, and no entry of it has been read."""
        return location == self._source.location and _is_url(location) and not self._number and not sitemap.is_index

    async def _read_one(self, location: str, depth: int, members: list[tuple[int, str]]) -> Entries:
        """Yield the URLs of a sitemap. The addresses in an index are appended to `members` instead."""
        where = "" if depth == 0 else f" (in {shown(location)})"
        sitemap = Sitemap()
        blocks = self._fetch(location) if self._fetch is not None and _is_url(location) else blocks_of(location)
        has_ended = False
        async with aclosing(_closing(blocks)) as source, aclosing(unpacked(source)) as plain:
            while not has_ended:
                bad: BadLine | None = None
                try:
                    found, has_ended = await _next_addresses(sitemap, plain)
                except SitemapError as error:
                    found, has_ended = sitemap.found(), True
                    hint = _ONLY_SITEMAPS if self._has_nothing_from(location, sitemap) and not found else ""
                    bad = BadLine(error.line, shown(location), f"{error}{hint}")
                for line, address in found:
                    if not sitemap.is_index:
                        self._number += 1
                        yield _entry(self._number, line, address, self._source.scheme, where)
                    elif depth >= DEPTH:
                        yield self._bad(line, address, f"indexes are nested more than {DEPTH} deep", location)
                    elif len(members) == MEMBERS:
                        yield self._bad(line, address, f"an index may name at most {MEMBERS} sitemaps", location)
                        return
                    else:
                        members.append((line, address))
                if bad is not None:
                    self._number += 1
                    yield bad

    def _member(self, index: str, address: str) -> str:
        """The location of a sitemap that an index names.

        Raises:
            ValueError: the sitemap must not be read, or it is read already.
        """
        location = urljoin(index, address) if _is_url(index) else address
        if self._fetch is None or not (_is_url(index) or _is_url(address)):
            # Only files in the folder of the index: its author must not be able to choose other files of this machine.
            name = urlsplit(address).path.rpartition("/")[2]
            if not name or name in {".", ".."} or "\0" in name or index == "-":
                raise ValueError("not the name of a file in the directory of the index")
            location = index[: index.rfind("/") + 1] + name
        elif _is_url(location):
            location = url_of(location)
        else:
            raise ValueError("an index that was fetched names a location that is not an http or https URL")
        if location in self._seen:
            raise ValueError("this sitemap is named a second time; it is read once")
        if len(self._seen) >= SITEMAPS:
            raise ValueError(f"the indexes name more than {SITEMAPS} sitemaps")
        self._seen.add(location)
        return location

    def _bad(self, line: int, text: str, reason: str, location: str) -> BadLine:
        self._number += 1
        return BadLine(line, shown(text), f"{reason} (in {shown(location)})")
