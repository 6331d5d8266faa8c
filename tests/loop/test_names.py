"""getaddrinfo and getnameinfo: what they return, and numeric addresses without a thread."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

CASES: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (("127.0.0.1", 80), {"type": socket.SOCK_STREAM}),
    (("127.0.0.1", "80"), {"type": socket.SOCK_STREAM}),
    ((b"127.0.0.1", 80), {"type": socket.SOCK_STREAM}),
    (("127.0.0.1", 53), {"type": socket.SOCK_DGRAM}),
    (("127.0.0.1", 80), {"type": socket.SOCK_STREAM, "proto": socket.IPPROTO_TCP}),
    (("127.0.0.1", 80), {"type": socket.SOCK_STREAM, "flags": socket.AI_PASSIVE}),
    (("::1", 80), {"type": socket.SOCK_STREAM}),
    (("::1", 80), {"family": socket.AF_INET6, "type": socket.SOCK_STREAM}),
    (("fe80::1%lo", 80), {"type": socket.SOCK_STREAM}),
    (("fe80::1%1", 80), {"type": socket.SOCK_STREAM}),
    (("::ffff:127.0.0.1", 80), {"type": socket.SOCK_STREAM}),
    (("127.0.0.1", None), {"type": socket.SOCK_STREAM}),
    (("127.0.0.1", 0), {}),
    (("127.1", 80), {"type": socket.SOCK_STREAM}),
    (("localhost", 80), {"family": socket.AF_INET, "type": socket.SOCK_STREAM}),
    ((None, 80), {"type": socket.SOCK_STREAM, "flags": socket.AI_PASSIVE}),
    ((None, 80), {"type": socket.SOCK_STREAM}),
]


@pytest.mark.parametrize(("arguments", "options"), CASES)
async def test_getaddrinfo_is_the_sockets(
    loop: asyncio.AbstractEventLoop, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    assert await loop.getaddrinfo(*arguments, **options) == socket.getaddrinfo(*arguments, **options)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (("127.0.0.1", 80), {"family": socket.AF_INET6, "type": socket.SOCK_STREAM}),
        (("::1", 80), {"family": socket.AF_INET, "type": socket.SOCK_STREAM}),
        (("127.0.0.1.5", 80), {"flags": socket.AI_NUMERICHOST}),
        (("name.invalid", 80), {"flags": socket.AI_NUMERICHOST}),
        (("127.0.0.1", "no-such-service"), {}),
        (("fe80::1%no-such-interface", 80), {"flags": socket.AI_NUMERICHOST}),
    ],
)
async def test_getaddrinfo_fails_as_the_sockets_does(
    loop: asyncio.AbstractEventLoop, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    with pytest.raises(socket.gaierror) as expected:
        socket.getaddrinfo(*arguments, **options)
    with pytest.raises(socket.gaierror) as got:
        await loop.getaddrinfo(*arguments, **options)
    assert got.value.errno == expected.value.errno


@pytest.mark.parametrize("host", [1, 1.5, object(), ["127.0.0.1"]])
async def test_what_is_not_a_host(loop: asyncio.AbstractEventLoop, host: Any) -> None:
    with pytest.raises(TypeError):
        await loop.getaddrinfo(host, 80)


@pytest.mark.oneloop_only("stock asyncio asks a thread about numeric addresses too")
async def test_numeric_addresses_need_no_thread(loop: asyncio.AbstractEventLoop) -> None:
    before = threading.active_count()
    for host in ("127.0.0.1", "::1"):
        await loop.getaddrinfo(host, 80, type=socket.SOCK_STREAM)
    reader, writer = await open_connection_to_a_listener(loop)
    writer.close()
    await writer.wait_closed()
    reader.close()
    assert threading.active_count() == before


async def open_connection_to_a_listener(
    loop: asyncio.AbstractEventLoop,
) -> tuple[socket.socket, asyncio.StreamWriter]:
    listener = socket.create_server(("127.0.0.1", 0))
    _, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
    return listener, writer


@pytest.mark.parametrize(
    ("address", "flags"),
    [
        (("127.0.0.1", 80), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV),
        (("::1", 80, 0, 0), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV),
        (("127.0.0.1", 80), socket.NI_NUMERICHOST),
        (("fe80::1%lo", 80), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV),
        (("fe80::1", 80, 0, 1), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV),
        (("127.0.0.1", 53), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV | socket.NI_DGRAM),
    ],
)
async def test_getnameinfo_is_the_sockets(loop: asyncio.AbstractEventLoop, address: Any, flags: int) -> None:
    assert await loop.getnameinfo(address, flags) == socket.getnameinfo(address, flags)


async def test_getnameinfo_refuses_what_the_sockets_refuses(loop: asyncio.AbstractEventLoop) -> None:
    for address in ("127.0.0.1", ("127.0.0.1", "x"), None):
        with pytest.raises((TypeError, OSError)) as expected:
            socket.getnameinfo(address, 0)  # type: ignore[arg-type]
        with pytest.raises(expected.type):
            await loop.getnameinfo(address, 0)  # type: ignore[arg-type]
