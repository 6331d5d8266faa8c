"""Applications that go wrong: nothing wrong ever leaves, the peer can tell, and the log says why."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import oneloop
from tests.http.site import GET, App, Message, Receive, Scope, Send, Wire, reply, serving

Steps = Callable[[Receive, Send], Awaitable[Any]]

START: Message = {"type": "http.response.start", "status": 200, "headers": []}
LOGGER = "oneloop.error"


def application(steps: Steps) -> App:
    async def app(scope: Scope, receive: Receive, send: Send) -> Any:
        return await steps(receive, send)

    return app


def length(number: int) -> Message:
    return {**START, "headers": [(b"content-length", b"%d" % number)]}


def part(body: object, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


def sends(*messages: Message) -> Steps:
    async def steps(receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    return steps


def raises(error: BaseException, *messages: Message) -> Steps:
    async def steps(receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)
        raise error

    return steps


async def paused(receive: Receive, send: Send) -> None:
    """Fails after the head has left."""
    await send(START)
    await asyncio.sleep(0)
    raise ValueError("secret")


async def returns_a_value(receive: Receive, send: Send) -> int:
    await reply(send)
    return 1


async def nothing(receive: Receive, send: Send) -> None: ...


def head(*fields: tuple[Any, ...], **others: Any) -> Steps:
    return sends({**START, "headers": list(fields), **others}, part(b""))


# Whatever the application does here, its peer gets a 500 and the end of the connection.
BEFORE: dict[str, Steps] = {
    "raises": raises(ValueError("secret")),
    "raises-system-exit": raises(SystemExit("secret")),
    "raises-after-start": raises(ValueError("secret"), START),
    "raises-a-timeout": raises(TimeoutError("secret")),
    "raises-an-os-error": raises(ConnectionResetError("secret")),
    "returns": nothing,
    "returns-after-start": sends(length(3)),
    "body-first": sends(part(b"secret")),
    "two-starts": sends(START, START),
    "unknown-type": sends({"type": "http.response.stop"}),
    "no-type": sends({"status": 200}),
    "no-status": sends({"type": "http.response.start"}),
    "websocket-message": sends({"type": "websocket.accept"}),
    "trailers-unannounced": sends(START, {"type": "http.response.trailers", "headers": []}),
    "status-text": head(status="200"),
    "status-none": head(status=None),
    "status-0": head(status=0),
    "status-99": head(status=99),
    "status-100": head(status=100),
    "status-101": head(status=101),
    "status-1000": head(status=1000),
    "status-negative": head(status=-200),
    "status-huge": head(status=1 << 70),
    "message-is-none": sends(None),  # type: ignore[arg-type]
    "message-is-a-list": sends([]),  # type: ignore[arg-type]
    "headers-number": sends({**START, "headers": 1}),
    "header-text": head(("x", "y")),
    "header-value-text": head((b"x", "y")),
    "header-value-none": head((b"x", None)),
    "header-one": head((b"x",)),
    "header-three": head((b"x", b"y", b"z")),
    "header-name-empty": head((b"", b"y")),
    "header-name-space": head((b"x y", b"z")),
    "header-name-colon": head((b"x:", b"y")),
    "header-name-line": head((b"x\r\ny", b"z")),
    "header-value-crlf": head((b"x", b"y\r\nSet-Cookie: z")),
    "header-value-lf": head((b"x", b"y\nz")),
    "header-value-cr": head((b"x", b"y\rz")),
    "header-value-nul": head((b"x", b"y\0z")),
    "length-text": head((b"content-length", b"x")),
    "length-negative": head((b"content-length", b"-1")),
    "length-plus": head((b"content-length", b"+1")),
    "length-list": head((b"content-length", b"1, 1")),
    "length-two": head((b"content-length", b"1"), (b"content-length", b"2")),
    "length-huge": head((b"content-length", b"9" * 30)),
    "body-text": sends(START, part("secret")),
    "body-none": sends(START, part(None)),
    "body-number": sends(START, part(1)),
    "body-too-long": sends(length(2), part(b"abc")),
    "body-too-short": sends(length(4), part(b"abc")),
    "body-too-long-in-first": sends(length(2), part(b"abc", more=True)),
    "body-missing": sends(length(4), part(b"")),
    "hint-lines": sends({"type": "http.response.early_hint", "links": [b"a\r\nb"]}),
    "hint-text": sends({"type": "http.response.early_hint", "links": ["a"]}),
}  # fmt: skip


@pytest.mark.parametrize("name", BEFORE)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_before_anything_has_left(name: str, method: str, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(application(BEFORE[name])) as site:
        wire = await site.connect()
        # What follows is not answered.
        await wire.send(GET.replace(b"GET", method.encode()) + GET)
        if method == "HEAD" and name in {"body-too-long", "body-too-short", "body-too-long-in-first", "body-missing"}:
            # No body leaves, so that none is wrong.
            response = await wire.answer(method)
            assert response.status == 200
            return
        response = await wire.answer(method)
        assert response.status == 500, response
        assert response.closes
        rest = await wire.rest()
        assert rest == b"", rest
        assert b"secret" not in response.body
        assert b"Traceback" not in response.body
        assert b"x" not in dict(response.fields)
    assert [record.name for record in caplog.records] == [LOGGER], caplog.text


# The head has left, or more: the connection ends without the response's end.
WITHIN: dict[str, Steps] = {
    "raises": raises(ValueError("secret"), START, part(b"abc", more=True)),
    "raises-at-pause": paused,
    "returns": sends(START, part(b"abc", more=True)),
    "length-returns": sends(length(6), part(b"abc", more=True)),
    "length-short": sends(length(6), part(b"abc", more=True), part(b"ab")),
    "length-long": sends(length(6), part(b"abc", more=True), part(b"abcd")),
    "length-long-more": sends(length(6), part(b"abc", more=True), part(b"abcd", more=True)),
    "start-again": sends(START, part(b"abc", more=True), START),
    "body-text": sends(START, part(b"abc", more=True), part("abc")),
    "trailers-missing": sends({**START, "trailers": True}, part(b"abc")),
    "trailers-line": sends(
        {**START, "trailers": True},
        part(b"abc"),
        {"type": "http.response.trailers", "headers": [(b"x", b"y\r\nz: a")]},
    ),
}


@pytest.mark.parametrize("name", WITHIN)
async def test_within_a_response(name: str, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(application(WITHIN[name])) as site:
        wire = await site.connect()
        await wire.send(GET + GET)
        response = await wire.head()
        assert response.status == 200
        rest = await wire.rest()
        if name.startswith("length"):
            assert rest == b"abc"
        else:
            assert rest in (b"3\r\nabc\r\n", b"", b"3\r\nabc\r\n0\r\n")
    assert [record.name for record in caplog.records] == [LOGGER], caplog.text


@pytest.mark.parametrize("name", ["raises", "returns", "body-text"])
async def test_http10_can_tell(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """An orderly end would be the end of the body."""
    async with serving(application(WITHIN[name])) as site:
        wire = await site.connect()
        await wire.send(GET.replace(b"1.1", b"1.0"))
        with pytest.raises(ConnectionResetError):
            await wire.rest()
    assert len(caplog.records) == 1


# The response was complete before: the connection lives on.
AFTER: dict[str, Steps] = {
    "raises": raises(ValueError("secret"), START, part(b"")),
    "value": returns_a_value,
    "body-again": sends(START, part(b""), part(b"secret")),
    "start-again": sends(START, part(b""), START),
}


@pytest.mark.parametrize("name", AFTER)
async def test_after_a_response(name: str, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(application(AFTER[name])) as site:
        wire = await site.connect()
        for _ in range(3):
            response = await wire.ask()
            assert (response.status, response.body, response.closes) == (200, b"", False)
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 3


def test_a_request_is_served_once() -> None:
    """The loop may go on after KeyboardInterrupt."""
    loop = oneloop.new_event_loop()
    paths: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        paths.append(scope["path"])
        await reply(send, scope["path"].encode())
        if scope["path"] == "/1":
            raise KeyboardInterrupt

    async def ask(wire: Wire, path: bytes) -> bytes:
        return (await wire.ask(GET.replace(b"/", path, 1))).body

    async def steps() -> None:
        async with serving(app) as site:
            wire = await site.connect()
            for path in (b"/1", b"/2", b"/3"):
                assert await ask(wire, path) == path

    work = loop.create_task(steps())
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(work)
    loop.run_until_complete(work)
    loop.close()
    assert paths == ["/1", "/2", "/3"]


async def test_a_caught_error_can_be_mended() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(length(3))
        for body in (b"abcd", b"ab"):
            with pytest.raises(RuntimeError):
                await send(part(body))
        await send(part(b"ab", more=True))
        for last in (b"cd", b""):
            with pytest.raises(RuntimeError):
                await send(part(last))
        await send(part(b"c"))

    async with serving(app) as site:
        assert (await site.ask()).body == b"abc"


async def test_a_wrong_start_can_be_mended() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for wrong in ({**START, "status": 99}, {**START, "headers": [(b"x", b"\n")]}, {**START, "headers": 1}):
            with pytest.raises((RuntimeError, TypeError)):
                await send(wrong)
        await reply(send, b"right")

    async with serving(app) as site:
        response = await site.ask()
        assert response.body == b"right"
        assert b"x" not in dict(response.fields)


async def test_no_coroutine_function(caplog: pytest.LogCaptureFixture) -> None:
    def app(scope: Scope, receive: Receive, send: Send) -> Any:
        return 1

    def two_calls(scope: Scope) -> Any:
        return 1

    for wrong in (app, two_calls):
        async with serving(wrong) as site:  # type: ignore[arg-type]
            assert (await site.ask()).status == 500
    assert len(caplog.records) == 2


async def test_an_error_while_a_body_is_uploaded(caplog: pytest.LogCaptureFixture) -> None:
    """The 500 arrives although the client goes on sending."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("secret")

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n" + b"a" * 100_000)
        response = await wire.answer()
        assert response.status == 500
        await wire.send(b"a" * 100_000)
        assert await wire.rest() == b""
    assert len(caplog.records) == 1
