"""Connected transports of several kinds for the transport tests."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import oneloop
from tests import descriptors
from tests.conftest import settle
from tests.protocols import Recorder

KINDS = ("unix", "tcp")
Connect = Callable[..., Any]


def socket_pair(kind: str) -> tuple[socket.socket, socket.socket]:
    """Two connected sockets, non-blocking."""
    if kind == "unix":
        pair = socket.socketpair()
    else:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            client = socket.create_connection(listener.getsockname())
            pair = (client, listener.accept()[0])
    for end in pair:
        end.setblocking(False)
    return pair


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def connect(kind: str) -> Connect:
    """Gives a context manager of (transport, protocol, peer), where peer is a plain non-blocking socket."""

    @asynccontextmanager
    async def connected(factory: Callable[[], Any] = Recorder, **options: Any) -> AsyncIterator[tuple[Any, Any, Any]]:
        loop = asyncio.get_running_loop()
        ours, theirs = socket_pair(kind)
        transport, protocol = await loop.create_connection(factory, sock=ours, **options)
        try:
            yield transport, protocol, theirs
        finally:
            theirs.close()
            # Stock asyncio cannot abort what closed itself after its queue left.
            if not transport.is_closing() or transport.get_write_buffer_size():
                transport.abort()
            await settle(3)

    return connected


@pytest.fixture(params=["asyncio", "oneloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Run a coroutine function on a new loop; afterwards no descriptor and no error may be left."""
    factory = asyncio.SelectorEventLoop if request.param == "asyncio" else oneloop.Loop
    before = descriptors.open_descriptors()
    loop = factory()
    errors: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: errors.append(context))

    def runner(main: Callable[..., Any], *, errors_expected: int = 0) -> Any:
        try:
            result = loop.run_until_complete(asyncio.wait_for(main(), 60))
            loop.run_until_complete(asyncio.sleep(0))
        finally:
            loop.close()
        assert len(errors) == errors_expected, errors
        return result

    runner.loop = loop  # type: ignore[attr-defined]
    runner.errors = errors  # type: ignore[attr-defined]
    runner.is_ours = request.param == "oneloop"  # type: ignore[attr-defined]
    yield runner
    loop.close()
    gc.collect()
    left = descriptors.opened_since(before)
    assert not left, left


ALL = b"one,two,three"
"""What `write_all` writes."""


def write_all(transport: Any) -> None:
    transport.write(b"one,")
    transport.write(bytearray(b"two,"))
    transport.writelines([b"thr", b"ee"])
