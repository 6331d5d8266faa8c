"""`receive` and `send`: what they tell, when they wait, and what they do when the peer has gone."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from typing import Any

import pytest

from tests.conftest import settle
from tests.http.site import GET, Echo, Message, Receive, Scope, Send, body_of, reply, serving

POST = b"POST / HTTP/1.1\r\nHost: a\r\n"
DISCONNECT = {"type": "http.disconnect"}


async def test_a_request_without_a_body() -> None:
    told: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        told.append(await receive())
        await reply(send)
        told.append(await receive())
        told.append(await receive())

    async with serving(app) as site:
        await site.ask()
    assert told == [{"type": "http.request", "body": b"", "more_body": False}, DISCONNECT, DISCONNECT]
    assert [type(value) for value in told[0].values()] == [str, bytes, bool]


async def test_a_body_in_parts() -> None:
    told: list[Message] = []
    heard = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while not told or told[-1]["more_body"]:
            told.append(await receive())
            heard.set()
        await reply(send)

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(POST + b"Content-Length: 6\r\n\r\n")
        for part in (b"ab", b"cd", b"ef"):
            heard.clear()
            await wire.send(part)
            await heard.wait()
        await wire.answer()
    assert told == [
        {"type": "http.request", "body": b"ab", "more_body": True},
        {"type": "http.request", "body": b"cd", "more_body": True},
        {"type": "http.request", "body": b"ef", "more_body": False},
    ]


async def test_a_body_in_long_and_short_parts_that_waits() -> None:
    parts = [b"a" * size for size in (3, 5, 2000, 1, 1, 1024, 1025, 7)]
    got: list[bytes] = []
    is_sent = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await is_sent.wait()
        got.append((await receive())["body"])
        got.append(await body_of(receive))
        await reply(send)

    async with serving(app) as site:
        wire = await site.connect()
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
        await wire.send(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        while not site.http.requests:
            await asyncio.sleep(0)
        is_sent.set()
        while not got:
            await asyncio.sleep(0)
        await wire.send(b"2\r\nzz\r\n0\r\n\r\n")
        await wire.answer()
    assert got == [b"".join(parts), b"zz"]


async def test_a_client_that_leaves_while_receive_waits() -> None:
    told: list[Message] = []
    waits = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        waits.set()
        told.append(await receive())
        told.append(await receive())

    async with serving(app) as site:
        for leave in ("close", "reset"):
            wire = await site.connect()
            await wire.send(GET)
            await waits.wait()
            if leave == "close":
                await wire.close()
            else:
                wire.reset()
            await site.until_empty()
            waits.clear()
    assert told == [DISCONNECT] * 4


async def test_a_client_that_leaves_in_the_middle_of_its_body() -> None:
    told: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        told.append(await receive())
        told.append(await receive())

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(POST + b"Content-Length: 6\r\n\r\nab")
        while not told:
            await asyncio.sleep(0)
        wire.reset()
        await site.until_empty()
    assert told == [{"type": "http.request", "body": b"ab", "more_body": True}, DISCONNECT]


@pytest.mark.parametrize("handles", [True, False])
async def test_send_to_a_client_that_has_left(handles: bool, caplog: pytest.LogCaptureFixture) -> None:
    """An OSError, which is no error of the application's; not in the iteration in which waiting tasks are told."""
    errors: list[BaseException] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        assert await receive() == DISCONNECT
        await send({"type": "http.response.start", "status": 200})
        await asyncio.sleep(0)
        for message in (
            {"type": "http.response.early_hint", "links": []},
            {"type": "http.response.start", "status": 200},
            {"type": "http.response.body", "body": b"a"},
        ):
            try:
                await send(message)
            except OSError as error:
                errors.append(error)
                if not handles:
                    raise RuntimeError("caused by it") from error

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(GET)
        wire.reset()
        await site.until_empty()
    assert len(errors) == (3 if handles else 1)
    assert not caplog.records


async def test_a_client_that_leaves_while_send_waits(caplog: pytest.LogCaptureFixture) -> None:
    errors: list[BaseException] = []
    waits = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        try:
            while True:
                asyncio.get_running_loop().call_soon(waits.set)
                await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
        except OSError as error:
            errors.append(error)
            raise

    async with serving(app) as site:
        wire = await site.connect()
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await wire.send(GET)
        await waits.wait()
        await settle(50)
        assert not errors
        wire.reset()
        await site.until_empty()
    assert len(errors) == 1
    assert not caplog.records


async def test_the_applications_own_os_errors_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise FileNotFoundError("a file")

    async with serving(app) as site:
        assert (await site.ask()).status == 500
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_an_error_after_the_client_has_left_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await receive()
        raise ValueError("mine")

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(GET)
        wire.reset()
        await site.until_empty()
    assert "mine" in caplog.text


async def test_receive_in_a_task_beside() -> None:
    """As frameworks listen for a disconnect while they stream."""
    told: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        listening: asyncio.Task[Message] = asyncio.create_task(receive())  # type: ignore[arg-type]
        await send({"type": "http.response.start", "status": 200})
        for _ in range(3):
            await asyncio.sleep(0)
            await send({"type": "http.response.body", "body": b"a", "more_body": True})
        assert not listening.done()
        await send({"type": "http.response.body"})
        told.append(await listening)

    async with serving(app) as site:
        wire = await site.connect()
        for _ in range(2):
            assert (await wire.ask()).body == b"aaa"
        await site.until_idle()
    assert told == [DISCONNECT] * 2


async def test_send_from_another_task() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def work() -> None:
            await reply(send, b"beside")

        await asyncio.create_task(work())

    async with serving(app) as site:
        assert (await site.ask()).body == b"beside"


async def test_send_itself_as_a_task() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for message in (
            {"type": "http.response.start", "status": 200},
            {"type": "http.response.body", "body": b"a"},
        ):
            await asyncio.create_task(send(message))  # type: ignore[arg-type]

    async with serving(app) as site:
        assert (await site.ask()).body == b"a"


async def test_two_sends_at_once() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        part = {"type": "http.response.body", "body": bytes(1 << 20), "more_body": True}
        await asyncio.gather(*(send(part) for _ in range(8)))
        await send({"type": "http.response.body"})

    async with serving(app) as site:
        assert len((await site.ask()).body) == 8 << 20


async def test_a_wait_that_times_out_can_be_waited_again() -> None:
    timeouts = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal timeouts
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(receive(), 0.001)
            timeouts += 1
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await receive()
        await send({"type": "http.response.early_hint", "links": []})
        await reply(send, await body_of(receive))

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(POST + b"Content-Length: 3\r\n\r\n")
        assert (await wire.answer()).status == 103
        await wire.send(b"abc")
        assert (await wire.answer()).body == b"abc"
    assert timeouts == 3


async def test_asking_again_and_again_leaves_nothing_behind() -> None:
    """As `Request.is_disconnected()` of Starlette does while a stream runs."""
    grown: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        before = 0
        for number in range(2000):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await receive()
            if number == 500:
                before = sum(isinstance(thing, asyncio.Future) for thing in gc.get_objects())
        grown.append(sum(isinstance(thing, asyncio.Future) for thing in gc.get_objects()) - before)
        await reply(send)

    async with serving(app) as site:
        await site.ask()
    assert grown[0] < 10


async def test_a_send_that_was_cancelled_can_be_followed() -> None:
    """What a cancelled send had to say is not said; what follows is."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        size = 0
        while True:
            try:
                async with asyncio.timeout(0.01):
                    await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
            except TimeoutError:
                break
            size += 1 << 20
        await send({"type": "http.response.body", "body": b"%d" % size})

    async with serving(app) as site:
        wire = await site.connect()
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await wire.send(GET)
        await asyncio.sleep(0.2)
        wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
        body = (await wire.answer()).body
        digits = body.lstrip(b"\0")
        assert len(body) - len(digits) == int(digits)


async def test_kinds_of_bodies() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": ((b"x", bytearray(b"y")),)})
        for body in (bytearray(b"a"), memoryview(b"b"), memoryview(b"xcdx")[1:3], b""):
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "more_body": False})

    async with serving(app) as site:
        response = await site.ask()
    assert response.body == b"abcd"
    assert dict(response.fields)[b"x"] == b"y"


@pytest.mark.parametrize("byte", [*range(9), *range(10, 32), 127])
async def test_control_bytes_in_headers(byte: int, caplog: pytest.LogCaptureFixture) -> None:
    """Refused, as by the option `--header`: RFC 9110 section 5.5."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"x-one", b"a" + bytes([byte]) + b"b")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

    async with serving(app) as site:
        assert (await site.ask(GET)).status == 500
    assert "Invalid HTTP header value" in caplog.text


async def test_an_application_that_sends_without_end() -> None:
    """Its client leaves, and it does not listen for that: others are served, and it is ended."""
    ended = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200})
            while True:
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
        finally:
            ended.set()

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(GET)
        await wire.reader.read(100)
        wire.writer.transport.abort()
        async with asyncio.timeout(20):
            await ended.wait()


async def test_headers_of_any_kind() -> None:
    def generated() -> Any:
        yield [b"X-A", b"1"]
        yield (b"x-b", b"2")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": generated()})
        await send({"type": "http.response.body"})

    async with serving(app) as site:
        response = await site.ask()
    assert response.values(b"x-a") == [b"1"]
    assert (b"x-a", b"1") in response.fields
    assert (b"x-b", b"2") in response.fields


@pytest.mark.parametrize("status", [200, 201, 299, 418, 451, 500, 599, 600, 999])
async def test_statuses(status: int) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, b"a", status)

    async with serving(app) as site:
        assert (await site.ask()).status == status


async def test_many_at_once() -> None:
    most = running = 0
    goes_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal most, running
        running += 1
        most = max(most, running)
        if running == 200:
            goes_on.set()
        await goes_on.wait()
        running -= 1
        await reply(send, scope["path"].encode())

    async with serving(app) as site:
        responses = await asyncio.gather(*(site.ask(GET.replace(b"/ ", b"/%d " % n)) for n in range(200)))
    assert [response.body for response in responses] == [b"/%d" % number for number in range(200)]
    assert most == 200


async def test_work_after_the_response() -> None:
    """The next request of the connection does not wait for it, and the server does."""
    goes_on = asyncio.Event()
    done: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, b"a")
        if scope["path"] == "/work":
            await goes_on.wait()
        done.append(scope["path"])

    async with serving(app) as site:
        wire = await site.connect()
        await wire.ask(GET.replace(b"/ ", b"/work "))
        await wire.ask()
        assert done == ["/"]
        assert site.http.requests == 1
        goes_on.set()
        await site.until_idle()
    assert done == ["/", "/work"]


async def test_a_body_that_is_refused_on_the_way() -> None:
    """The application hears of a disconnect, and its response goes nowhere."""
    told: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        told.append(await receive())
        told.append(await receive())
        await asyncio.sleep(0)
        with pytest.raises(OSError, match="closed"):
            await reply(send, b"fooled")

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        while not told:
            await asyncio.sleep(0)
        await wire.send(b"zz\r\n")
        assert (await wire.answer()).status == 400
        assert await wire.rest() == b""
    assert told == [{"type": "http.request", "body": b"abc", "more_body": True}, DISCONNECT]


async def test_reuse_of_what_was_awaited() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        got = receive()
        await got
        with pytest.raises(RuntimeError, match="already awaited"):
            await got
        await reply(send)

    async with serving(app) as site:
        assert (await site.ask()).status == 200


async def test_the_same_application_over_and_over() -> None:
    echo = Echo()
    async with serving(echo) as site:
        wire = await site.connect()
        for size in range(0, 3000, 7):
            body = bytes(size)
            response = await wire.ask(POST + b"Content-Length: %d\r\n\r\n" % size + body)
            assert response.body == body


@pytest.mark.parametrize("waits", [True, False])
async def test_an_application_that_keeps_what_it_was_given_is_collected(waits: bool) -> None:
    class Keeper:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            self.kept = receive, send
            if waits:
                await asyncio.sleep(0)
            await reply(send)

    keeper = Keeper()
    alive = weakref.ref(keeper)
    async with serving(keeper, keep_alive_timeout_s=0.04) as site:
        await site.ask()
    del keeper, site
    # The server's own timer knows it until then.
    while alive() is not None:
        await asyncio.sleep(0.01)
        gc.collect()
