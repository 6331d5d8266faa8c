"""What the operator is told: errors of the application's own, refusals; not that clients go away."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable

import pytest

from oneloop.http import DisconnectedError
from tests.conftest import settle
from tests.http.site import GET, Receive, Scope, Send, reply, serving

START = {"type": "http.response.start", "status": 200, "headers": []}
PART = {"type": "http.response.body", "body": b"a" * 1000, "more_body": True}
LONG = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 100_000 + b"\r\n\r\n"


async def send_to_nobody(receive: Receive, send: Send) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    # What is sent in the iteration in which the end became known is dropped; later an error is raised.
    await settle(3)
    await send(START)
    await send(PART)


async def lets_it_through(receive: Receive, send: Send) -> None:
    await send_to_nobody(receive, send)


async def raises_another_while_handling(receive: Receive, send: Send) -> None:
    try:
        await send_to_nobody(receive, send)
    except OSError:
        raise RuntimeError("cannot send")  # noqa: B904


async def raises_another_from_it(receive: Receive, send: Send) -> None:
    try:
        await send_to_nobody(receive, send)
    except OSError as error:
        raise RuntimeError("cannot send") from error


async def sends_in_a_group(receive: Receive, send: Send) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(send_to_nobody(receive, send))


async def fails_by_itself(receive: Receive, send: Send) -> None:
    with contextlib.suppress(DisconnectedError):
        await send_to_nobody(receive, send)
    raise FileNotFoundError("a file of the application's")


async def has_another_in_the_group(receive: Receive, send: Send) -> None:
    async def fail() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("a task of the application's")

    async with asyncio.TaskGroup() as group:
        group.create_task(fail())
        group.create_task(send_to_nobody(receive, send))


@pytest.mark.parametrize(
    ("way", "is_told"),
    [
        (lets_it_through, False),
        (raises_another_while_handling, False),
        (raises_another_from_it, False),
        (sends_in_a_group, False),
        (fails_by_itself, True),
        (has_another_in_the_group, True),
    ],
)
async def test_which_errors_after_the_client_has_gone_are_told(
    way: Callable[[Receive, Send], Awaitable[None]], is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ended = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await way(receive, send)
        finally:
            ended.set()

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(GET)
        wire.reset()
        await ended.wait()
    assert len(caplog.records) == is_told, caplog.text


async def test_what_send_raises() -> None:
    raised: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send_to_nobody(receive, send)
        except BaseException as error:
            raised.set_result(error)

    async with serving(app) as site:
        wire = await site.connect()
        await wire.send(GET)
        wire.reset()
        error = await raised
    assert type(error) is DisconnectedError
    assert isinstance(error, ConnectionResetError)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    await reply(send, b"")


@pytest.mark.parametrize(
    ("request_", "status"),
    [(b"GET\r\n\r\n", 400), (LONG, 431), (GET.replace(b"1.1", b"2.7"), 505)],
)
async def test_refusals_are_told(request_: bytes, status: int, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(app) as site:
        wire = await site.connect()
        host, port = wire.writer.get_extra_info("sockname")
        assert (await wire.ask(request_)).status == status
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("oneloop.error", logging.WARNING)
    assert record.getMessage().startswith(f"A request from {host}:{port} was refused with status {status}: ")


async def test_a_percent_sign_is_text(caplog: pytest.LogCaptureFixture) -> None:
    """What a client sends is never a format."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "%s %d"})

    async with serving(app) as site:
        await site.ask()
    assert all(record.getMessage() for record in caplog.records)
    assert len(caplog.records) == 1


async def test_a_connection_without_its_proxy_header_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(app, proxy_protocol=True) as site:
        wire = await site.connect()
        host, port = wire.writer.get_extra_info("sockname")
        await wire.send(GET)
        assert await wire.rest() == b""
    (record,) = caplog.records
    assert record.getMessage() == f"A connection from {host}:{port} without a PROXY header was closed."


async def test_nothing_is_said_of_each_part_for_a_client_that_has_gone(caplog: pytest.LogCaptureFixture) -> None:
    client = socket.socket()
    client.setblocking(False)
    ended = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(START)
        await send(PART)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        client.close()
        # The loop has not heard of it.
        for _ in range(20):
            await send({**PART, "body": bytes(100_000)})
        ended.set()

    async with serving(app) as site:
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, ("127.0.0.1", site.port))
        await loop.sock_sendall(client, GET)
        await ended.wait()
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
