"""Connections: pipelines, half-closed clients, Expect, ends that no reset cuts, and responses without a body."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from tests.conftest import settle
from tests.http.site import GET, Echo, Message, Receive, Scope, Send, body_of, reply, serving

POST = b"POST / HTTP/1.1\r\nHost: a\r\n"


def numbered(count: int) -> bytes:
    return b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(count))


async def paths(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the path; every other one waits before it does."""
    path = scope["path"].encode()
    if path[-1] % 2:
        await asyncio.sleep(0.001)
    await reply(send, path)


async def test_sixteen_requests_in_one_write() -> None:
    async with serving(paths) as site:
        wire = await site.connect()
        await wire.send(numbered(16))
        for number in range(16):
            assert (await wire.answer()).body == b"/%d" % number


async def test_a_pipeline_longer_than_what_is_kept() -> None:
    async with serving(paths) as site:
        wire = await site.connect()
        count = 5000
        sender = asyncio.ensure_future(wire.send(numbered(count)))
        for number in range(count):
            assert (await wire.answer()).body == b"/%d" % number
        await sender


async def test_requests_with_bodies_in_a_pipeline() -> None:
    echo = Echo()
    async with serving(echo) as site:
        wire = await site.connect()
        chunked = POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX: y\r\n\r\n"
        await wire.send((POST + b"Content-Length: 3\r\n\r\nabc" + chunked + GET) * 3)
        bodies = [(await wire.answer()).body for _ in range(9)]
        assert bodies == [b"abc", b"ab", b""] * 3


async def test_one_request_at_a_time() -> None:
    running = most = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        await reply(send)

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(numbered(8))
        for _ in range(8):
            await wire.answer()
    assert most == 1


@pytest.mark.parametrize("count", [1, 2, 7])
async def test_a_client_that_has_ended_its_side_is_answered(count: int) -> None:
    async with serving(paths) as site:
        wire = await site.connect()
        await wire.send(numbered(count))
        wire.end()
        for number in range(count):
            assert (await wire.answer()).body == b"/%d" % number
        assert await wire.rest() == b""


async def test_the_application_hears_of_an_ended_side() -> None:
    heard: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await body_of(receive)
        heard.append(await receive())
        heard.append(await receive())
        await reply(send, b"late")

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(GET)
        wire.end()
        assert (await wire.answer()).body == b"late"
        assert await wire.rest() == b""
    assert heard == [{"type": "http.disconnect"}] * 2


@pytest.mark.parametrize("cut", [b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\n"])
async def test_half_a_head_and_the_end(cut: bytes) -> None:
    echo = Echo()
    async with serving(echo) as site:
        wire = await site.connect()
        await wire.send(cut)
        wire.end()
        assert await wire.rest() == b""
    assert echo.heard == []


@pytest.mark.parametrize(
    "request_",
    [
        POST + b"Content-Length: 10\r\n\r\nabc",
        POST + b"Transfer-Encoding: chunked\r\n\r\na\r\nabc",
        POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
        GET + POST + b"Content-Length: 10\r\n\r\nabc",
    ],
)
async def test_half_a_body_is_never_a_whole_one(request_: bytes) -> None:
    ended: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await body_of(receive)
        except ConnectionError:
            ended.append("cut")
            return
        ended.append("whole")
        await asyncio.sleep(0)
        await reply(send)

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(request_)
        wire.end()
        await wire.rest()
        await site.until_empty()
    assert ended == (["whole", "cut"] if request_.startswith(GET) else ["cut"])


async def test_continue_is_asked_for_when_the_application_receives() -> None:
    asked = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asked.wait()
        await reply(send, await body_of(receive))

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        reading = asyncio.ensure_future(wire.answer())
        await settle(20)
        assert not reading.done()
        asked.set()
        assert (await reading).status == 100
        await wire.send(b"abc")
        answer = await wire.answer()
        assert (answer.status, answer.body, answer.closes) == (200, b"abc", False)
        assert (await wire.ask(POST + b"Content-Length: 0\r\n\r\n")).status == 200


async def test_continue_is_not_sent_to_those_who_did_not_wait() -> None:
    echo = Echo()
    async with serving(echo) as site:
        wire = await site.connect()
        await wire.send(POST + b"Expect: 100-Continue\r\nContent-Length: 3\r\n\r\nabc")
        assert (await wire.answer()).body == b"abc"


@pytest.mark.parametrize("is_flushed", [False, True])
async def test_a_body_that_was_not_asked_for_closes(is_flushed: bool) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if not is_flushed:
            await reply(send, b"no", 403)
            return
        # The head is sent before its body.
        await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"2")]})
        await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"no"})

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        answer = await wire.answer()
        assert (answer.status, answer.closes) == (403, True)
        # Whether this is the body or a request cannot be told.
        await wire.send(GET)
        assert await wire.rest() == b""


@pytest.mark.parametrize("has_length", [True, False])
@pytest.mark.parametrize("size", [10, 200_000, 5_000_000])
async def test_a_body_that_nobody_reads(size: int, has_length: bool) -> None:
    """A short one is dropped for the sake of the connection; a long one ends it, and the response arrives."""
    calls = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal calls
        calls += 1
        await reply(send, b"no", 403)

    body = bytes(size)
    if has_length:
        request = POST + b"Content-Length: %d\r\n\r\n" % size + body
    else:
        request = POST + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % size + body + b"\r\n0\r\n\r\n"
    async with serving(app) as site:
        wire = await site.connect()
        sender = asyncio.ensure_future(wire.send(request))
        answer = await wire.answer()
        assert (answer.status, answer.body) == (403, b"no")
        if answer.closes:
            assert await wire.rest() == b""
            await asyncio.wait([sender])
            sender.exception()
            assert calls == 1
        else:
            await sender
            assert (await wire.ask()).status == 403
            assert calls == 2
    assert answer.closes or size < 5_000_000


async def test_too_large_arrives_although_the_client_sends_on() -> None:
    echo = Echo()
    async with serving(echo, max_body_bytes=1000) as site:
        for framing in (b"Content-Length: 1000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\nf4240\r\n"):
            wire = await site.connect()
            await wire.send(POST + framing + bytes(500_000))
            answer = await wire.answer()
            assert (answer.status, answer.closes) == (413, True)
            await wire.send(bytes(500_000))
            assert await wire.rest() == b""


@pytest.mark.parametrize("status", [200, 204, 304, 404])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("way", ["length", "chunked", "one", "none", "stream"])
async def test_responses_without_a_body(status: int, method: str, way: str) -> None:
    """RFC 9110 section 6.4.1: whatever the application sends, what follows is the next response."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        fields = {"length": [(b"content-length", b"3")], "chunked": [(b"Transfer-Encoding", b"chunked")]}.get(way, [])
        await send({"type": "http.response.start", "status": status, "headers": fields})
        if way == "stream":
            await asyncio.sleep(0)
            await send({"type": "http.response.body", "body": b"a", "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            await send({"type": "http.response.body", "body": b"bc"})
        else:
            await send({"type": "http.response.body", "body": b"" if way == "none" else b"abc"})

    expected = b"" if way == "none" else b"abc"
    is_bare = method == "HEAD" or status in (204, 304)
    async with serving(app) as site:
        wire = await site.connect()
        for _ in range(2):
            await wire.send(GET.replace(b"GET", method.encode()))
            answer = await wire.answer(method)
            assert answer.status == status
            assert answer.body == (b"" if is_bare else expected)
            assert not answer.closes
            if status == 204:
                assert not answer.values(b"content-length")
            if is_bare:
                assert status == 200 or not answer.values(b"transfer-encoding")


async def streamed(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for part in (b"a", b"", b"bc"):
        await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body"})


async def test_http10_gets_no_chunks() -> None:
    async with serving(streamed) as site:
        wire = await site.connect()
        answer = await wire.ask(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert answer.body == b"abc"
        assert answer.closes
        assert not answer.values(b"transfer-encoding")


async def test_http11_gets_chunks() -> None:
    async with serving(streamed) as site:
        wire = await site.connect()
        for _ in range(2):
            assert (await wire.ask()).body == b"abc"


async def test_http10_keep_alive_needs_a_length() -> None:
    echo = Echo()
    async with serving(echo) as site:
        wire = await site.connect()
        for _ in range(3):
            answer = await wire.ask(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert answer.values(b"connection") == [b"keep-alive"]
            assert answer.values(b"content-length") == [b"0"]


async def test_http10_gets_neither_continue_nor_hints() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.early_hint", "links": [b"</a>"]})
        await reply(send, await body_of(receive))

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
        await asyncio.sleep(0)
        await wire.send(b"a")
        assert (await wire.answer()).status == 200


async def test_early_hints_and_trailers() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.early_hint", "links": [b"</a>; rel=preload", b"</b>"]})
        await send({"type": "http.response.start", "status": 200, "headers": [(b"trailer", b"x")], "trailers": True})
        await send({"type": "http.response.body", "body": b"abc"})
        await send({"type": "http.response.trailers", "headers": [(b"X", b"1")], "more_trailers": True})
        await send({"type": "http.response.trailers", "headers": [(b"Y", b"2")]})

    async with serving(app) as site:
        wire = await site.connect()
        for _ in range(2):
            hints = await wire.ask()
            assert (hints.status, hints.values(b"link")) == (103, [b"</a>; rel=preload", b"</b>"])
            answer = await wire.answer()
            assert (answer.status, answer.body) == (200, b"abc")
            assert answer.trailers == [(b"x", b"1"), (b"y", b"2")]


TRAILERS: Message = {"type": "http.response.trailers", "headers": [(b"x", b"1")]}
LAST: Message = {"type": "http.response.body", "body": b"abc"}


@pytest.mark.parametrize("has_length", [True, False])
@pytest.mark.parametrize(
    "wrong",
    [
        (0, TRAILERS),
        (1, TRAILERS),
        (2, LAST),
        (2, {"type": "http.response.pathsend", "path": __file__}),
        (2, {**TRAILERS, "headers": [(b"Content-Length", b"3")]}),
        (3, TRAILERS),
    ],
)
async def test_trailers_come_after_the_body(wrong: tuple[int, Message], has_length: bool) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"6")] if has_length else []
        await send({"type": "http.response.start", "status": 200, "headers": headers, "trailers": True})
        for at, message in enumerate([{**LAST, "more_body": True}, LAST, TRAILERS, None]):
            if at == wrong[0]:
                with pytest.raises(RuntimeError):
                    await send(wrong[1])
            if message is not None:
                await send(message)

    async with serving(app) as site:
        wire = await site.connect()
        for _ in range(2):
            answer = await wire.ask()
            assert (answer.body, answer.trailers) == (b"abcabc", [] if has_length else [(b"x", b"1")])


async def test_date_and_server_are_said_once() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        own = [(b"Date", b"now"), (b"Server", b"mine")] if scope["path"] == "/own" else []
        await reply(send, headers=own)

    async with serving(app, headers=[(b"server", b"ours"), (b"x-all", b"1")]) as site:
        wire = await site.connect()
        answer = await wire.ask()
        assert answer.values(b"server") == [b"ours"]
        (date,) = answer.values(b"date")
        assert re.fullmatch(rb"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", date)
        own = await wire.ask(GET.replace(b"/ ", b"/own "))
        assert (own.values(b"date"), own.values(b"server")) == ([b"now"], [b"mine"])
        assert own.values(b"x-all") == answer.values(b"x-all") == [b"1"]


@pytest.mark.parametrize("value", [b"close", b"Close", b"x, close"])
async def test_an_application_may_close(value: bytes) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, b"a", headers=[(b"Connection", value)])

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(GET + GET)
        assert (await wire.answer()).values(b"connection") == [value]
        assert await wire.rest() == b""


async def test_an_application_cannot_keep_a_connection_that_ends() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, b"a", headers=[(b"Connection", b"keep-alive")])

    async with serving(app) as site:
        wire = await site.connect()
        answer = await wire.ask(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert answer.values(b"connection") == [b"close"]
        assert await wire.rest() == b""


async def test_the_end_of_the_server_finishes_what_is_under_way() -> None:
    goes_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await goes_on.wait()
        await reply(send, await body_of(receive))

    async with serving(app) as site:
        idle, busy, half, partial = [await site.connect() for _ in range(4)]
        await busy.send(GET + GET)
        await half.send(POST + b"Content-Length: 3\r\n\r\na")
        await partial.send(GET[:10])
        while site.http.requests < 2:
            await asyncio.sleep(0)
        site.http.shut_down()
        # At once: half a head is waited for no longer than a second.
        await partial.send(GET[10:])
        assert await idle.rest() == b""
        goes_on.set()
        await half.send(b"bc")
        for wire, body in ((busy, b""), (half, b"abc"), (partial, b"")):
            answer = await wire.answer()
            assert (answer.status, answer.body, answer.closes) == (200, body, True)
            assert await wire.rest() == b""


async def test_a_request_that_was_on_its_way_to_a_server_that_ends_is_answered() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, await body_of(receive))

    async with serving(app) as site:
        idle, kept = [await site.connect() for _ in range(2)]
        for wire in (idle, kept):
            await wire.send(GET)
            assert not (await wire.answer()).closes
        await kept.send(GET)
        site.http.shut_down()
        answer = await kept.answer()
        assert (answer.status, answer.closes) == (200, True)
        assert await kept.rest() == b""
        assert await idle.rest() == b""


async def test_who_was_not_told_of_the_servers_end_may_ask_once_more() -> None:
    goes_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        await goes_on.wait()
        await send({"type": "http.response.body", "body": b"b"})

    async with serving(app) as site:
        wire = await site.connect()
        # The second one comes after the response has begun, and is answered with the word that no more are.
        await wire.send(GET)
        while not (await wire.reader.readline()).startswith(b"content-length"):
            pass
        site.http.shut_down()
        goes_on.set()
        await wire.send(GET)
        assert (await wire.reader.readexactly(4)) == b"\r\nab"
        answer = await wire.answer()
        assert (answer.status, answer.body, answer.closes) == (200, b"ab", True)
        assert await wire.rest() == b""


async def test_too_many_at_once() -> None:
    goes_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await goes_on.wait()
        await reply(send)

    async with serving(app, limit_concurrency=2) as site:
        first, second = [await site.connect() for _ in range(2)]
        await first.send(GET)
        while not site.http.requests:
            await asyncio.sleep(0)
        third = await site.connect()
        refused = await third.ask()
        assert (refused.status, refused.closes) == (503, True)
        assert await third.rest() == b""
        await third.close()
        goes_on.set()
        assert (await first.answer()).status == 200
        while site.http.connections > 2:
            await asyncio.sleep(0)
        assert (await second.ask()).status == 200


async def test_the_log_is_told_of_each_response() -> None:
    told: list[tuple[Any, ...]] = []
    totals: list[int] = []

    def on_response(*response: Any) -> None:
        told.append(response)

    async with serving(paths, on_response=on_response, on_request_end=totals.append) as site:
        wire = await site.connect()
        await wire.send(numbered(3))
        for _ in range(3):
            await wire.answer()
    assert [(row[1], row[2], row[3], row[4], row[5]) for row in told] == [
        ("GET", b"/%d" % number, "1.1", 200, 2) for number in range(3)
    ]
    assert totals == [1, 2, 3]


@pytest.mark.parametrize("path", [b"/", b"/fails", b"/breaks"])
async def test_a_log_that_fails_hinders_nobody(path: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/":
            await reply(send)
            return
        if scope["path"] == "/breaks":
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": b"a", "more_body": True})
        raise ValueError

    def on_response(*response: Any) -> None:
        raise OSError("no room")

    async with serving(app, on_response=on_response) as site:
        wire = await site.connect()
        await wire.send(GET.replace(b"/", path, 1))
        wire.end()
        assert await wire.rest()
    names = [record.exc_info[0].__name__ for record in caplog.records if record.exc_info and record.exc_info[0]]
    assert names == (["OSError"] if path == b"/" else ["ValueError", "OSError"])


@pytest.mark.parametrize("value", [b"keep-alive", b"close", b"Close, foo"])
async def test_the_connection_field_of_an_application_is_true(value: bytes) -> None:
    """The server closes, because the rest of the body is too long to be read for nothing."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, b"no", headers=[(b"connection", value)])

    async with serving(app) as site:
        wire = await site.connect()
        answer = await wire.ask(POST + b"Content-Length: 10000000\r\n\r\n")
        assert answer.values(b"connection") == [b"close" if value == b"keep-alive" else value]
        assert await wire.rest() == b""
