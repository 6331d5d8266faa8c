"""The limits on connections: how many an origin has, who gets a free place, and how long a request waits for one."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from oneloop._native import ClientOrigin, ClientPool, ClientTimeouts
from oneloop.http import AsyncClient, ConnectError, Limits, PoolTimeout, ReadError, Timeout
from tests.client.servers import Peer, RawServer, echo, hold

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
NEVER = ClientTimeouts(None, None, None)
SHORT_S = 0.05
"""How long some requests wait for their turn."""
SOON = ClientTimeouts(None, None, SHORT_S)


def start(origin: ClientOrigin, timeouts: ClientTimeouts = NEVER) -> Any:
    exchange = origin.start("GET", HEAD, None, False, False, True, timeouts, None, 0, None)
    # It begins when somebody waits for it.
    _ = exchange.ended()
    return exchange


class Openings(list[Any]):
    """A pool that opens nothing: the exchanges that connections are to be opened for."""

    def __init__(self, most: int | None, most_per_origin: int | None) -> None:
        super().__init__()
        loop: Any = asyncio.get_running_loop()
        self.pool = ClientPool(loop, lambda _, exchange: self.append(exchange), most, most_per_origin, None, None)

    def origin(self) -> ClientOrigin:
        return ClientOrigin(self.pool, None)


@pytest.mark.parametrize("name", ["max_connections", "max_keepalive_connections", "max_connections_per_origin"])
def test_a_number_of_connections_is_not_negative(name: str) -> None:
    numbers: dict[str, Any] = {name: -1}
    with pytest.raises(ValueError, match=f"{name} must not be negative, not -1"):
        Limits(**numbers)
    numbers = {name: 0}
    assert getattr(Limits(**numbers), name) == 0


async def test_an_origin_has_as_many_connections_as_it_may() -> None:
    openings = Openings(None, 2)
    origin, other = openings.origin(), openings.origin()
    first, second, third = start(origin), start(origin), start(origin)
    assert openings == [first, second]
    assert origin.open == 2
    # Another origin has places of its own.
    fourth = start(other)
    assert openings == [first, second, fourth]
    # The place of one that could not be opened is the next one's.
    origin.opening_failed(first, ConnectError("refused"))
    assert isinstance(first.error, ConnectError)
    assert openings == [first, second, fourth, third]
    assert origin.open == 2
    for exchange in (second, third, fourth):
        exchange.close()
    openings.pool.shut()


async def test_the_time_for_a_turn_ends_with_the_turn() -> None:
    """From then on the request waits for the connection, which has a time of its own."""
    openings = Openings(None, 1)
    origin = openings.origin()
    first, second, third = start(origin), start(origin, SOON), start(origin, SOON)
    origin.opening_failed(first, ConnectError("refused"))
    assert openings == [first, second]
    await asyncio.sleep(2 * SHORT_S)
    assert second.error is None
    assert isinstance(third.error, PoolTimeout)
    second.close()
    openings.pool.shut()


async def test_a_request_whose_new_connection_went_to_another_one() -> None:
    """It waits for its turn again, behind another origin that has waited for longer, and not for ever."""
    for timeouts in (NEVER, SOON):
        openings = Openings(2, None)
        one, other = openings.origin(), openings.origin()
        with RawServer(hold) as server:
            loop: Any = asyncio.get_running_loop()
            first, second, older = start(one), start(one, timeouts), start(other)
            assert openings == [first, second]
            # The connection for the second request is there first, and serves the first one.
            connection = one.new_connection()
            await loop.create_connection(lambda made=connection: made, "127.0.0.1", server.port)
            one.opening_failed(first, ConnectError("refused"))
            assert first.error is None
            assert openings == [first, second, older]
            if timeouts is SOON:
                await asyncio.sleep(2 * SHORT_S)
                assert isinstance(second.error, PoolTimeout)
            other.opening_failed(older, ConnectError("refused"))
            assert openings == [first, second, older, *([second] if timeouts is NEVER else [])]
            first.close()
            second.close()
            openings.pool.shut()
            await asyncio.sleep(0.01)


async def test_a_connection_that_has_ended_goes_to_nobody_who_waits() -> None:
    """The server closes it behind a response. What waits may not be sent twice, so it is not sent there at all."""
    closed = threading.Event()

    def serve(peer: Peer) -> None:
        if peer.number:
            echo(peer)
            return
        peer.head()
        peer.answer(b"first")
        peer.end()
        closed.set()

    with RawServer(serve) as server:
        async with AsyncClient(limits=Limits(max_connections=1), timeout=Timeout(60)) as client:
            first = asyncio.ensure_future(client.get(server.url))
            second = asyncio.ensure_future(client.post(server.url + "/second"))
            while client.statistics()["waiting"] != 1 or client.statistics()["opened"] != 1:
                await asyncio.sleep(0)
            # The response and the end are there when the loop looks for the response.
            assert closed.wait(60)
            assert (await first).content == b"first"
            assert (await second).content == b"/second"
            assert client.statistics()["repeated"] == 0


class Refusing(asyncio.Transport):
    """Cannot write."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error
        self.is_aborted = False

    def write(self, data: Any) -> None:
        raise self.error

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        """It is gone already."""


async def test_a_request_that_cannot_be_written_ends() -> None:
    """It was waiting for the connection: nobody else could tell it."""
    openings = Openings(None, None)
    origin = openings.origin()
    exchange = start(origin)
    transport = Refusing(MemoryError())
    origin.new_connection().connection_made(transport)
    assert isinstance(exchange.error, MemoryError)
    assert transport.is_aborted
    interrupted = start(origin)
    transport = Refusing(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        origin.new_connection().connection_made(transport)
    assert isinstance(interrupted.error, ReadError)
    assert transport.is_aborted
    openings.pool.shut()
