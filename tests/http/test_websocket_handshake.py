"""The opening of a WebSocket: what is refused, what is agreed on, and what the application may answer."""

from __future__ import annotations

import asyncio

import pytest

from tests.http.frames import ACCEPT, TEXT, Socket, frame, handshake, opened
from tests.http.site import Message, Receive, Scope, Send, body_of, reply, serving

DEFLATE = b"Sec-WebSocket-Extensions: permessage-deflate"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    assert scope["type"] == "websocket", scope
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({**message, "type": "websocket.send"})


REFUSED: dict[str, tuple[bytes, int]] = {
    "no-key": (handshake(without=b"Sec-WebSocket-Key"), 400),
    "empty-key": (handshake(b"Sec-WebSocket-Key:", without=b"Sec-WebSocket-Key"), 400),
    "short-key": (handshake(b"Sec-WebSocket-Key: dGhl", without=b"Sec-WebSocket-Key"), 400),
    "two-keys": (handshake(b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="), 400),
    "no-version": (handshake(without=b"Sec-WebSocket-Version"), 426),
    "version-8": (handshake(b"Sec-WebSocket-Version: 8", without=b"Sec-WebSocket-Version"), 426),
    "two-versions": (handshake(b"Sec-WebSocket-Version: 13"), 400),
    "body": (handshake(b"Content-Length: 3"), 400),
    "chunked": (handshake(b"Transfer-Encoding: chunked"), 400),
    "no-host": (handshake(without=b"Host"), 400),
    "bad-extension": (handshake(b"Sec-WebSocket-Extensions: permessage-deflate; ="), 400),
    "bad-protocol": (handshake(b"Sec-WebSocket-Protocol: a b"), 400),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refused(name: str) -> None:
    sent, status = REFUSED[name]
    async with serving(echo) as site:
        wire = await site.connect()
        response = await wire.ask(sent + frame(TEXT, b"abc"))
        assert (response.status, response.closes or status == 426) == (status, True)
        if status == 426:
            assert response.values(b"sec-websocket-version") == [b"13"]
            assert response.values(b"upgrade") == [b"websocket"]
        assert await wire.rest() == b""


@pytest.mark.parametrize(
    "sent",
    [
        handshake(without=b"Connection"),
        handshake(without=b"Upgrade"),
        handshake(line=b"GET / HTTP/1.0"),
        handshake(line=b"POST / HTTP/1.1"),
        handshake(line=b"HEAD / HTTP/1.1"),
        handshake(b"Upgrade: h2c", without=b"Upgrade"),
    ],
)
async def test_a_request_that_is_no_handshake_is_a_request(sent: bytes) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        await body_of(receive)
        await reply(send)

    async with serving(app) as site:
        assert (await site.ask(sent, "HEAD" if sent.startswith(b"HEAD") else "GET")).status == 200


async def test_the_response() -> None:
    async with serving(echo, headers=[(b"server", b"ours")]) as site:
        socket = await opened(site)
    response = socket.answer
    assert response.values(b"sec-websocket-accept") == [ACCEPT]
    assert response.values(b"upgrade") == [b"websocket"]
    assert response.values(b"connection") == [b"Upgrade"]
    assert response.values(b"server") == [b"ours"]
    assert not response.values(b"sec-websocket-protocol")
    assert not response.values(b"sec-websocket-extensions")
    assert not response.values(b"content-length")
    assert not response.values(b"transfer-encoding")


async def test_the_scope() -> None:
    scopes: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)
        await echo(scope, receive, send)

    async with serving(app, root_path="/root", state={"a": 1}) as site:
        await opened(site, b"Sec-WebSocket-Protocol: a, b", b"Sec-WebSocket-Protocol: c", path=b"/x%20y?q")
        port = site.port
    (scope,) = scopes
    assert scope["type"] == "websocket"
    assert scope["asgi"] == {"version": "3.0", "spec_version": "2.5"}
    assert scope["http_version"] == "1.1"
    assert scope["scheme"] == "ws"
    assert scope["path"] == "/root/x y"
    assert scope["raw_path"] == b"/root/x%20y"
    assert scope["query_string"] == b"q"
    assert scope["root_path"] == "/root"
    assert scope["subprotocols"] == ["a", "b", "c"]
    assert scope["state"] == {"a": 1}
    assert scope["server"] == ("127.0.0.1", port)
    assert "websocket.http.response" in scope["extensions"]
    assert (b"sec-websocket-version", b"13") in scope["headers"]
    assert "method" not in scope


async def test_a_subprotocol_and_headers() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        headers = [(b"X-A", b"1"), (b"set-cookie", b"a"), (b"set-cookie", b"b")]
        await send({"type": "websocket.accept", "subprotocol": "b", "headers": headers})
        await receive()

    async with serving(app) as site:
        socket = await opened(site, b"Sec-WebSocket-Protocol: a, b")
    assert socket.answer.values(b"sec-websocket-protocol") == [b"b"]
    assert socket.answer.values(b"x-a") == [b"1"]
    assert socket.answer.values(b"set-cookie") == [b"a", b"b"]


@pytest.mark.parametrize(
    "message",
    [
        {"type": "websocket.accept", "subprotocol": "a\r\nb"},
        {"type": "websocket.accept", "headers": [(b"x", b"a\r\nb")]},
        {"type": "websocket.accept", "headers": [("x", "y")]},
        {"type": "websocket.accept", "headers": [(b"Sec-WebSocket-Accept", b"x")]},
        {"type": "websocket.accept", "headers": [(b"Connection", b"close")]},
        {"type": "websocket.accept", "subprotocol": 1},
        {"type": "websocket.send", "text": "early"},
        {"type": "http.response.start", "status": 200},
        {"type": "websocket.stop"},
        {},
    ],
)
async def test_what_an_application_cannot_respond(message: Message, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send(message)

    async with serving(app) as site:
        wire = await site.connect()
        response = await wire.ask(handshake())
        assert (response.status, response.closes) == (500, True)
        assert await wire.rest() == b""
    assert len(caplog.records) == 1


@pytest.mark.parametrize("way", ["returns", "raises"])
async def test_an_application_that_does_not_respond(way: str, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if way == "raises":
            raise ValueError("secret")

    async with serving(app) as site:
        response = await site.ask(handshake())
        assert response.status == 500
        assert b"secret" not in response.body
    assert len(caplog.records) == 1


async def test_a_close_instead_of_an_accept_is_a_403() -> None:
    told: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        told.append(await receive())
        await send({"type": "websocket.close", "code": 4000})
        told.append(await receive())

    async with serving(app) as site:
        wire = await site.connect()
        response = await wire.ask(handshake())
        assert (response.status, response.closes) == (403, True)
        assert await wire.rest() == b""
    assert told[0] == {"type": "websocket.connect"}
    assert told[1]["type"] == "websocket.disconnect"
    assert told[1]["code"] == 1006


async def test_a_denial() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"4")]
        await send({"type": "websocket.http.response.start", "status": 401, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": b"no", "more_body": True})
        await send({"type": "websocket.http.response.body", "body": b"pe"})
        assert (await receive())["type"] == "websocket.disconnect"

    async with serving(app) as site:
        response = await site.ask(handshake())
        assert (response.status, response.body) == (401, b"nope")
        assert response.values(b"content-type") == [b"text/plain"]


async def test_a_denial_while_the_server_ends_is_the_last_response() -> None:
    goes_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await goes_on.wait()
        await send({"type": "websocket.http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
        await send({"type": "websocket.http.response.body"})

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(handshake())
        while not site.http.requests:
            await asyncio.sleep(0)
        site.http.shut_down()
        goes_on.set()
        assert (await wire.answer()).closes
        assert await wire.rest() == b""


async def test_a_denial_has_one_body() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await reply(send, b"next")
            return
        await send({"type": "websocket.http.response.start", "status": 401, "trailers": True})
        await send({"type": "websocket.http.response.body", "body": b"no"})
        for kind in ("body", "start"):
            with pytest.raises(RuntimeError, match="already completed"):
                await send({"type": f"websocket.http.response.{kind}", "status": 200, "body": b"more"})

    async with serving(app) as site:
        wire = await site.connect()
        response = await wire.ask(handshake())
        assert (response.status, response.body) == (401, b"no")
        assert (await wire.ask()).body == b"next"


@pytest.mark.parametrize("has_body", [True, False])
@pytest.mark.parametrize("way", ["returns", "raises"])
async def test_half_a_denial(has_body: bool, way: str, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.http.response.start", "status": 401})
        if has_body:
            await send({"type": "websocket.http.response.body", "body": b"no", "more_body": True})
        if way == "raises":
            raise ValueError("secret")

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(handshake())
        response = await wire.head()
        rest = await wire.rest()
        assert (response.status, rest) == ((401, b"2\r\nno\r\n") if has_body else (500, b"Internal Server Error"))
    assert len(caplog.records) == 1


async def test_data_before_the_accept() -> None:
    goes_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await goes_on.wait()
        await echo_on(receive, send)

    async def echo_on(receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({**message, "type": "websocket.send"})

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(handshake() + frame(TEXT, b"one") + frame(TEXT, b"two"))
        while not site.http.requests:
            await asyncio.sleep(0)
        await wire.send(frame(TEXT, b"three"))
        goes_on.set()
        socket = Socket(wire, await wire.answer())
        assert [(await socket.frame()).payload for _ in range(3)] == [b"one", b"two", b"three"]


async def test_a_peer_that_leaves_before_the_accept(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        told.append(await receive())
        await send({"type": "websocket.accept"})

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(handshake())
        while not site.http.requests:
            await asyncio.sleep(0)
        wire.reset()
        await site.until_empty()
    assert told == [{"type": "websocket.disconnect", "code": 1006, "reason": ""}]
    assert not caplog.records


@pytest.mark.parametrize("allows", [True, False])
async def test_compression_is_agreed_on(allows: bool) -> None:
    async with serving(echo, ws_per_message_deflate=allows) as site:
        socket = await opened(site, DEFLATE)
        agreed = socket.answer.values(b"sec-websocket-extensions")
        assert [value.split(b";")[0] for value in agreed] == ([b"permessage-deflate"] if allows else [])
