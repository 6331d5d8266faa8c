"""What an ASGI application is told of a request: key by key what uvicorn tells it, save for what is listed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tests.http.site import GET, Echo, Receive, Scope, Send, Wire, reply, serving
from tests.ipv6 import NEEDS_IPV6

REQUESTS = {
    "plain": GET,
    "query": b"GET /a/b?c=d&e HTTP/1.1\r\nHost: a\r\n\r\n",
    "percent": b"GET /%7Ea%2Fb%zz%C3%A4%ff HTTP/1.1\r\nHost: a\r\n\r\n",
    "fields": b"GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nx-a: 2\r\nCOOKIE: a=b\r\nEmpty:\r\n\r\n",
    "http10": b"GET / HTTP/1.0\r\nHost: a\r\n\r\n",
    "asterisk": b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "body": b"PUT /up HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    "chunked": b"POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    "forwarded": b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\n\r\n",
}


async def uvicorns_scope(request: bytes, root_path: str) -> Scope:
    """What uvicorn tells an application of this request."""
    uvicorn = pytest.importorskip("uvicorn")
    pytest.importorskip("httptools")
    echo = Echo()
    config = uvicorn.Config(
        echo, http="httptools", lifespan="off", log_config=None, proxy_headers=False, root_path=root_path
    )
    config.load()
    state = uvicorn.server.ServerState()

    def protocol() -> asyncio.Protocol:
        make = cast("Callable[..., asyncio.Protocol]", config.http_protocol_class)
        return make(config=config, server_state=state, app_state={"a": 1})

    loop = asyncio.get_running_loop()
    server = await loop.create_server(protocol, "127.0.0.1", 0)
    wire = Wire(*await asyncio.open_connection(*server.sockets[0].getsockname()))
    await wire.ask(request)
    await wire.close()
    server.close()
    while state.connections:
        await asyncio.sleep(0)
    return echo.heard[0].scope


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("root_path", ["", "/root"])
async def test_as_uvicorn(name: str, root_path: str) -> None:
    echo = Echo()
    state = {"a": 1}
    async with serving(echo, root_path=root_path, state=state) as site:
        await site.ask(REQUESTS[name])
        port = site.port
    ours, theirs = dict(echo.heard[0].scope), dict(await uvicorns_scope(REQUESTS[name], root_path))
    assert ours.pop("server") == ("127.0.0.1", port)
    assert theirs.pop("server")[0] == "127.0.0.1"
    (host, number), (their_host, _) = ours.pop("client"), theirs.pop("client")
    assert (host, type(number)) == (their_host, int)
    # The specification that this follows, and what it can do beyond uvicorn.
    assert ours.pop("asgi") == {"version": "3.0", "spec_version": "2.3"}
    assert theirs.pop("asgi")["version"] == "3.0"
    assert {"http.response.trailers", "http.response.early_hint"} <= set(ours.pop("extensions"))
    theirs.pop("extensions", None)
    assert ours == theirs
    assert {key: type(value) for key, value in ours.items()} == {key: type(value) for key, value in theirs.items()}


async def test_the_version_lets_frameworks_listen_for_the_end() -> None:
    """From 2.4 on they wait for `send` to fail in its place: a stream that sends nothing would never end."""
    echo = Echo()
    async with serving(echo) as site:
        await site.ask(GET)
    assert echo.heard[0].scope["asgi"] == {"version": "3.0", "spec_version": "2.3"}


async def test_state_is_copied_for_each_request() -> None:
    state: dict[str, Any] = {"shared": []}
    seen = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(dict(scope["state"]))
        scope["state"]["own"] = True
        scope["state"]["shared"].append(1)
        scope["headers"].clear()
        scope["extensions"].clear()
        scope["asgi"].clear()
        await reply(send)

    async with serving(app, state=state) as site:
        await site.ask()
        await site.ask()
    assert seen == [{"shared": [1, 1]}] * 2
    assert state == {"shared": [1, 1]}


async def test_nothing_of_a_scope_is_shared() -> None:
    scopes: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(dict(scope))
        scope["headers"].append((b"x", b"y"))
        scope["extensions"]["x"] = {}
        scope["asgi"]["x"] = 1
        scope["extra"] = 1
        await reply(send)

    async with serving(app) as site:
        wire = await site.connect()
        await wire.ask()
        await wire.ask()
    first, second = scopes
    for scope in scopes:
        # Changed by the application itself, after its copy was taken.
        assert scope["headers"].count((b"x", b"y")) == 1
    assert first["asgi"] is not second["asgi"]
    assert first["extensions"] is not second["extensions"]
    assert first["headers"] is not second["headers"]
    assert set(first) == set(second)


async def test_a_unix_socket(tmp_path: Path) -> None:
    echo = Echo()
    path = str(tmp_path / "socket")
    loop = asyncio.get_running_loop()
    async with serving(echo) as site:
        factory = cast("Callable[[], asyncio.Protocol]", site.http)
        server = await loop.create_unix_server(factory, path)
        wire = Wire(*await asyncio.open_unix_connection(path))
        assert (await wire.ask()).status == 200
        await wire.close()
        server.close()
    assert echo.heard[0].scope["client"] is None
    assert echo.heard[0].scope["server"] == (path, None)


@NEEDS_IPV6
async def test_ipv6() -> None:
    echo = Echo()
    loop = asyncio.get_running_loop()
    async with serving(echo) as site:
        factory = cast("Callable[[], asyncio.Protocol]", site.http)
        server = await loop.create_server(factory, "::1", 0)
        port = server.sockets[0].getsockname()[1]
        wire = Wire(*await asyncio.open_connection("::1", port))
        assert (await wire.ask()).status == 200
        await wire.close()
        server.close()
    assert echo.heard[0].scope["server"] == ("::1", port)
    assert echo.heard[0].scope["client"][0] == "::1"
