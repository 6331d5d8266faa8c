"""Entries of text, CSV and JSON lines, whole and in pieces; from files, pipes and FIFOs."""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import json
import os
import random
import threading
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from oneloop.check.blocks import BLOCK_BYTES
from oneloop.check.inputs import Fetch, Form, Source, form_of, read
from oneloop.check.lines import LINE_BYTES
from oneloop.check.result import BadLine, Target
from tests.conftest import settle

URL = "http://somewhere.example/list"


def pieces_of(content: bytes, size: int) -> Fetch:
    async def fetch(url: str) -> AsyncIterator[bytes]:
        for start in range(0, len(content), size):
            yield content[start : start + size]

    return fetch


async def entries(source: Source, fetch: Fetch | None = None) -> list[Target | BadLine]:
    return [entry async for entry in read(source, fetch=fetch)]


def read_bytes(content: bytes, form: Form, size: int = 1 << 20, **options: Any) -> list[Target | BadLine]:
    return asyncio.run(entries(Source(URL, form, **options), pieces_of(content, size)))


def brief(found: list[Target | BadLine]) -> list[str]:
    """`number url`, or `line!`."""
    return [f"{one.number} {one.url}" if isinstance(one, Target) else f"{one.line}!" for one in found]


TEXT = """\
\ufeff# a comment
https://a.example/

  https://b.example/#part  \r
https://c.example/#a # and a comment
example.com
\t# comment
https://d.example/\ttail
https://e.example""".encode()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("packed", [False, True])
def test_text(size: int, packed: bool) -> None:
    content = gzip.compress(TEXT[:50]) + gzip.compress(TEXT[50:]) + b"\0" * 20 if packed else TEXT
    found = read_bytes(content, "text", size)
    assert brief(found) == [
        "1 https://a.example/",
        "2 https://b.example/#part",
        "3 https://c.example/#a",
        "6!",
        "8!",
        "6 https://e.example",
    ]
    assert found[3] == BadLine(6, "example.com", "no scheme: write https://example.com, or use --scheme")


@pytest.mark.parametrize("content", [b"", b"\n", b"\n\n", b"#", b"\xef\xbb\xbf", b"\xef\xbb\xbf\r\n", b" \t \n# x"])
@pytest.mark.parametrize("form", ["text", "jsonl", "csv"])
def test_nothing_is_no_entry(content: bytes, form: Form) -> None:
    assert read_bytes(content if form == "text" else content.partition(b"#")[0].replace(b" \t ", b""), form, 1) == []


def test_a_carriage_return_alone_ends_no_line() -> None:
    assert brief(read_bytes(b"http://a.example/\rb\nhttp://c.example/\n", "text")) == ["1!", "2 http://c.example/"]


def test_what_is_no_utf8_matters_in_urls_alone() -> None:
    content = b"http://a.example/\xe4\nhttp://b.example/ # K\xf6ln\nhttp://c.example/\x00\nhttp://d.example/\n"
    found = read_bytes(content, "text")
    assert brief(found) == ["1!", "2 http://b.example/", "3!", "4 http://d.example/"]
    assert isinstance(found[0], BadLine)
    assert found[0].reason == "not UTF-8: byte 0xe4 at character 18"
    assert found[0].text == "http://a.example/\\udce4"


@pytest.mark.parametrize("form", ["text", "jsonl", "csv"])
@pytest.mark.parametrize("size", [5000, 100_000, 10_000_000])
def test_a_line_that_is_too_long_is_bad_and_forgotten(form: Form, size: int) -> None:
    line = b'"http://a.example/"\n'
    content = (b"url\n" if form == "csv" else b"") + line + b"x" * (3 * LINE_BYTES) + b"\n" + line
    content += b"y" * (2 * LINE_BYTES)
    found = read_bytes(content.replace(b'"', b"") if form == "text" else content, form, size)
    first = 2 if form == "csv" else 1
    assert brief(found) == ["1 http://a.example/", f"{first + 1}!", "3 http://a.example/", f"{first + 3}!"]
    assert all(len(one.text) <= 200 for one in found if isinstance(one, BadLine))


@pytest.mark.parametrize("end", [b"", b"\n", b"\nhttp://b.example/"])
@pytest.mark.parametrize("size", [1 << 16, 10_000_000])
def test_the_longest_line(end: bytes, size: int) -> None:
    """Its end counts."""
    line = b"http://a.example/ #".ljust(LINE_BYTES - len(end[:1]), b"x")
    others = ["2 http://b.example/"] if end[1:] else []
    assert brief(read_bytes(line + end, "text", size)) == ["1 http://a.example/", *others]
    assert brief(read_bytes(line + b"x" + end, "text", size)) == ["1!", *others]
    # A line that begins in a block with another's end; no block is longer than a line may be.
    if size < LINE_BYTES:
        assert brief(read_bytes(b"\n" + line + b"x" + end, "text", size)) == ["2!", *others]


def test_memory_is_flat() -> None:
    line = b"https://example.com/some/path?with=a&query=%d\n"

    async def fetch(url: str) -> AsyncIterator[bytes]:
        for block in range(40):
            yield b"".join(line % number for number in range(block * 1000, block * 1000 + 1000))

    async def count() -> int:
        return sum([1 async for _ in read(Source(URL, "text"), fetch=fetch)])

    tracemalloc.start()
    try:
        assert asyncio.run(count()) == 40_000
        assert tracemalloc.get_traced_memory()[1] < 2_500_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("keep", [0, 1, 5, 30, -1])
def test_gzip_that_is_cut_is_a_bad_line(keep: int) -> None:
    content = gzip.compress(b"http://a.example/\n" * 1000)[: keep + 3 if keep >= 0 else keep]
    last = read_bytes(content, "text", 10)[-1]
    assert isinstance(last, BadLine)
    assert "gzip" in last.reason


def test_gzip_that_is_damaged_is_a_bad_line_and_what_is_packed_small_stays_small() -> None:
    last = read_bytes(gzip.compress(b"http://a.example/\n") + b"garbage", "text")
    assert brief(last) == ["1 http://a.example/", "2!"]
    bomb = gzip.compress(b"x" * 100_000_000)
    tracemalloc.start()
    try:
        assert brief(read_bytes(bomb, "text")) == ["1!"]
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


# -- JSON lines ------------------------------------------------------------------------------------------


def test_json_lines() -> None:
    lines = [
        '{"url": "http://a.example/", "x": [1, {}]}',
        '"http://b.example/"',
        "",
        "  ",
        "{broken",
        '{"uri": "http://c.example/"}',
        '{"url": 7}',
        "[]",
        "null",
        "[" * 100_000,
        "9" * 10_000,
        '"http://d.example/\\ud800"',
        '"e.example"\r',
        '"http://f.example/"',
    ]
    found = read_bytes("\n".join(lines).encode(), "jsonl")
    expected = ["1 http://a.example/", "2 http://b.example/", *[f"{line}!" for line in range(5, 14)]]
    assert brief(found) == [*expected, "12 http://f.example/"]
    bad = {one.line: one for one in found if isinstance(one, BadLine)}
    assert bad[6].reason == "no field 'url'"
    assert bad[7].reason == "field 'url' is not a string"
    assert brief(read_bytes(b'{"link": "a.example"}', "jsonl", column="link", scheme="https")) == [
        "1 https://a.example"
    ]


# -- CSV -------------------------------------------------------------------------------------------------

TABLE = """\
name,URL,note\r
one,http://a.example/,"x, ""y""
over lines"\r
two,"http://b.example/?a,b",\r

three\r
four,c.example,\r
five,"http://d.exa
mple/",\r
six, http://e.example/ ,K\xf6ln\r
""".encode("latin-1")


@pytest.mark.parametrize("size", [1, 2, 5, 11, 1000])
def test_csv_by_name(size: int) -> None:
    found = read_bytes(TABLE, "csv", size)
    assert brief(found) == ["1 http://a.example/", "2 http://b.example/?a,b", "6!", "7!", "8!", "6 http://e.example/"]
    assert isinstance(found[2], BadLine)
    assert found[2].reason == "no column 2: the row has 1"


def test_a_number_that_no_column_has() -> None:
    with pytest.raises(ValueError, match="no column 3 in the first row, which has 2"):
        read_bytes(b"name,url\nx,http://a.example/\n", "csv", column=3)


@pytest.mark.parametrize("column", [2, "2"])
def test_csv_by_number(column: str | int) -> None:
    assert brief(read_bytes(b"x,http://a.example/\ny,http://b.example/\n", "csv", column=column)) == [
        "1 http://a.example/",
        "2 http://b.example/",
    ]
    assert brief(read_bytes(b"name,url\ny,b.example\n", "csv", column=column, scheme="http")) == ["1 http://b.example"]


def test_columns_that_are_no_numbers_or_have_no_header() -> None:
    assert brief(read_bytes(b"0,url\nhttp://a.example/,x\n", "csv", column="0")) == ["1 http://a.example/"]
    hosts = read_bytes(b"a.example,x\nb.example,y\n", "csv", column=1, scheme="http")
    assert brief(hosts) == ["1 http://a.example", "2 http://b.example"]


@pytest.mark.parametrize("name", ["urls.tsv", "URLS.TSV.GZ"])
def test_a_tsv_with_a_numbered_column_has_tabs(name: str) -> None:
    source = Source(f"http://somewhere.example/{name}", "csv", column=2)
    content = b"a,b\thttp://a.example/?a,b\n"
    assert brief(asyncio.run(entries(source, pieces_of(content, 100)))) == ["1 http://a.example/?a,b"]


def test_a_row_that_a_long_line_cuts_comes_first() -> None:
    content = b'url\n"http://a.example/\n' + b"x" * (LINE_BYTES + 1) + b"\nhttp://b.example/\n"
    found = read_bytes(content, "csv", 4000)
    assert brief(found) == ["2!", "3!", "3 http://b.example/"]
    reasons = [one.reason for one in found if isinstance(one, BadLine)]
    assert reasons == ["a quoted field that does not end", f"a line of more than {LINE_BYTES} bytes"]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_csv_of_other_separators(separator: str) -> None:
    content = f"name{separator}url\n1{separator}http://a.example/\n".encode()
    assert brief(read_bytes(content, "csv")) == ["1 http://a.example/"]


def test_a_name_with_spaces_or_in_another_case() -> None:
    for header, column in [(b" url , x", None), (b"URL,x", None), (b"url,x", "URL"), (b"URL,url", "URL")]:
        content = header + b"\nhttp://a.example/,http://b.example/\n"
        assert brief(read_bytes(content, "csv", column=column)) == ["1 http://a.example/"]


def test_the_first_of_the_usual_separators_is_taken() -> None:
    assert brief(read_bytes(b"a\tb;c,url\nx,http://a.example/\n", "csv")) == ["1 http://a.example/"]


def test_csv_without_the_column_says_which_there_are() -> None:
    with pytest.raises(ValueError, match=r"no column 'url' in the first row \(name, address\)"):
        read_bytes(b"name,address\n", "csv")


@pytest.mark.parametrize("size", [50, 4000, 1_000_000])
def test_a_quote_that_is_never_closed_costs_its_own_line_alone(size: int) -> None:
    lines = [f"http://a.example/{number}" for number in range(9000)]
    content = "\n".join(["url", '"http://b.example/', *lines, '"never', "http://c.example/"]).encode()
    found = read_bytes(content.replace(b'"never', b"never"), "csv", size)
    bad = [one.line for one in found if isinstance(one, BadLine)]
    assert bad == [2, 9003]
    assert [one.url for one in found if isinstance(one, Target)] == [*lines, "http://c.example/"]
    assert brief(read_bytes(b'url\nhttp://a.example/\n"x\nhttp://b.example/', "csv", size)) == [
        "1 http://a.example/",
        "3!",
        "3 http://b.example/",
    ]


def test_csv_is_what_the_csv_module_reads() -> None:
    randomness = random.Random(13)
    for _ in range(150):
        rows = [
            ["".join(randomness.choices('a",\n\r;é ', k=randomness.randrange(6))) for _ in range(3)] for _ in range(9)
        ]
        for number, row in enumerate(rows):
            row[1] = f"http://a.example/{number}"
        text = io.StringIO(newline="")
        csv.writer(text).writerows([["a", "url", "b"], *rows])
        found = read_bytes(text.getvalue().encode(), "csv", randomness.randrange(1, 40))
        assert brief(found) == [f"{number + 1} http://a.example/{number}" for number in range(9)], text.getvalue()


# -- where they are --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "form"),
    [
        ("-", "text"),
        ("urls", "text"),
        ("urls.TXT", "text"),
        ("csv", "text"),
        ("a.CSV", "csv"),
        ("a.tsv", "csv"),
        ("a.csv.gz", "csv"),
        ("a.jsonl", "jsonl"),
        ("a.ndjson.GZ", "jsonl"),
        ("a.xml", "sitemap"),
        ("a.xml.gz", "sitemap"),
        ("a.gz", "text"),
        ("https://example.com/", "sitemap"),
        ("HTTP://EXAMPLE.COM/a.csv", "sitemap"),
    ],
)
def test_the_name_tells_the_form(location: str, form: Form) -> None:
    assert form_of(Source(location)) == form
    assert form_of(Source(location, "jsonl")) == "jsonl"


@pytest.mark.parametrize("arguments", [{"form": "xls"}, {"scheme": "ftp"}, {"column": 0}])
def test_wrong_options_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Source("-", **arguments)
    with pytest.raises(ValueError, match="fetch"):
        read(Source(URL))


@pytest.mark.usefixtures("loop")
async def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "urls.txt"
    count = 30_000
    path.write_text("".join(f"http://a.example/{number}\n" for number in range(count)))
    assert brief(await entries(Source(str(path)))) == [f"{n + 1} http://a.example/{n}" for n in range(count)]
    packed = tmp_path / "urls.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert len(await entries(Source(str(packed)))) == count


@pytest.mark.usefixtures("loop")
async def test_a_file_that_is_left_in_the_middle_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "urls.jsonl"
    path.write_text('"http://a.example/"\n' * 100_000)
    reading = read(Source(str(path)))
    assert await anext(reading) == Target(1, "http://a.example/")
    await reading.aclose()


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("form", ["text", "sitemap"])
async def test_a_fetch_that_is_left_in_the_middle_is_closed(form: Form) -> None:
    is_closed = False

    async def fetch(url: str) -> AsyncIterator[bytes]:
        nonlocal is_closed
        try:
            while True:
                yield b"http://a.example/\n" if form == "text" else b"<urlset><url><loc>http://a.example/</loc></url>"
        finally:
            is_closed = True

    reading = read(Source(URL, form), fetch=fetch)
    assert await anext(reading) == Target(1, "http://a.example/")
    await reading.aclose()
    assert is_closed


@pytest.mark.usefixtures("loop")
async def test_what_cannot_be_opened_raises_as_open_does(tmp_path: Path) -> None:
    for location, error in [(tmp_path / "missing", FileNotFoundError), (tmp_path, IsADirectoryError)]:
        for form in ("text", "csv", "jsonl", "sitemap"):
            with pytest.raises(error) as raised:
                await entries(Source(str(location), form))  # type: ignore[arg-type]
            with pytest.raises(error) as expected:
                open(location)
            assert (raised.value.errno, str(raised.value)) == (expected.value.errno, str(expected.value))


@pytest.mark.usefixtures("loop")
async def test_a_fifo_and_standard_input_do_not_hold_up_the_loop(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reading = read(Source(str(path)))
    first = asyncio.ensure_future(anext(reading))
    await settle(20)
    assert not first.done()
    # Succeeds at once, if the reader is there: it has been opened, on a thread.
    writer = await asyncio.to_thread(os.open, path, os.O_WRONLY)
    os.write(writer, b"http://a.example/\nhttp://b.")
    assert await first == Target(1, "http://a.example/")
    second = asyncio.ensure_future(anext(reading))
    await settle(20)
    assert not second.done()
    os.write(writer, b"example/\n")
    assert await second == Target(2, "http://b.example/")
    os.close(writer)
    assert [one async for one in reading] == []


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("kind", ["pipe", "file", "null", "terminal"])
async def test_standard_input(kind: str, tmp_path: Path) -> None:
    content = b"http://a.example/\n\nb\n"
    expected = ["1 http://a.example/", "3!"]
    if kind == "pipe":
        reader, writer = os.pipe()
        os.write(writer, content)
        os.close(writer)
    elif kind == "file":
        (tmp_path / "urls").write_bytes(b"skipped" + content)
        reader = os.open(tmp_path / "urls", os.O_RDONLY)
        os.lseek(reader, 7, os.SEEK_SET)
    elif kind == "null":
        reader = os.open("/dev/null", os.O_RDONLY)
        expected = []
    else:
        writer, reader = os.openpty()
        os.write(writer, content + b"\x04")
    before = os.dup(0)
    try:
        os.dup2(reader, 0)
        assert brief(await entries(Source("-"))) == expected
        assert os.get_blocking(0)
        assert not asyncio.get_running_loop().remove_reader(0)
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(reader)
        if kind == "terminal":
            os.close(writer)


@pytest.mark.usefixtures("loop")
async def test_what_another_has_read_is_not_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    plain_read = os.read
    is_late = True

    def late_read(fd: int, count: int) -> bytes:
        nonlocal is_late
        if is_late and count == BLOCK_BYTES:
            is_late = False
            raise BlockingIOError
        return plain_read(fd, count)

    monkeypatch.setattr(os, "read", late_read)
    writer = os.open(path, os.O_RDWR)
    os.write(writer, b"http://a.example/\n")
    reading = read(Source(str(path)))
    assert await anext(reading) == Target(1, "http://a.example/")
    assert not is_late
    await reading.aclose()
    os.close(writer)


@pytest.mark.usefixtures("loop")
async def test_a_reader_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    for turns in range(30):
        reading = asyncio.ensure_future(entries(Source(str(path))))
        await settle(turns)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading


def test_a_descriptor_is_not_closed_under_a_thread_that_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On other loops than oneloop's."""
    path = tmp_path / "urls.txt"
    path.write_text("http://a.example/\n")
    plain_read = os.read
    go_on = threading.Event()
    read_bytes: list[int] = []

    async def work() -> None:
        loop, reads = asyncio.get_running_loop(), asyncio.Event()

        def slow_read(fd: int, count: int) -> bytes:
            if threading.current_thread() is threading.main_thread():
                return plain_read(fd, count)
            loop.call_soon_threadsafe(reads.set)
            go_on.wait()
            found = plain_read(fd, count)
            read_bytes.append(len(found))
            return found

        monkeypatch.setattr(os, "read", slow_read)
        reading = asyncio.ensure_future(entries(Source(str(path))))
        await reads.wait()
        reading.cancel()
        await settle(20)
        is_done = reading.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert not is_done

    asyncio.run(work())
    assert read_bytes == [18]


def test_json_and_text_agree() -> None:
    urls = [f"http://a.example/{number}" for number in range(5000)]
    text = read_bytes("\n".join(urls).encode(), "text", 100)
    lines = read_bytes("\n".join(json.dumps({"url": url}) for url in urls).encode(), "jsonl", 100)
    assert text == lines == [Target(number, url) for number, url in enumerate(urls, 1)]
