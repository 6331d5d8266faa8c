"""Each kind of transport has the methods of asyncio's, and refuses those that asyncio's refuses, with its error."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

import oneloop
from tests.certificates import HOST, client_context, server_context

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "get_extra_info": ("peername",),
    "sendto": (b"",),
    "set_protocol": (asyncio.Protocol(),),
    "write": (b"",),
    "writelines": ([b""],),
}
ENDS = ("abort", "close")
"""Called last."""


@contextlib.asynccontextmanager
async def stream() -> AsyncIterator[Any]:
    one, two = socket.socketpair()
    with two:
        yield (await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=one))[0]


@contextlib.asynccontextmanager
async def tls() -> AsyncIterator[Any]:
    loop = asyncio.get_running_loop()
    one, two = socket.socketpair()
    accepting = asyncio.ensure_future(loop.connect_accepted_socket(asyncio.Protocol, two, ssl=server_context()))
    client, _ = await loop.create_connection(asyncio.Protocol, sock=one, ssl=client_context(), server_hostname=HOST)
    server, _ = await accepting
    yield client
    server.abort()


@contextlib.asynccontextmanager
async def datagram() -> AsyncIterator[Any]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.bind(("127.0.0.1", 0))
        loop = asyncio.get_running_loop()
        yield (await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=peer.getsockname()))[0]


@contextlib.asynccontextmanager
async def reading_pipe() -> AsyncIterator[Any]:
    read, write = os.pipe()
    with open(write, "wb"):
        yield (await asyncio.get_running_loop().connect_read_pipe(asyncio.Protocol, os.fdopen(read, "rb")))[0]


@contextlib.asynccontextmanager
async def writing_pipe() -> AsyncIterator[Any]:
    read, write = os.pipe()
    with open(read, "rb"):
        yield (await asyncio.get_running_loop().connect_write_pipe(asyncio.BaseProtocol, os.fdopen(write, "wb")))[0]


KINDS = (stream, tls, datagram, reading_pipe, writing_pipe)


def outcome(transport: Any, name: str) -> str:
    """Returns the class of what the method raises; "left out" if there is none, "returns" if it returns."""
    method = getattr(transport, name, None)
    if method is None:
        return "left out"
    try:
        method(*ARGUMENTS.get(name, ()))
    except Exception as error:
        return type(error).__name__
    return "returns"


def outcomes(kind: Any, make_loop: Any, names: list[str] | None = None) -> dict[str, str]:
    """Call the public methods of a transport, or those with the names."""

    async def main() -> dict[str, str]:
        async with kind() as transport:
            public = [name for name in dir(transport) if name[0] != "_" and callable(getattr(transport, name))]
            called = names or sorted(public, key=lambda name: (name in ENDS, name))
            found = {name: outcome(transport, name) for name in called}
            transport.close()
            await asyncio.sleep(0)
            return found

    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(main())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_methods_are_those_of_asyncio(kind: Any) -> None:
    expected = outcomes(kind, asyncio.SelectorEventLoop)
    assert {"close", "get_extra_info", "is_closing", "set_protocol"} <= set(expected)
    assert outcomes(kind, oneloop.new_event_loop, list(expected)) == expected
