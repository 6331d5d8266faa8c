"""`--compress`: which responses are compressed, how their heads change, and that parts arrive at once."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oneloop.http import AsyncClient
from oneloop.http.compression import encoders, settings
from tests.http.file_server import Answer, serving

TEXT = b"some text that repeats itself. " * 200
MADE = {name for name, _ in encoders()}


def unzip(data: bytes) -> bytes:
    return zlib.decompress(data, zlib.MAX_WBITS | 16)


def answering(*fields: tuple[str, str], status: int = 200, body: bytes = TEXT, parts: int = 1) -> Callable[..., Any]:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(name.encode(), value.encode()) for name, value in fields]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for number in range(parts):
            await send({"type": "http.response.body", "body": body, "more_body": number < parts - 1})

    return app


async def ask(app: Any, method: str = "GET", interface: str = "asgi", **headers: str) -> Answer:
    headers.setdefault("accept_encoding", "gzip")
    async with serving(app=app, interface=interface, compress=settings()) as served, served.client() as client:
        return await client.get("/", method, **headers)


HTML = ("content-type", "text/html; charset=utf-8")
LENGTH = ("content-length", str(len(TEXT)))


@pytest.mark.parametrize("fields", [(HTML,), (HTML, LENGTH)])
@pytest.mark.parametrize("parts", [1, 3])
async def test_text_is_compressed(fields: tuple[tuple[str, str], ...], parts: int) -> None:
    if len(fields) == 2:
        fields = (HTML, ("content-length", str(len(TEXT) * parts)))
    response = await ask(answering(*fields, ("etag", '"x"'), ("accept-ranges", "bytes"), parts=parts))
    assert (response.headers["content-encoding"], response.headers["vary"]) == ("gzip", "accept-encoding")
    assert response.headers["etag"] == 'W/"x"'
    assert "accept-ranges" not in response.headers
    assert unzip(response.body) == TEXT * parts
    assert ("content-length" in response.headers) == (parts == 1)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ((("content-type", "image/png"),), 200),
        ((), 200),
        ((HTML, ("content-encoding", "br")), 200),
        ((HTML, ("cache-control", "public, No-Transform")), 200),
        ((HTML, ("content-range", f"bytes 0-{len(TEXT) - 1}/99999")), 206),
        ((HTML,), 206),
    ],
)
async def test_what_is_left_as_it_is(fields: tuple[tuple[str, str], ...], status: int) -> None:
    response = await ask(answering(*fields, ("etag", '"x"'), status=status))
    assert (response.status, response.body, response.headers["etag"]) == (status, TEXT, '"x"')
    assert "vary" not in response.headers


async def test_sizes_that_do_not_pay_are_left() -> None:
    _, least, most = settings()
    for body in (b"x" * (least - 1), b"x" * (most + 1)):
        response = await ask(answering(HTML, body=body))
        assert "content-encoding" not in response.headers
        assert response.body == body


@pytest.mark.parametrize("accepted", ["", "identity", "gzip;q=0", "gzip;q=0.5, identity", "x"])
async def test_clients_that_do_not_want_it_vary(accepted: str) -> None:
    response = await ask(answering(HTML, ("etag", '"x"')), accept_encoding=accepted)
    assert (response.body, response.headers["vary"], response.headers["etag"]) == (TEXT, "accept-encoding", '"x"')


@pytest.mark.parametrize("http2", [False, True])
async def test_an_etag_becomes_weak_wherever_it_stands(http2: bool) -> None:
    app = answering(("etag", '"x"'), HTML, ("x-etag", '"y"'))
    async with serving(app=app, compress=settings()) as served, AsyncClient(http1=not http2, http2=http2) as client:
        response = await client.get(f"http://127.0.0.1:{served.port}/")
    assert response.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
    assert (response.content, response.headers["content-encoding"] in MADE) == (TEXT, True)
    assert (response.headers["etag"], response.headers["x-etag"]) == ('W/"x"', '"y"')


async def test_vary_is_said_once() -> None:
    response = await ask(answering(HTML, ("vary", "Origin, Accept-Encoding")))
    assert (response.headers["vary"], unzip(response.body)) == ("Origin, Accept-Encoding", TEXT)


@pytest.mark.skipif("br" not in MADE, reason="needs the package brotli")
async def test_the_quality_chooses_the_coding() -> None:
    for accepted, coding in [("gzip, br", "br"), ("gzip;q=1, br;q=0.5", "gzip")]:
        response = await ask(answering(HTML), accept_encoding=accepted)
        assert response.headers["content-encoding"] == coding


async def test_head_has_the_fields_of_get() -> None:
    response = await ask(answering(HTML, LENGTH), "HEAD")
    assert (response.headers["content-encoding"], response.headers["vary"]) == ("gzip", "accept-encoding")
    assert "content-length" not in response.headers


async def test_each_part_arrives_at_once() -> None:
    import asyncio

    going = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await going.wait()
        for number in range(3):
            going.clear()
            await send({"type": "http.response.body", "body": b"part %d" % number, "more_body": True})
            await going.wait()
        await send({"type": "http.response.body", "body": b""})

    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    async with serving(app=app, compress=settings()) as served, served.client() as client:
        client.send("/", accept_encoding="gzip")
        assert (await client.head()).headers["content-encoding"] == "gzip"
        for number in range(3):
            going.set()
            length = int(await client.reader.readline(), 16)
            assert unpacker.decompress(await client.reader.readexactly(length)) == b"part %d" % number
            await client.reader.readline()
        going.set()
        length = int(await client.reader.readline(), 16)
        unpacker.decompress(await client.reader.readexactly(length))
        assert unpacker.eof


async def test_a_wrong_length_is_still_an_error() -> None:
    async with (
        serving(
            app=answering(HTML, ("content-length", "5000"), body=b"x" * 4000, parts=2), compress=settings()
        ) as served,
        served.client() as client,
    ):
        client.send("/", accept_encoding="gzip")
        assert (await client.head()).status == 200
        rest = await client.reader.read()
        assert not rest.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("parts", [1, 3])
async def test_wsgi(parts: int) -> None:
    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(TEXT) * parts))])
        return [TEXT] * parts

    response = await ask(app, interface="wsgi")
    assert response.headers["content-encoding"] == "gzip"
    assert unzip(response.body) == TEXT * parts


async def test_files(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_bytes(TEXT)
    (tmp_path / "large.txt").write_bytes(TEXT * 100)
    (tmp_path / "noise.png").write_bytes(os.urandom(5000))
    (tmp_path / "made.css").write_bytes(TEXT)
    (tmp_path / "made.css.gz").write_bytes(b"made before")
    async with serving(("/static", tmp_path), compress=settings()) as served:
        for name, content in (("page.html", TEXT), ("large.txt", TEXT * 100)):
            for _ in range(2):
                response = await served.get(f"/static/{name}", accept_encoding="gzip")
                assert (response.headers["content-encoding"], response.headers["vary"]) == ("gzip", "accept-encoding")
                assert unzip(response.body) == content
            etag = response.headers["etag"]
            assert etag.startswith('W/"')
            again = await served.get(f"/static/{name}", accept_encoding="gzip", if_none_match=etag)
            assert (again.status, again.headers["etag"]) == (304, etag)
            head = await served.get(f"/static/{name}", "HEAD", accept_encoding="gzip")
            assert head.headers["content-encoding"] == "gzip"
            assert "content-length" not in head.headers
            plain = await served.get(f"/static/{name}")
            assert (plain.body, plain.headers["vary"]) == (content, "accept-encoding")
            part = await served.get(f"/static/{name}", accept_encoding="gzip", range="bytes=5-9")
            assert (part.status, part.body) == (206, content[5:10])
            assert "content-encoding" not in part.headers
        assert "content-encoding" not in (await served.get("/static/noise.png", accept_encoding="gzip")).headers
        assert (await served.get("/static/made.css", accept_encoding="gzip")).body == b"made before"


async def test_a_file_of_the_application(tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    path.write_bytes(TEXT * 100)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.pathsend", "path": str(path)})

    response = await ask(app)
    assert (response.headers["content-encoding"], unzip(response.body)) == ("gzip", TEXT * 100)


def test_encoders_flush_each_part() -> None:
    for name, make in encoders():
        encode = make()
        assert encode(b"a", True), name
        assert encode(b"", False), name
