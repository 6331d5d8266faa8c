"""Clients that end their side, in virtual time: who reads gets the whole response, and of who has left is told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from oneloop import testing
from tests.http.site import GET, App, Message, Receive, Scope, Send, Site, Wire, body_of, reply, serving
from tests.http.virtual import now_s, virtual
from tests.loops import LoopFactory

START: Message = {"type": "http.response.start", "status": 200}
END: Message = {"type": "http.response.body"}
HEAD = GET.replace(b"GET", b"HEAD")
NEXT = GET.replace(b"/", b"/next", 1)
SOON_S, LONG_S = 1.0, 1000.0


@pytest.fixture
def loop_factory() -> LoopFactory:
    return testing.new_event_loop


def part(data: bytes = b"") -> Message:
    return {"type": "http.response.body", "body": data, "more_body": True}


class Streaming:
    """Does what Starlette's StreamingResponse does: it listens while it streams, and cancels the stream when told.

    Args:
        gaps_s: the waits, each followed by a part.
        before_s: how long the application works before it listens.
    """

    def __init__(self, gaps_s: list[float], before_s: float = 0, size: int = 10) -> None:
        self.gaps_s, self.before_s, self.size = gaps_s, before_s, size
        self.told_s = 0.0

    async def parts(self) -> AsyncIterator[bytes]:
        for gap_s in self.gaps_s:
            await asyncio.sleep(gap_s)
            yield bytes(self.size)

    async def stream(self, send: Send) -> None:
        await send(START)
        async for data in self.parts():
            await send(part(data))
        await send(END)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await body_of(receive)
        await asyncio.sleep(self.before_s)
        if scope["path"] == "/next":
            await reply(send, b"next")
            return
        stream = asyncio.ensure_future(self.stream(send))
        stream.add_done_callback(lambda _: listening.cancel())

        async def listen() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            if not stream.done():
                self.told_s = now_s()
            stream.cancel()

        listening = asyncio.ensure_future(listen())
        with contextlib.suppress(asyncio.CancelledError):
            await listening
        with contextlib.suppress(asyncio.CancelledError):
            await stream


async def asked(wire: Wire, data: bytes = GET) -> None:
    """Send requests, and nothing more."""
    await wire.send(data)
    wire.end()


async def until_empty(site: Site) -> None:
    while site.http.connections or site.http.requests:
        await asyncio.sleep(0.01)


@virtual
async def test_a_client_that_reads_gets_the_whole_stream() -> None:
    app = Streaming([0.15] * 20)
    async with serving(app) as site:
        wire = await site.connect()
        await asked(wire)
        assert (await wire.answer()).body == bytes(200)
        assert await wire.rest() == b""
    assert app.told_s == 0


@virtual
async def test_a_stream_that_begins_late() -> None:
    app = Streaming([0.15] * 5, before_s=5)
    async with serving(app) as site:
        wire = await site.connect()
        await asked(wire)
        assert (await wire.answer()).body == bytes(50)
    assert app.told_s == 0


@virtual
async def test_a_client_that_reads_slowly_gets_the_whole_stream() -> None:
    """What it has not read yet is no silence of the application."""
    app = Streaming([0.01] * 200, size=100_000)
    async with serving(app) as site:
        wire = await site.connect(limit=1000)
        await asked(wire)
        await asyncio.sleep(20)
        assert len((await wire.answer()).body) == 20_000_000
    assert app.told_s == 0


@virtual
@pytest.mark.parametrize("gaps_s", [[LONG_S], [0.1, 0.1, LONG_S]], ids=["at first", "later"])
@pytest.mark.parametrize("behind", [b"", NEXT])
@pytest.mark.parametrize("leaves", [True, False])
async def test_a_stream_that_waits_is_ended(gaps_s: list[float], behind: bytes, leaves: bool) -> None:
    app = Streaming(gaps_s)
    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(GET + behind)
        await wire.head()
        if leaves:
            await wire.close()
        else:
            wire.end()
        await until_empty(site)
        if not leaves:
            assert b"next" not in await wire.rest()
        assert site.http.total_requests == 1
    assert 0 < app.told_s < SOON_S


@virtual
async def test_a_wait_that_begins_later_is_ended_too() -> None:
    told: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await body_of(receive)
        await asyncio.sleep(5)
        told.append(await receive())

    async with serving(app) as site:
        wire = await site.connect()
        await asked(wire)
        assert await wire.rest() == b""
    assert told == [{"type": "http.disconnect"}]
    assert now_s() < 5 + SOON_S


@virtual
async def test_an_application_that_asks_again_and_again_is_told() -> None:
    """`Request.is_disconnected()` of Starlette waits for no time at all."""

    async def is_disconnected(receive: Receive) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                return str((await receive())["type"]) == "http.disconnect"
        return False

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await body_of(receive)
        while not await is_disconnected(receive):
            await asyncio.sleep(0.05)

    async with serving(app) as site:
        wire = await site.connect()
        await asked(wire)
        assert await wire.rest() == b""
        await until_empty(site)
    assert now_s() < SOON_S


@virtual
async def test_what_is_behind_a_response_that_follows_the_news_is_served() -> None:
    """The application is told, and responses nevertheless."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await body_of(receive)
        await receive()
        await reply(send, scope["path"].encode())

    async with serving(app) as site:
        wire = await site.connect()
        await asked(wire, GET + NEXT)
        assert (await wire.answer()).body == b"/"
        assert (await wire.answer()).body == b"/next"
        assert await wire.rest() == b""


def endless(message: Message) -> App:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/next":
            await reply(send, b"next")
            return
        await send({**START, "headers": [(b"content-length", b"3")]} if message["body"] == b"" else START)
        if message["body"] == b"":
            await send(part(b"abc"))
        while True:
            await send(message)
            await asyncio.sleep(0.001)

    return app


@virtual
@pytest.mark.parametrize("is_ended_first", [True, False])
@pytest.mark.parametrize(("request_", "message"), [(HEAD, part(b"x")), (GET, part())], ids=["HEAD", "full length"])
async def test_an_application_that_sends_what_no_client_gets(
    request_: bytes, message: Message, is_ended_first: bool
) -> None:
    """No write of it can fail."""
    async with serving(endless(message)) as site:
        wire = await site.connect()
        await wire.send(request_ + NEXT)
        if not is_ended_first:
            await wire.head()
            await asyncio.sleep(5)
        wire.end()
        method = request_.partition(b" ")[0].decode()
        if is_ended_first:
            await wire.answer(method)
        elif method == "GET":
            assert await wire.reader.readexactly(3) == b"abc"
        assert (await wire.answer()).body == b"next"
        assert await wire.rest() == b""
        await until_empty(site)


@virtual
async def test_the_end_behind_more_requests_than_are_buffered(caplog: pytest.LogCaptureFixture) -> None:
    """Reading is paused, so that the end of file is not read."""
    app = Streaming([LONG_S])
    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(GET)
        await wire.head()
        await wire.send(NEXT * (100_000 // len(NEXT)))
        await asyncio.sleep(5)
        assert app.told_s == 0
        await wire.send(NEXT)
        await wire.close()
        await until_empty(site)
    assert 5 < app.told_s < 5 + SOON_S
    assert not caplog.records
