"""Faults of the standard library's servers, streams and connections that older patch releases have, and this loop not.

Public reports, written anew: python/cpython#113538 and #155941 (a handler that is cancelled or raises leaves its
connection open), #152431 (`start_tls()` leaves the reader with the old transport).
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest

from tests.certificates import HOST, client_context, server_context
from tests.conftest import Reported, settle

pytestmark = pytest.mark.oneloop_only("stock asyncio has the faults of its patch release")


class HandlerError(Exception):
    pass


def raises(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    raise HandlerError


async def raises_later(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    await asyncio.sleep(0)
    raise HandlerError


async def cancels_itself(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def returns(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"hello")
    writer.close()


@contextlib.asynccontextmanager
async def serving(kind: str, handler: Any, path: str) -> AsyncIterator[tuple[asyncio.Server, Callable[[], Any]]]:
    """A server, and how to connect to it."""
    if kind == "unix":
        server = await asyncio.start_unix_server(handler, path)
        connect: Callable[[], Any] = partial(asyncio.open_unix_connection, path)
    else:
        server = await asyncio.start_server(handler, "127.0.0.1", 0, ssl=server_context() if kind == "tls" else None)
        where = server.sockets[0].getsockname()
        tls: dict[str, Any] = {"ssl": client_context()} if kind == "tls" else {}
        connect = partial(asyncio.open_connection, *where, **tls)
    try:
        yield server, connect
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("is_eager", [False, True], ids=["", "eager"])
@pytest.mark.parametrize("handler", [raises, raises_later, cancels_itself, returns])
@pytest.mark.parametrize("kind", ["tcp", "unix", "tls"])
async def test_the_connection_ends_with_its_handler(
    loop: asyncio.AbstractEventLoop, reported: Reported, tmp_path: Any, kind: str, handler: Any, is_eager: bool
) -> None:
    if is_eager:
        if sys.version_info < (3, 12):
            pytest.skip("eager tasks came with CPython 3.12")
        loop.set_task_factory(asyncio.eager_task_factory)
    async with serving(kind, handler, str(tmp_path / "socket")) as (_, connect):
        reader, writer = await connect()
        # Without its end, this read would wait for ever.
        assert await reader.read() == b"hello"
        writer.close()
        await writer.wait_closed()
    await settle()
    contexts = reported.take()
    errors = [context["exception"] for context in contexts]
    assert [type(error) for error in errors] == ([HandlerError] if "raises" in handler.__name__ else [])
    for context in contexts:
        assert context["message"] == "Unhandled exception in client_connected_cb"
        assert context["transport"].is_closing()


async def test_the_reader_pauses_the_transport_that_feeds_it(loop: asyncio.AbstractEventLoop) -> None:
    """After `start_tls`, a reader whose buffer is full pauses the TLS transport, and resumes it later."""
    size = 3_000_000

    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await writer.start_tls(server_context())
        writer.write(b"x" * size)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), limit=10_000)
    await writer.start_tls(client_context(), server_hostname=HOST)
    assert reader._transport is writer.transport  # type: ignore[attr-defined]
    while not reader._paused:  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    assert not writer.transport.is_reading()  # type: ignore[attr-defined]
    assert len(await reader.read(-1)) == size
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()
