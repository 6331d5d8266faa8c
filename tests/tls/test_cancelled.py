"""Cancellation at every step of making a TLS connection: nothing is left, and the next one works."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.conftest import settle
from tests.protocols import Echo, Recorder
from tests.tls.authority import HOST, Authority
from tests.tls.endpoint import Endpoint, connected, settled
from tests.transport.conftest import socket_pair

# More turns than a handshake takes.
MOST = 60


async def cancelled_after(turns: int, making: Coroutine[Any, Any, Any]) -> tuple[asyncio.Task[Any], bool]:
    """The task, cancelled after so many turns of the loop, at its end; and whether it was still under way then."""
    task = asyncio.get_running_loop().create_task(making)
    await settle(turns)
    was_under_way = not task.done()
    task.cancel()
    await asyncio.wait([task])
    return task, was_under_way


def is_whole(protocol: Recorder) -> bool:
    """Who was told of its connection was told of its end, once; others of neither."""
    return protocol.calls == [] or (
        protocol.calls[0] == "connection_made"
        and protocol.calls[-1] == "connection_lost"
        and protocol.calls.count("connection_lost") == 1
    )


async def works(loop: asyncio.AbstractEventLoop, authority: Authority, address: Any) -> None:
    transport, protocol = await loop.create_connection(
        Recorder, *address, ssl=authority.client_context(), server_hostname=HOST
    )
    transport.write(b"hello")
    assert await protocol.wait_received(5) == b"hello"
    transport.close()
    await protocol.wait_lost()


async def test_create_connection(loop: asyncio.AbstractEventLoop, authority: Authority, version: str) -> None:
    server = await loop.create_server(Echo, "127.0.0.1", 0, ssl=authority.server_context())
    address = server.sockets[0].getsockname()
    context = authority.client_context(version)
    for turns in range(MOST):
        made: list[Recorder] = []

        def factory(made: list[Recorder] = made) -> Recorder:
            made.append(Recorder())
            return made[-1]

        task, was_under_way = await cancelled_after(
            turns, loop.create_connection(factory, *address, ssl=context, server_hostname=HOST)
        )
        if not task.cancelled():
            task.result()[0].abort()
        await settled()
        for protocol in made:
            assert is_whole(protocol), (turns, protocol.calls)
        if not was_under_way:
            break
    else:
        pytest.fail(f"no connection after {MOST} turns")
    assert turns > 5
    await works(loop, authority, address)
    server.close()
    await server.wait_closed()
    await settled()


async def test_connect_accepted_socket(loop: asyncio.AbstractEventLoop, authority: Authority, version: str) -> None:
    for turns in range(MOST):
        ours, theirs = socket_pair("tcp")
        client = loop.create_task(
            loop.create_connection(Recorder, sock=theirs, ssl=authority.client_context(version), server_hostname=HOST)
        )
        protocol = Recorder()
        task, was_under_way = await cancelled_after(
            turns,
            loop.connect_accepted_socket(lambda protocol=protocol: protocol, ours, ssl=authority.server_context()),
        )
        if not task.cancelled():
            task.result()[0].abort()
        ours.close()
        with contextlib.suppress(OSError):
            _, connection = await client
            await connection.wait_lost()
        theirs.close()
        await settled()
        assert is_whole(protocol), (turns, protocol.calls)
        if not was_under_way:
            break
    else:
        pytest.fail(f"no connection after {MOST} turns")


@pytest.mark.parametrize("server_side", [True, False])
async def test_start_tls(loop: asyncio.AbstractEventLoop, authority: Authority, server_side: bool) -> None:
    for turns in range(MOST):
        ours, theirs = socket_pair("tcp")
        plain, protocol = await loop.create_connection(Recorder, sock=ours)
        other, _ = await loop.create_connection(Recorder, sock=theirs)
        contexts = {True: authority.server_context(), False: authority.client_context()}
        hosts = {True: None, False: HOST}
        peer = loop.create_task(
            loop.start_tls(
                other,
                Recorder(),
                contexts[not server_side],
                server_side=not server_side,
                server_hostname=hosts[not server_side],
            )
        )
        task, was_under_way = await cancelled_after(
            turns,
            loop.start_tls(
                plain, protocol, contexts[server_side], server_side=server_side, server_hostname=hosts[server_side]
            ),
        )
        if task.cancelled():
            # A task that was cancelled before it began has touched nothing.
            assert plain.is_closing() == (turns > 0), turns
        else:
            task.result().abort()
        plain.abort()
        with contextlib.suppress(OSError):
            secure = await peer
            assert secure is not None
            secure.abort()
        other.abort()
        await settled()
        if not was_under_way:
            break
    else:
        pytest.fail(f"no connection after {MOST} turns")


@pytest.mark.parametrize("server_side", [True, False], ids=["server", "client"])
async def test_an_upgrade_that_is_cancelled_tells_nobody(
    loop: asyncio.AbstractEventLoop, authority: Authority, server_side: bool
) -> None:
    """The protocol's connection ends without a word, for the upgrade has taken it over and has not begun."""
    ours, theirs = socket_pair("tcp")
    with theirs:
        plain, protocol = await loop.create_connection(Recorder, sock=ours)
        context = authority.server_context() if server_side else authority.client_context()
        name = None if server_side else HOST
        task = loop.create_task(loop.start_tls(plain, protocol, context, server_side=server_side, server_hostname=name))
        await settled()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await settled()
        assert plain.is_closing()
        assert protocol.calls == ["connection_made"]


@pytest.mark.oneloop_only("asyncio: TypeError when the transport below is TLS, too, and is aborted", before=(3, 13))
async def test_start_tls_inside_of_tls(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    for turns in (1, 2, 3, 5, 8, 13):
        async with connected(authority) as (outer, protocol, accepted, _):
            task, _ = await cancelled_after(
                turns, loop.start_tls(outer, protocol, authority.client_context(), server_hostname=HOST)
            )
            assert task.cancelled()
            assert outer.is_closing()
            accepted.abort()
            await settled()


async def test_the_program_ends_in_the_middle(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """Both tasks of a handshake are cancelled at once, as at the end of `asyncio.run`."""
    for turns in range(12):
        ours, theirs = socket_pair("tcp")
        tasks: list[asyncio.Task[Any]] = [
            loop.create_task(loop.connect_accepted_socket(Recorder, ours, ssl=authority.server_context())),
            loop.create_task(
                loop.create_connection(Recorder, sock=theirs, ssl=authority.client_context(), server_hostname=HOST)
            ),
        ]
        await settle(turns)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled() and task.exception() is None:
                task.result()[0].abort()
        ours.close()
        theirs.close()
        await settled()


@pytest.mark.oneloop_only("asyncio waits for ever")
@pytest.mark.parametrize("below", ["tcp", "tls"])
async def test_start_tls_on_a_connection_that_is_lost(
    loop: asyncio.AbstractEventLoop, authority: Authority, below: str
) -> None:
    ours, theirs = socket_pair("tcp")
    transport: Any
    if below == "tls":
        endpoint = Endpoint(theirs, authority.client_context())
        making = loop.create_task(loop.connect_accepted_socket(Recorder, ours, ssl=authority.server_context()))
        await endpoint.shake_hands()
        transport, protocol = await making
    else:
        transport, protocol = await loop.create_connection(Recorder, sock=ours)
    transport.abort()
    assert await protocol.wait_lost() is None
    with pytest.raises(ConnectionResetError):
        await loop.start_tls(transport, protocol, authority.client_context(), server_hostname=HOST)
    theirs.close()
