"""`--static`: which file a request gets, and how: types, conditions, ranges, precompressed files, folders."""

from __future__ import annotations

import asyncio
import os
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest

from tests.http.file_server import Serving, serving

CONTENT = bytes(range(256)) * 4
MODIFIED_S = 1_700_000_000
DATE = formatdate(MODIFIED_S, usegmt=True)


def write(path: Path, content: bytes, modified_s: int = MODIFIED_S) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (modified_s, modified_s))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "www"
    write(folder / "data.bin", CONTENT)
    write(folder / "index.html", b"<p>start</p>")
    write(folder / "sub/index.html", b"<p>sub</p>")
    write(folder / "bare/file.txt", b"bare")
    write(folder / "empty.css", b"")
    write(folder / "name with é.txt", b"name")
    write(folder / "archive.tar.gz", b"archive")
    write(folder / "x.UNKNOWN", b"unknown")
    write(folder / ".hidden", b"hidden")
    write(folder / ".git/config", b"hidden")
    write(folder / ".well-known/security.txt", b"known")
    write(tmp_path / "secret", b"secret")
    return folder


async def test_a_file_is_a_response_with_its_validators(folder: Path) -> None:
    async with serving(("/static", folder)) as served:
        # What is not in the kernel's cache is found by a thread: the same response, each time.
        for _ in range(3):
            answer = await served.get("/static/data.bin")
            assert answer.status == 200
            assert answer.body == CONTENT
            assert answer.headers["content-type"] == "application/octet-stream"
            assert answer.headers["content-length"] == str(len(CONTENT))
            assert answer.headers["last-modified"] == DATE
            assert answer.headers["accept-ranges"] == "bytes"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["etag"] == f'"{MODIFIED_S * 10**9:x}-{len(CONTENT):x}"'
            assert "date" in answer.headers
            assert "vary" not in answer.headers


async def test_head_has_the_fields_of_get(folder: Path) -> None:
    async with serving(("/static", folder)) as served:
        get = await served.get("/static/data.bin")
        head = await served.get("/static/data.bin", "HEAD")
        assert (head.status, head.body) == (200, b"")
        assert head.headers == get.headers | {"date": head.headers["date"]}
        ranged = await served.get("/static/data.bin", "HEAD", range="bytes=0-1")
        assert ranged.status == 200


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("index.html", "text/html; charset=utf-8"),
        ("empty.css", "text/css; charset=utf-8"),
        ("archive.tar.gz", "application/gzip"),
        ("x.UNKNOWN", "application/octet-stream"),
        ("a.JS", "text/javascript; charset=utf-8"),
        ("a.mjs", "text/javascript; charset=utf-8"),
        ("a.json", "application/json; charset=utf-8"),
        ("a.svg", "image/svg+xml; charset=utf-8"),
        ("a.wasm", "application/wasm"),
        ("a.woff2", "font/woff2"),
        ("a.png", "image/png"),
        ("a.tgz", "application/gzip"),
        ("a.tar.bz2", "application/octet-stream"),
        ("noname", "application/octet-stream"),
        ("dot.", "application/octet-stream"),
    ],
)
async def test_types_are_by_suffix(folder: Path, name: str, kind: str) -> None:
    if not (folder / name).exists():
        write(folder / name, b"x")
    async with serving(("/static", folder)) as served:
        answer = await served.get(f"/static/{name}")
        assert (answer.status, answer.headers["content-type"]) == (200, kind)


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/static/", 200, b"<p>start</p>"),
        ("/static/sub/", 200, b"<p>sub</p>"),
        ("/static/sub/index.html", 200, b"<p>sub</p>"),
        ("/static/empty.css", 200, b""),
        ("/static/name%20with%20%C3%A9.txt", 200, b"name"),
        ("/static/%64ata.bin?query=1", 200, CONTENT),
        ("/static/.well-known/security.txt", 200, b"known"),
        ("/static/bare/", 404, b""),
        ("/static/none", 404, b""),
        ("/static/data.bin/", 404, b""),
        ("/static/data.bin/more", 404, b""),
        ("/static/.hidden", 404, b""),
        ("/static/.git/config", 404, b""),
        ("/static/%2egit/config", 404, b""),
        ("/static//data.bin", 404, b""),
        ("/static/sub//index.html", 404, b""),
        ("/static/data.bin%00", 404, b""),
        ("/static/" + "x" * 300, 404, b""),
        ("/static/" + "x/" * 2000, 404, b""),
        ("/statica", 404, b"app"),
        ("/", 404, b"app"),
        ("/other", 404, b"app"),
    ],
)
async def test_paths(folder: Path, path: str, status: int, body: bytes) -> None:
    async with serving(("/static", folder)) as served:
        for _ in range(2):
            answer = await served.get(path)
            assert (answer.status, answer.body) == (status, body)


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/static", "/static/"),
        ("/static?a=b", "/static/?a=b"),
        ("/static/sub", "/static/sub/"),
        ("/static/sub?a=%20", "/static/sub/?a=%20"),
        ("/static/%73ub", "/static/sub/"),
        ("/static/bare", "/static/bare/"),
    ],
)
async def test_a_folder_is_named_with_a_slash(folder: Path, path: str, location: str) -> None:
    async with serving(("/static/", folder)) as served:
        answer = await served.get(path)
        assert (answer.status, answer.headers["location"], answer.body) == (308, location, b"")


async def test_a_redirect_names_no_other_host(folder: Path) -> None:
    (folder / "é\\x").mkdir()
    async with serving(("/", folder)) as served:
        assert (await served.get("//sub")).body == b"app"
        answer = await served.get("/%C3%A9%5Cx")
        assert answer.headers["location"] == "/%C3%A9%5Cx/"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
async def test_other_methods_are_refused(folder: Path, method: str) -> None:
    async with serving(("/static", folder)) as served:
        answer = await served.get("/static/data.bin", method)
        assert (answer.status, answer.headers["allow"], answer.body) == (405, "GET, HEAD", b"")


async def test_a_body_nobody_asked_for_is_read_and_dropped(folder: Path) -> None:
    async with serving(("/static", folder)) as served, served.client() as client:
        for method, status in [("GET", 200), ("POST", 405)]:
            client.send("/static/data.bin", method, b"x" * 100_000)
            assert (await client.answer()).status == status
        assert (await client.get("/static/data.bin")).body == CONTENT


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=10-19", 10, 19),
        ("bytes=1000-", 1000, 1023),
        ("bytes=-24", 1000, 1023),
        ("bytes=1000-9999", 1000, 1023),
        ("bytes=-9999", 0, 1023),
    ],
)
async def test_ranges(folder: Path, asked: str, first: int, last: int) -> None:
    async with serving(("/static", folder)) as served:
        for _ in range(2):
            answer = await served.get("/static/data.bin", range=asked)
            assert answer.status == 206
            assert answer.headers["content-range"] == f"bytes {first}-{last}/1024"
            assert answer.body == CONTENT[first : last + 1]


@pytest.mark.parametrize("asked", ["bytes=5-2", "bytes=0-5,5-6", "bytes=0-,0-,0-", "bytes=", "lines=1-2", "bytes=a-b"])
async def test_ranges_that_are_none_are_left_out(folder: Path, asked: str) -> None:
    async with serving(("/static", folder)) as served:
        answer = await served.get("/static/data.bin", range=asked)
        assert (answer.status, answer.body) == (200, CONTENT)


@pytest.mark.parametrize("times", [1, 1000])
async def test_several_ranges(folder: Path, times: int) -> None:
    """RFC 9110 section 14.6; short responses leave in one write, long ones piece by piece."""
    content = CONTENT * times
    write(folder / "many.txt", content)
    half = len(content) // 2
    async with serving(("/static", folder)) as served:
        for _ in range(2):
            answer = await served.get("/static/many.txt", range=f"bytes={half}-,0-9, 20-29,{len(content)}-")
            assert answer.status == 206
            kind, _, boundary = answer.headers["content-type"].partition("; boundary=")
            assert kind == "multipart/byteranges"
            assert answer.headers["content-length"] == str(len(answer.body))
            text = b""
            for first, last in ((half, len(content) - 1), (0, 9), (20, 29)):
                text += f"\r\n--{boundary}\r\ncontent-type: text/plain; charset=utf-8\r\n".encode()
                text += f"content-range: bytes {first}-{last}/{len(content)}\r\n\r\n".encode()
                text += content[first : last + 1]
            assert answer.body == text.removeprefix(b"\r\n") + f"\r\n--{boundary}--\r\n".encode()
        assert (await served.get("/static/many.txt", range=f"bytes=0-9,{len(content)}-")).body == content[:10]
        ranges = ",".join(f"{place}-{place}" for place in range(0, 34, 2))
        assert (await served.get("/static/many.txt", range=f"bytes={ranges}")).status == 200


@pytest.mark.parametrize("asked", ["bytes=1024-", "bytes=-0", "bytes=99999999999999999999999-"])
async def test_ranges_behind_the_end(folder: Path, asked: str) -> None:
    async with serving(("/static", folder)) as served:
        answer = await served.get("/static/data.bin", range=asked)
        assert (answer.status, answer.headers["content-range"], answer.body) == (416, "bytes */1024", b"")


async def test_conditions(folder: Path) -> None:
    async with serving(("/static", folder)) as served:
        whole = await served.get("/static/data.bin")
        etag = whole.headers["etag"]
        for headers in ({"if_none_match": etag}, {"if_none_match": "*"}, {"if_modified_since": DATE}):
            answer = await served.get("/static/data.bin", **headers)
            assert answer.status == 304
            assert (answer.headers["etag"], answer.headers["last-modified"]) == (etag, DATE)
            assert "content-length" not in answer.headers
        for headers in ({"if_match": '"x"'}, {"if_unmodified_since": formatdate(MODIFIED_S - 1, usegmt=True)}):
            assert (await served.get("/static/data.bin", **headers)).status == 412
        answer = await served.get("/static/data.bin", range="bytes=0-1", if_range=etag)
        assert answer.status == 206
        answer = await served.get("/static/data.bin", range="bytes=0-1", if_range='"x"')
        assert answer.status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        # RFC 9110 section 13.1.2: compared weakly, and before If-Modified-Since.
        ({"if_none_match": "W/{etag}"}, 304),
        ({"if_none_match": '"x", {etag}'}, 304),
        ({"if_none_match": "{etag}", "if_modified_since": formatdate(0, usegmt=True)}, 304),
        ({"if_none_match": '"x"', "if_modified_since": DATE}, 200),
        ({"if_none_match": "{bare}"}, 200),
        # Section 13.1.3: what is no date is not there; a date to come is later than the file's.
        ({"if_modified_since": "yesterday"}, 200),
        ({"if_modified_since": "Thu, 01 Jan 2099 00:00:00 GMT"}, 304),
    ],
)
async def test_conditions_at_the_edge(folder: Path, headers: dict[str, str], status: int) -> None:
    async with serving(("/static", folder)) as served:
        etag = (await served.get("/static/data.bin")).headers["etag"]
        asked = {name: text.format(etag=etag, bare=etag.strip('"')) for name, text in headers.items()}
        assert (await served.get("/static/data.bin", **asked)).status == status


async def test_a_file_of_the_future_is_as_old_as_its_response(folder: Path) -> None:
    """RFC 9110 section 8.8.2.1: no date is later than the message."""
    write(folder / "future.txt", b"future", 4_000_000_000)
    async with serving(("/static", folder)) as served:
        for _ in range(2):
            answer = await served.get("/static/future.txt")
            assert answer.status == 200
            modified = parsedate_to_datetime(answer.headers["last-modified"])
            assert modified <= parsedate_to_datetime(answer.headers["date"])
            # Whoever has it asks by its tag.
            again = await served.get("/static/future.txt", **{"If-None-Match": answer.headers["etag"]})
            assert again.status == 304


async def test_a_changed_file_is_seen_at_once(folder: Path) -> None:
    async with serving(("/static", folder)) as served, served.client() as client:
        for number in range(50):
            content = b"%d" % number * 100
            (folder / "page.html").write_bytes(content)
            assert (await client.get("/static/page.html")).body == content
        os.unlink(folder / "page.html")
        assert (await client.get("/static/page.html")).status == 404
        (folder / "page.html").mkdir()
        assert (await client.get("/static/page.html")).status == 308


async def test_a_folder_that_is_exchanged_is_seen_at_once(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path / name / "page", name.encode())
    current = tmp_path / "current"
    async with serving(("/static", current)) as served, served.client() as client:
        assert (await client.get("/static/page")).status == 404
        for name in ("one", "two", "one"):
            (tmp_path / "next").symlink_to(name)
            (tmp_path / "next").rename(current)
            assert (await client.get("/static/page")).body == name.encode()
        (tmp_path / "one").rename(tmp_path / "old")
        assert (await client.get("/static/page")).status == 404


async def test_precompressed_files(folder: Path) -> None:
    write(folder / "page.js", b"plain" * 10)
    write(folder / "page.js.gz", b"gzip")
    write(folder / "page.js.br", b"brotli")
    write(folder / "page.js.zst", b"old zstd", MODIFIED_S - 1)
    async with serving(("/static", folder)) as served:
        for accepted, coding, body in [
            ("gzip, deflate, br, zstd", "br", b"brotli"),
            ("GZIP", "gzip", b"gzip"),
            ("zstd, gzip;q=0.5", "gzip", b"gzip"),
            ("br;q=0, gzip; q=0.0", None, b"plain" * 10),
            ("identity", None, b"plain" * 10),
            ("br;q=0.2, gzip;q=0.8", "gzip", b"gzip"),
            ("br;q=0.2, gzip;q=0.2", "br", b"brotli"),
            ("br;q=0.2, identity;q=0.5", None, b"plain" * 10),
        ]:
            answer = await served.get("/static/page.js", accept_encoding=accepted)
            assert (answer.headers.get("content-encoding"), answer.body) == (coding, body)
            assert answer.headers["vary"] == "accept-encoding"
            assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
        plain = await served.get("/static/page.js")
        packed = await served.get("/static/page.js", accept_encoding="br")
        assert plain.headers["vary"] == "accept-encoding"
        assert plain.headers["etag"] != packed.headers["etag"]
        answer = await served.get("/static/page.js", accept_encoding="br", if_none_match=packed.headers["etag"])
        assert (answer.status, answer.headers["vary"]) == (304, "accept-encoding")
        answer = await served.get("/static/page.js", accept_encoding="br", range="bytes=1-2")
        assert (answer.status, answer.body) == (206, b"ro")
        # Named itself, it is a file.
        assert "content-encoding" not in (await served.get("/static/page.js.br")).headers


async def test_at_the_root_the_application_gets_what_is_no_file(folder: Path) -> None:
    async with serving(("/", folder), reserved=("/sub/index.html",)) as served:
        assert (await served.get("/data.bin")).body == CONTENT
        assert (await served.get("/")).body == b"<p>start</p>"
        for path in ("/none", "/.hidden", "/bare/", "/sub/index.html"):
            assert (await served.get(path)).body == b"app"
        assert (await served.get("/data.bin", "POST")).body == b"app"


async def test_the_longest_url_wins(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "inner/data.bin", b"inner")
    async with serving(("/", folder), ("/sub", tmp_path / "inner")) as served:
        assert (await served.get("/sub/data.bin")).body == b"inner"
        assert (await served.get("/data.bin")).body == CONTENT


async def test_the_root_path_is_the_clients(folder: Path) -> None:
    async with serving(("/api/static", folder), root_path="/api") as served:
        assert (await served.get("/static/data.bin")).body == CONTENT
        assert (await served.get("/static/sub")).headers["location"] == "/api/static/sub/"
        assert (await served.get("/api/static/data.bin")).body == b"app"


async def test_keep_alive_and_its_end(folder: Path) -> None:
    async with serving(("/static", folder)) as served:
        async with served.client() as client:
            client.send("/static/data.bin", version="1.0")
            assert (await client.answer()).headers["connection"] == "close"
            assert await client.reader.read() == b""
        async with served.client() as client:
            client.send("/static/data.bin", version="1.0", connection="keep-alive")
            assert (await client.answer()).headers["connection"] == "keep-alive"
            client.send("/static/data.bin", connection="close")
            assert (await client.answer()).body == CONTENT
            assert await client.reader.read() == b""


async def test_pipelined_requests_are_answered_in_order(folder: Path) -> None:
    write(folder / "large.bin", CONTENT * 1000)
    async with serving(("/static", folder)) as served, served.client() as client:
        paths = ["/static/data.bin", "/other", "/static/large.bin", "/static/none", "/static/sub/"] * 10
        for path in paths:
            client.send(path)
        for path in paths:
            body = {"data.bin": CONTENT, "other": b"app", "large.bin": CONTENT * 1000, "none": b"", "": b"<p>sub</p>"}
            assert (await client.answer()).body == body[path.rsplit("/", 1)[1]]


async def test_the_access_log_and_the_counts_have_them(folder: Path) -> None:
    told: list[Any] = []
    counts: list[int] = []
    write(folder / "large.bin", CONTENT * 1000)

    def on_response(*response: Any) -> None:
        told.append(response)

    options: dict[str, Any] = {"on_response": on_response, "on_request_end": counts.append}
    async with serving(("/static", folder), **options) as served, served.client() as client:
        for path in ("data.bin", "large.bin", "none", "data.bin?x=y"):
            await client.get(f"/static/{path}")
        await client.get("/static/data.bin", "HEAD")
        assert [(entry[1], entry[2], entry[4], entry[5]) for entry in told] == [
            ("GET", b"/static/data.bin", 200, 1024),
            ("GET", b"/static/large.bin", 200, 1024_000),
            ("GET", b"/static/none", 404, 0),
            ("GET", b"/static/data.bin?x=y", 200, 1024),
            ("HEAD", b"/static/data.bin", 200, 0),
        ]
        assert told[0][0][0] == "127.0.0.1"
        assert counts == [1, 2, 3, 4, 5]
        assert (served.http.total_requests, served.http.requests) == (5, 0)
    counts.clear()
    async with serving(("/static", folder), on_request_end=counts.append) as served, served.client() as client:
        for path in ("data.bin", "large.bin", "none"):
            await client.get(f"/static/{path}")
        assert counts == [1, 2, 3]


async def test_a_wsgi_application_has_them_in_front(folder: Path) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        raise AssertionError

    async with serving(("/static", folder), app=app, interface="wsgi") as served, served.client() as client:
        assert (await client.get("/static/data.bin")).body == CONTENT
        assert (await client.get("/static/none")).status == 404


async def test_a_server_that_shuts_down_responses_and_closes(folder: Path) -> None:
    write(folder / "large.bin", CONTENT * 20_000)
    async with serving(("/static", folder)) as served, served.client() as client:
        client.send("/static/large.bin")
        answer = await client.head()
        served.http.shut_down()
        assert await client.reader.readexactly(int(answer.headers["content-length"])) == CONTENT * 20_000
        assert await client.reader.read() == b""


async def test_the_file_of_many_clients(folder: Path) -> None:
    write(folder / "large.bin", CONTENT * 2000)

    async def one(served: Serving) -> None:
        assert (await served.get("/static/large.bin")).body == CONTENT * 2000

    async with serving(("/static", folder)) as served:
        await asyncio.gather(*(one(served) for _ in range(20)))
