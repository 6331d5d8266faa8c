"""ASGI frameworks on our connections: byte for byte what uvicorn answers, save for date and server."""

from __future__ import annotations

import asyncio
import importlib
import logging
import re
from collections.abc import Callable
from typing import Any, cast

import pytest
import uvicorn
from uvicorn.server import ServerState

from tests.ecosystem.asked import BODIES, REQUESTS, STATUSES
from tests.http.frames import CLOSE, TEXT, Frame, Socket, close, frame, handshake
from tests.http.http2_peer import Peer
from tests.http.site import Wire, serving

# Of the frameworks, which leave files to the collector, and of Django, which reads them without a thread.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume:Warning"),
]

FRAMEWORKS = ["starlette", "fastapi", "quart", "litestar", "django", "falcon"]


def application(name: str) -> Any:
    pytest.importorskip(name)
    return importlib.import_module(f"tests.ecosystem.frameworks.{name}_site").app


@pytest.fixture
def loop_name() -> str:
    return "oneloop"


async def answered(port: int, sent: bytes) -> bytes:
    """All that comes back for a request that ends its connection; without the server's name and the times of day."""
    wire = Wire(*await asyncio.open_connection("127.0.0.1", port))
    line, rest = sent.split(b"\r\n", 1)
    await wire.send(line + b"\r\nConnection: close\r\n" + rest)
    answer = await wire.rest()
    await wire.close()
    head, end, body = answer.partition(b"\r\n\r\n")
    head = re.sub(rb"\r\n(date|expires|server): [^\r]*", b"", head)
    if head.startswith(b"HTTP/1.1 204"):
        # Which has no length of a body: RFC 9110 section 8.6. uvicorn leaves what the application says.
        head = head.replace(b"\r\ncontent-length: 0", b"")
    return head + end + body


async def uvicorns(app: Any, sent: bytes) -> bytes:
    config = uvicorn.Config(app, http="httptools", lifespan="off", log_config=None)
    config.load()
    state = ServerState()

    def protocol() -> asyncio.Protocol:
        return cast("Callable[..., asyncio.Protocol]", config.http_protocol_class)(
            config=config, server_state=state, app_state={}
        )

    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    answer = await answered(server.sockets[0].getsockname()[1], sent)
    server.close()
    while state.connections or state.tasks:
        await asyncio.sleep(0)
    return answer


@pytest.mark.allows_open_fds("frameworks keep spooled files and threads' sockets")
@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
async def test_answers_as_uvicorn(framework: str, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    app = application(framework)
    async with serving(app) as site:
        ours = await answered(site.port, REQUESTS[name])
    theirs = await uvicorns(app, REQUESTS[name])
    assert int(ours[9:12]) in STATUSES.get(name, (200,))
    if (framework, name) == ("litestar", "events"):
        # Which keeps its fields in a set.
        ours, theirs = (b"\r\n".join(sorted(answer.split(b"\r\n"))) for answer in (ours, theirs))
        # uvicorn lets it stand beside `close`.
        theirs = theirs.replace(b"connection: keep-alive\r\n", b"")
    if (framework, name) == ("starlette", "static"):
        # Its middleware for gzip leaves files alone that a server sends by itself (pathsend).
        theirs = theirs.replace(b"vary: Accept-Encoding\r\n", b"")
    assert ours == theirs
    if name in BODIES:
        assert ours.partition(b"\r\n\r\n")[2] == BODIES[name]
    await asyncio.get_running_loop().shutdown_default_executor()


Answer = tuple[int, dict[str, str], bytes]


def dechunked(body: bytes) -> bytes:
    found = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        found, body = found + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return found


def parsed(message: bytes) -> tuple[str, dict[str, str], bytes]:
    """First line, fields and body of a message of HTTP/1.1, without the fields that only its connection has."""
    head, _, body = message.partition(b"\r\n\r\n")
    line, *lines = head.decode("latin-1").split("\r\n")
    fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    fields.pop("connection", None)
    if fields.pop("transfer-encoding", None):
        body = dechunked(body)
    return line, fields, body


def asked_by_http2(port: int, sent: bytes) -> Answer:
    line, fields, body = parsed(sent)
    method, path, _ = line.split(" ")
    fields.pop("host")
    with Peer(port) as peer:
        stream = peer.ask(path, method, *fields.items(), ends=not body)
        if body:
            peer.send_body(stream, body)
        (response,) = peer.wait(stream)
    ignored = (":status", "date", "expires", "server")
    return response.status, {k: v for k, v in response.fields.items() if k not in ignored}, response.body


@pytest.mark.allows_open_fds("frameworks keep spooled files and threads' sockets")
@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
async def test_answers_over_http2(framework: str, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """As over HTTP/1.1."""
    caplog.set_level(logging.CRITICAL)
    app = application(framework)
    async with serving(app) as site:
        line, fields, body = parsed(await answered(site.port, REQUESTS[name]))
        found = await asyncio.to_thread(asked_by_http2, site.port, REQUESTS[name])
    assert found == (int(line.split(" ")[1]), fields, body)
    await asyncio.get_running_loop().shutdown_default_executor()


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if name != "django"])
async def test_websocket(framework: str) -> None:
    app = application(framework)
    async with serving(app) as site:
        wire = await site.connect()
        answer = await wire.ask(handshake(b"Sec-WebSocket-Protocol: echo", path=b"/socket"))
        assert answer.status == 101, answer
        assert answer.values(b"sec-websocket-protocol") == [b"echo"]
        socket = Socket(wire, answer)
        for payload in (b"one", b"two" * 1000):
            await socket.send(frame(TEXT, payload))
            assert await socket.frame() == Frame(TEXT, payload)
        await socket.send(close(1000))
        assert await socket.frame() == Frame(CLOSE, (1000).to_bytes(2, "big"))
        assert await wire.rest() == b""


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if name != "django"])
async def test_a_websocket_that_is_not_there(framework: str) -> None:
    app = application(framework)
    async with serving(app) as site:
        answer = await site.ask(handshake(path=b"/none"))
        assert answer.status in (403, 404)
