"""No request sees what another has put into context variables: each has a fresh copy of the server's context.

On one connection, one request may be what begins the next: it has let the connection read again, or has ended while the
next one waited. Source: Kludex/uvicorn#2167 and #3158 (2026-09), where the next one then ran in its context.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.http import frames
from tests.http.http2_peer import Peer
from tests.http.site import App, Receive, Scope, Send, Wire, body_of, reply, serving

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")
VALUE: contextvars.ContextVar[Value] = contextvars.ContextVar("VALUE")
PATHS = [b"/1", b"/2", b"/3"]
LONG = b"b" * 300_000


class Value:
    """Something large that a request keeps in its context."""


class Application:
    """ASGI and WSGI: each request notes what it sees, and sets the variable."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.values: list[weakref.ref[Value]] = []

    def look(self, path: str) -> None:
        self.seen.append(WHO.get())
        WHO.set(path)
        value = Value()
        VALUE.set(value)
        self.values.append(weakref.ref(value))

    async def asgi(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.look(scope["path"])
        if scope["type"] == "websocket":
            assert (await receive())["type"] == "websocket.connect"
            await send({"type": "websocket.accept"})
            assert (await receive())["type"] == "websocket.receive"
            await send({"type": "websocket.close"})
            return
        size = len(await body_of(receive))
        # The next request waits by now, if it was sent with this one.
        await asyncio.sleep(0)
        await reply(send, b"%d" % size)

    def at_once(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Looks before its coroutine begins."""
        self.look(scope["path"])

        async def answer() -> None:
            await reply(send, b"%d" % len(await body_of(receive)))

        return answer()

    def wsgi(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterator[bytes]:
        self.look(environ["PATH_INFO"])
        size = b"%d" % len(environ["wsgi.input"].read())
        start_response("200 OK", [("content-length", str(len(size)))])
        return iter([size])


def post(path: bytes, body: bytes) -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (path, len(body)) + body


async def one_after_another(wire: Wire) -> None:
    """With bodies so long that the application's receive() lets the connection read again."""
    for path in PATHS:
        assert (await wire.ask(post(path, LONG))).body == b"%d" % len(LONG)


async def pipelined(wire: Wire) -> None:
    """The end of one begins the next."""
    await wire.send(b"".join(post(path, b"x") for path in PATHS))
    for _ in PATHS:
        assert (await wire.answer()).body == b"1"


async def pipelined_long(wire: Wire) -> None:
    sending = asyncio.ensure_future(wire.send(b"".join(post(path, LONG) for path in PATHS)))
    for _ in PATHS:
        assert (await wire.answer()).body == b"%d" % len(LONG)
    await sending


async def then_a_websocket(wire: Wire) -> None:
    await wire.send(post(PATHS[0], b"x") + post(PATHS[1], b"x") + frames.handshake(path=PATHS[2]))
    for _ in PATHS[:2]:
        assert (await wire.answer()).body == b"1"
    assert (await wire.answer()).status == 101
    await wire.send(frames.frame(frames.TEXT, b"x"))
    assert (await wire.reader.read(2))[0] & 15 == frames.CLOSE


def plain(_loop: asyncio.AbstractEventLoop) -> None:
    pass


def debug_mode(loop: asyncio.AbstractEventLoop) -> None:
    loop.set_debug(True)


def task_factory(loop: asyncio.AbstractEventLoop) -> None:
    """One that takes no `context`, as most do not."""
    loop.set_task_factory(lambda loop, coro: asyncio.Task(coro, loop=loop))  # type: ignore[arg-type]


APPLICATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "asgi": ("asgi", {}),
    "at_once": ("at_once", {}),
    "threads": ("wsgi", {"interface": "wsgi", "threads": 1}),
    "green": ("wsgi", {"interface": "wsgi", "green": True}),
}
CASES = [
    (application, way)
    for application in APPLICATIONS
    for way in (one_after_another, pipelined, pipelined_long, then_a_websocket)
    if application == "asgi" or way is not then_a_websocket
]


@pytest.mark.parametrize("loop_is", [plain, debug_mode, task_factory])
@pytest.mark.parametrize(("application", "way"), CASES, ids=[f"{name}-{way.__name__}" for name, way in CASES])
async def test_requests_of_a_connection(
    application: str, way: Callable[[Wire], Awaitable[None]], loop_is: Callable[[asyncio.AbstractEventLoop], None]
) -> None:
    app = Application()
    method, options = APPLICATIONS[application]
    WHO.set("server")
    loop = asyncio.get_running_loop()
    loop_is(loop)
    try:
        async with serving(getattr(app, method), **options) as site:
            WHO.set("client")
            await way(await site.connect())
            await site.until_idle()
    finally:
        loop.set_debug(False)
        loop.set_task_factory(None)
    assert app.seen == ["server"] * len(PATHS)


@pytest.mark.parametrize("application", ["asgi", "threads", "green"])
async def test_streams_of_http2(application: str) -> None:
    app = Application()
    method, options = APPLICATIONS[application]
    WHO.set("server")

    def ask(port: int) -> None:
        with Peer(port) as peer:
            streams = [peer.ask(path.decode(), "POST", ends=False) for path in PATHS]
            for stream in streams:
                peer.send_body(stream, LONG)
            assert [response.body for response in peer.wait(*streams)] == [b"%d" % len(LONG)] * len(PATHS)

    async with serving(getattr(app, method), **options) as site:
        WHO.set("client")
        await asyncio.to_thread(ask, site.port)
    assert app.seen == ["server"] * len(PATHS)


@pytest.mark.parametrize("application", APPLICATIONS)
@pytest.mark.parametrize("body", [b"x", LONG], ids=["short", "long"])
async def test_an_idle_connection_does_not_keep_the_context_of_its_last_request(application: str, body: bytes) -> None:
    app = Application()
    method, options = APPLICATIONS[application]
    async with serving(getattr(app, method), **options) as site:
        wire = await site.connect()
        for path in PATHS:
            await wire.ask(post(path, body))
        while any(value() is not None for value in app.values):
            gc.collect()
            await asyncio.sleep(0)
        assert len(app.values) == len(PATHS)


async def test_requests_do_not_see_the_lifespan() -> None:
    from oneloop.http.lifespan import Lifespan

    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(WHO.get())
        WHO.set(scope["type"])
        if scope["type"] == "http":
            await reply(send)
            return
        for step in ("startup", "shutdown"):
            assert (await receive())["type"] == f"lifespan.{step}"
            await send({"type": f"lifespan.{step}.complete"})

    WHO.set("server")
    typed: App = app
    lifespan = Lifespan(typed)
    await lifespan.start()
    async with serving(typed) as site:
        await site.ask()
    await lifespan.stop()
    assert seen == ["server", "server"]
