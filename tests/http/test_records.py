"""Each response is recorded once, in whichever way it is made and in whichever way it ends."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path
from typing import Any, cast

import pytest

from oneloop import tls as rustls
from oneloop.http.static import settings
from tests.http.frames import handshake, opened
from tests.http.records import (
    CLIENT_GONE,
    LONG_BYTES,
    PART,
    WAYS,
    Course,
    Records,
    Row,
    asgi_whole,
    asked,
    leave,
    recorded,
    start,
    static,
    until,
)
from tests.http.site import GET, App, Receive, Scope, Send, reply, secured, serving
from tests.http.socket_client import SocketClient
from tests.tls.authority import HOST, Authority


@pytest.mark.parametrize("way", WAYS)
async def test_a_whole_response(way: str, tmp_path: Path) -> None:
    async with recorded(Course(tmp_path), way) as (site, records):
        wire = await site.connect()
        for _ in range(2):
            assert (await wire.ask(asked("/whole"))).body == PART
        await until(lambda: len(records.rows) == 2)
    assert records.rows == [Row("GET", b"/whole", 200, 1000, True)] * 2


@pytest.mark.parametrize(
    ("way", "row"),
    [
        ("asgi-whole", Row("GET", b"/fails", 500, 21, True)),
        ("asgi-stream", Row("GET", b"/fails", 200, 1000, False)),
        ("wsgi-list", Row("GET", b"/fails", 500, 21, True)),
        ("wsgi-iterator", Row("GET", b"/fails", 200, 1000, False)),
        ("wsgi-write", Row("GET", b"/fails", 200, 1000, False)),
        ("green-list", Row("GET", b"/fails", 500, 21, True)),
        ("green-iterator", Row("GET", b"/fails", 200, 1000, False)),
        ("green-write", Row("GET", b"/fails", 200, 1000, False)),
    ],
)
async def test_an_application_that_fails(way: str, row: Row, tmp_path: Path) -> None:
    async with recorded(Course(tmp_path), way) as (site, records):
        wire = await site.connect()
        await wire.send(asked("/fails"))
        await wire.rest()
        await site.until_empty()
    assert records.rows == [row]


# By the ways to leave: the status, and whether the response is complete for the server.
GONE = {"fin": (CLIENT_GONE, False), "rst": (CLIENT_GONE, False), "half": (CLIENT_GONE, False), "stop": (500, True)}
CUT = dict.fromkeys(("fin", "rst", "half", "stop"), (200, False))
# A thread does not see that its client has ended its side; one that still reads gets everything.
LEFT: dict[str, dict[str, tuple[int, bool]]] = {
    "asgi-whole": GONE,
    "asgi-stream": CUT,
    "asgi-pathsend": CUT | {"half": (200, True)},
    "wsgi-list": GONE | {"fin": (200, True), "half": (200, True)},
    "wsgi-iterator": CUT | {"half": (200, True)},
    "wsgi-write": CUT | {"half": (200, True)},
    "wsgi-file": CUT | {"half": (200, True)},
    "green-list": GONE | {"fin": (200, True), "half": (200, True)},
    "green-iterator": CUT | {"half": (200, True)},
    "green-write": CUT | {"half": (200, True)},
    "green-file": CUT | {"half": (200, True)},
    "static": CUT | {"half": (200, True)},
}


LEAVES = [(way, end) for way, ends in LEFT.items() for end in ends]


@pytest.mark.parametrize(("way", "end"), LEAVES)
async def test_a_response_that_is_left(way: str, end: str, tmp_path: Path) -> None:
    course = Course(tmp_path)
    status, is_complete = LEFT[way][end]
    async with recorded(course, way) as (site, records):
        wire = await site.connect(limit=1000)
        await wire.send(asked("/waits"))
        await until(lambda: course.waiting)
        if status == 200 and not way.endswith("list"):
            await wire.head()
        await leave(site, wire, end, course)
        if end == "half":
            while await wire.reader.read(1 << 20):
                pass
        await until(lambda: records.rows)
        course.is_open.set()
        await wire.close()
        await site.until_empty()
    [row] = records.rows
    assert (row.target, row.status, row.is_complete) == (b"/waits", status, is_complete)
    if status == CLIENT_GONE:
        assert row.sent_bytes == 0
    elif not is_complete:
        assert row.sent_bytes < LONG_BYTES


def whole(way: str) -> tuple[App, dict[str, Any]]:
    """An application whose response is one long body, and its options."""

    async def asgi(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, bytes(LONG_BYTES))

    def wsgi(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [bytes(LONG_BYTES)]

    if way == "asgi":
        return asgi, {}
    return cast("App", wsgi), {"interface": "wsgi", "green": way == "green"}


@pytest.mark.parametrize("end", ["fin", "rst", "stop"])
@pytest.mark.parametrize("way", ["asgi", "wsgi", "green"])
async def test_a_response_that_is_left_when_all_of_it_is_written(way: str, end: str, tmp_path: Path) -> None:
    """It waits in the transport; its application has ended."""
    records = Records()
    app, options = whole(way)
    async with serving(app, on_response=records.on_response, **options) as site:
        wire = await site.connect(limit=1000)
        await wire.send(GET)
        await wire.head()
        await site.until_idle()
        assert not records.rows
        await leave(site, wire, end, Course(tmp_path))
        await until(lambda: records.rows)
        await wire.close()
        for thread in site.http.end_threads():
            await asyncio.to_thread(thread.join, 10)
    [row] = records.rows
    assert (row.status, row.is_complete) == (200, False)
    assert 0 < row.sent_bytes < LONG_BYTES
    assert site.http.total_requests == 1
    records.check_metrics()


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("library", ["rustls", "openssl"])
async def test_a_last_response_over_tls_whose_client_resets_its_connection(
    library: str, reads: bool, authority: Authority
) -> None:
    """Who has read all of it has it; what was encrypted and not sent was not sent."""
    records = Records()
    app, _ = whole("asgi")
    context: Any = rustls.server_context(authority.server) if library == "rustls" else authority.server_context()
    async with secured(app, context, on_response=records.on_response) as (site, port):
        client = await SocketClient.connect(port, authority.client_context(), HOST, 1 << 20)
        await client.send(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        while not client.got:
            assert await client.read()
        await site.until_idle()
        assert not records.rows
        if reads:
            await client.rest()
        client.reset()
        await until(lambda: records.rows)
        await site.until_empty()
    check_read(records, reads, is_complete=reads)


@pytest.mark.parametrize("way", ["asgi", "file"])
@pytest.mark.parametrize("library", ["rustls", "openssl"])
async def test_a_client_that_ends_its_side_of_tls_has_not_read_what_waits(
    library: str, way: str, tmp_path: Path, authority: Authority
) -> None:
    """The application goes on, and all of it is lost; what was written before waits until the connection is lost."""
    records = Records()
    (tmp_path / "long").write_bytes(bytes(LONG_BYTES))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start(200))
        for _ in range(LONG_BYTES // 30_000):
            await send({"type": "http.response.body", "body": bytes(30_000), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    context: Any = rustls.server_context(authority.server) if library == "rustls" else authority.server_context()
    options: dict[str, Any] = {"static": settings([("/", str(tmp_path))], [])} if way == "file" else {}
    async with secured(app, context, on_response=records.on_response, **options) as (site, port):
        client = await SocketClient.connect(port, authority.client_context(), HOST)
        await client.send(GET.replace(b"/", b"/long", 1))
        while not client.got:
            assert await client.read()
        await asyncio.sleep(0.2)
        client.end()
        await asyncio.sleep(0.2)
        assert not records.rows
        client.reset()
        await until(lambda: records.rows)
        await site.until_empty()
    [row] = records.rows
    assert (row.status, row.is_complete) == (200, False)
    # What the system has taken, and not whole parts of the body or of the file, of which some are queued.
    assert row.sent_bytes % 30_000
    assert row.sent_bytes % 65_536
    records.check_metrics()


def check_read(records: Records, reads: bool, *, is_complete: bool) -> None:
    """One response is recorded, which its client has read, or left in the server for the most part."""
    [row] = records.rows
    assert (row.status, row.is_complete) == (200, is_complete)
    if reads:
        assert row.sent_bytes == LONG_BYTES
    else:
        # Most of it cannot have been with the system.
        assert 0 < row.sent_bytes < LONG_BYTES // 2
    records.check_metrics()


@pytest.mark.parametrize("way", ["asgi", "wsgi", "green"])
async def test_a_response_is_recorded_when_its_client_has_read(way: str) -> None:
    records = Records()
    app, options = whole(way)
    async with serving(app, on_response=records.on_response, **options) as site:
        wire = await site.connect(limit=1000)
        await wire.send(GET + GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        for number in range(2):
            assert len(records.rows) == number
            assert len((await wire.answer()).body) == LONG_BYTES
        assert await wire.rest() == b""
        await site.until_empty()
        for thread in site.http.end_threads():
            await asyncio.to_thread(thread.join, 10)
    assert records.rows == [Row("GET", b"/", 200, LONG_BYTES, True)] * 2
    records.check_metrics()


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
async def test_a_response_that_is_broken_off_while_a_part_waits(framing: str, reads: bool) -> None:
    """What the client may still read is sent; what it leaves in the server is not."""
    records = Records()
    failed: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"%d" % (LONG_BYTES + 1))] if framing == "length" else []
        await send(start() | {"headers": headers})
        try:
            async with asyncio.timeout(0.01):
                await send({"type": "http.response.body", "body": bytes(LONG_BYTES), "more_body": True})
        finally:
            failed.append(scope)

    async with serving(app, on_response=records.on_response) as site:
        wire = await site.connect(limit=1000)
        await wire.send(GET.replace(b"1.1", b"1.0") if framing == "close" else GET)
        await wire.head()
        await until(lambda: failed)
        await site.until_idle()
        assert not records.rows
        if reads:
            with contextlib.suppress(ConnectionResetError):
                while await wire.reader.read(1 << 20):
                    pass
        else:
            wire.reset()
        await until(lambda: records.rows)
        await wire.close()
    check_read(records, reads, is_complete=False)


@pytest.mark.parametrize("is_green", [False, True])
async def test_a_client_that_has_left_without_a_word(is_green: bool) -> None:
    """Only sending tells of it: nothing was read since."""
    records = Records()
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")

    async def asgi(scope: Scope, receive: Receive, send: Send) -> None:
        client.close()
        await reply(send, PART)

    def wsgi(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        client.close()
        start_response("200 OK", [])
        return [PART]

    app = cast("App", wsgi) if is_green else asgi
    options: dict[str, Any] = {"interface": "wsgi", "green": True} if is_green else {}
    async with serving(app, on_response=records.on_response, **options) as site:
        client.connect(("127.0.0.1", site.port))
        client.sendall(GET)
        await until(lambda: records.rows)
        await site.until_empty()
    assert records.rows == [Row("GET", b"/", 200, 0, False)]


async def test_a_request_whose_rest_never_comes(tmp_path: Path) -> None:
    async with recorded(Course(tmp_path), "asgi-whole") as (site, records):
        wire = await site.connect()
        await wire.send(b"POST /waits HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
        await until(lambda: site.http.requests)
        wire.end()
        assert await wire.rest() == b""
        await site.until_empty()
    assert records.rows == [Row("POST", b"/waits", CLIENT_GONE, 0, False)]


async def test_a_static_response_without_a_body(tmp_path: Path) -> None:
    records = Records()
    options: dict[str, Any] = {"static": settings([("/s", str(tmp_path))], []), "on_response": records.on_response}
    async with serving(static(Course(tmp_path)), **options) as site:
        wire = await site.connect()
        assert (await wire.ask(asked("/s/none"))).status == 404
        assert (await wire.ask(asked("/s/none").replace(b"GET", b"PUT"))).status == 405
        await wire.send(b"HEAD /s/short HTTP/1.1\r\nHost: a\r\n\r\n")
        await wire.answer("HEAD")
        await wire.send(asked("/s/none"))
        wire.reset()
        await site.until_empty()
    assert [(row.status, row.sent_bytes) for row in records.rows[:3]] == [(404, 0), (405, 0), (200, 0)]
    assert len(records.rows) in (3, 4), "the last request may be lost with its connection"
    records.check_metrics()


# -- WebSockets: recorded when they are opened --


async def websocket(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    if scope["path"] == "/waits":
        await receive()
        return
    if scope["path"] == "/denied":
        await send({"type": "websocket.close"})
        return
    if scope["path"] == "/breaks":
        await send({**start(402), "type": "websocket.http.response.start"})
        await send({"type": "websocket.http.response.body", "body": PART, "more_body": True})
        raise ValueError
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.send", "text": "one"})
    await receive()


@pytest.mark.parametrize("end", ["close", "fin", "rst", "half", "stop"])
async def test_a_websocket_that_was_opened(end: str, tmp_path: Path) -> None:
    records = Records()
    async with serving(websocket, on_response=records.on_response) as site:
        connected = await opened(site)
        assert (await connected.frame()).payload == b"one"
        # While it is open.
        assert records.rows == [Row("GET", b"/", 101, 0, True)]
        assert site.http.websocket_bytes == 3
        if end == "close":
            await connected.send(b"\x88\x80\x00\x00\x00\x00")
        else:
            await leave(site, connected.wire, end, Course(tmp_path))
        await connected.wire.reader.read() if end in ("close", "half", "stop") else None
        await connected.wire.close()
        await site.until_empty()
    assert len(records.rows) == site.http.total_requests == 1
    records.check_metrics()


@pytest.mark.parametrize(
    ("path", "row"),
    [
        (b"/waits", Row("GET", b"/waits", CLIENT_GONE, 0, False)),
        (b"/denied", Row("GET", b"/denied", 403, 0, True)),
        (b"/breaks", Row("GET", b"/breaks", 402, 1000, False)),
    ],
)
async def test_a_websocket_that_was_not_opened(path: bytes, row: Row) -> None:
    records = Records()
    async with serving(websocket, on_response=records.on_response) as site:
        wire = await site.connect()
        await wire.send(handshake(path=path))
        if path == b"/waits":
            await until(lambda: site.http.requests)
            wire.reset()
        else:
            await wire.rest()
        await site.until_empty()
    assert records.rows == [row]
    records.check_metrics()


# -- the server's own responses --


def post(*fields: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([b"POST /x?y=z HTTP/1.1", b"Host: a", *fields, b"", b""]) + body


OWN: dict[str, tuple[bytes, Row]] = {
    "no HTTP": (b"GET\r\n\r\n", Row("", b"", 400, 0, True)),
    "no method": (b"G(T / HTTP/1.1\r\nHost: a\r\n\r\n", Row("", b"", 400, 0, True)),
    "a field": (b"GET /a HTTP/1.1\r\nHost : a\r\n\r\n", Row("GET", b"/a", 400, 0, True)),
    "no host": (b"GET /a?b HTTP/1.1\r\n\r\n", Row("GET", b"/a?b", 400, 0, True)),
    "a version": (b"GET /a HTTP/2.7\r\nHost: a\r\n\r\n", Row("GET", b"/a", 505, 0, True)),
    "a long line": (b"GET /" + b"a" * 9000, Row("", b"", 414, 0, True)),
    "a long head": (b"GET /a HTTP/1.1\r\nX: " + b"a" * 70_000, Row("GET", b"/a", 431, 0, True)),
    "a long body": (post(b"Content-Length: 1001"), Row("POST", b"/x?y=z", 413, 0, True)),
    "a body that grows": (
        post(b"Transfer-Encoding: chunked", body=b"3e9\r\n" + bytes(1001)),
        Row("POST", b"/x?y=z", 413, 0, True),
    ),
    "a wrong chunk": (
        post(b"Transfer-Encoding: chunked", body=b"x\r\n"),
        Row("POST", b"/x?y=z", 400, 0, True),
    ),
    "a proxy's": (b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", Row("CONNECT", b"a:80", 501, 0, True)),
    "a WebSocket": (handshake(without=b"Sec-WebSocket-Key"), Row("GET", b"/", 400, 0, True)),
    "a slow head": (b"GET /slow HTTP/1.1\r\nHost", Row("GET", b"/slow", 408, 0, True)),
    "a slow body": (post(b"Content-Length: 10", body=b"a"), Row("POST", b"/x?y=z", 408, 0, True)),
}


@pytest.mark.parametrize("name", OWN)
async def test_the_servers_own_responses(name: str, tmp_path: Path) -> None:
    request, row = OWN[name]
    records = Records()
    course = Course(tmp_path)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await course.wait(receive)

    limits: dict[str, Any] = {"max_body_bytes": 1000, "header_timeout_s": 0.3, "body_timeout_s": 0.3}
    async with serving(app, on_response=records.on_response, **limits) as site:
        wire = await site.connect()
        response = await wire.ask(request)
        assert response.status == row.status
        assert await wire.rest() == b""
        await wire.close()
        await site.until_empty()
    assert records.rows == [row._replace(sent_bytes=len(response.body))]
    assert site.http.total_requests == 1
    records.check_metrics()


@pytest.mark.parametrize("forwarded", [False, True])
async def test_requests_above_the_limit_of_concurrency(forwarded: bool, tmp_path: Path) -> None:
    """Each of a storm is recorded, with the client that its proxy names."""
    records = Records()
    clients: list[Any] = []

    def on_response(*given: Any) -> None:
        records.on_response(*given)
        clients.append(given[0])

    course = Course(tmp_path)
    options: dict[str, Any] = {"limit_concurrency": 1, "on_response": on_response}
    if forwarded:
        options["trust"] = lambda host: host == "127.0.0.1"
    async with serving(asgi_whole(course), **options) as site:
        first = await site.connect()
        await first.send(asked("/waits"))
        await until(lambda: course.waiting)
        ports = []
        for _ in range(20):
            wire = await site.connect()
            ports.append(wire.writer.get_extra_info("sockname")[1])
            fields = b"X-Forwarded-For: 10.1.2.3\r\n\r\n" if forwarded else b"\r\n"
            assert (await wire.ask(GET[:-2] + fields)).status == 503
            await wire.close()
        assert [row.status for row in records.rows] == [503] * 20
    assert clients[:20] == ([("10.1.2.3", 0)] * 20 if forwarded else [("127.0.0.1", port) for port in ports])
    records.check_metrics()


# -- the application's part --


@pytest.mark.parametrize("end", ["fin", "half"])
@pytest.mark.parametrize("way", ["asgi-whole", "asgi-stream"])
async def test_an_application_that_returns_when_its_client_leaves_is_right(
    way: str, end: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The usual end of server-sent events."""
    course = Course(tmp_path)
    async with recorded(course, way) as (site, _):
        wire = await site.connect()
        await wire.send(asked("/waits"))
        await until(lambda: course.waiting)
        if way == "asgi-stream":
            await wire.head()
        await leave(site, wire, end, course)
        await site.until_empty()
    assert not caplog.records, caplog.text


async def test_an_application_that_returns_too_early_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send(start())
        await send({"type": "http.response.body", "body": PART, "more_body": True})

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(GET)
        await wire.rest()
    assert [one.getMessage() for one in caplog.records] == ["ASGI callable returned without completing response."]


class Stop(BaseException):
    """An exception that is not an `Exception`."""


@pytest.mark.parametrize("is_begun", [False, True])
@pytest.mark.parametrize("error", [asyncio.CancelledError, Stop, GeneratorExit, SystemExit])
async def test_every_exception_of_an_application_is_logged(
    error: type[BaseException], is_begun: bool, caplog: pytest.LogCaptureFixture
) -> None:
    records = Records()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if is_begun:
            await send(start())
            await send({"type": "http.response.body", "body": PART, "more_body": True})
            await asyncio.sleep(0)
        raise error

    async with serving(app, on_response=records.on_response) as site:
        wire = await site.connect()
        await wire.send(GET)
        await wire.rest()
        await site.until_empty()
    expected = (200, 1000, False) if is_begun else (500, 21, True)
    assert [row[2:] for row in records.rows] == [expected]
    [record] = caplog.records
    assert (record.name, record.levelname) == ("oneloop.error", "ERROR")
    assert record.exc_info is not None
    assert record.exc_info[0] is error


async def test_what_the_server_has_cancelled_is_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    course = Course(tmp_path)
    async with recorded(course, "asgi-whole") as (site, records):
        wire = await site.connect()
        await wire.send(asked("/waits"))
        await until(lambda: course.waiting)
        site.http.cancel()
        assert (await wire.answer()).status == 500
        await site.until_empty()
    assert [row.status for row in records.rows] == [500]
    assert not caplog.records, caplog.text


@pytest.mark.parametrize("error", [asyncio.CancelledError, Stop, KeyboardInterrupt])
async def test_every_exception_of_a_wsgi_application_is_logged(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def app(environ: dict[str, Any], start_response: Any) -> Any:
        raise error

    records = Records()
    async with serving(cast("App", app), interface="wsgi", on_response=records.on_response) as site:
        assert (await site.ask()).status == 500
        for thread in site.http.end_threads():
            await asyncio.to_thread(thread.join, 10)
    assert [row.status for row in records.rows] == [500]
    [record] = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is error


@pytest.mark.parametrize("status", [600, 700, 999])
async def test_statuses_of_no_class_are_counted_apart(status: int) -> None:
    records = Records()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, b"", status)

    async with serving(app, on_response=records.on_response) as site:
        for _ in range(6):
            assert (await site.ask()).status == status
    records.check_metrics()
    assert f'status="{status // 100}xx"}} 6' in records.measures.text()
