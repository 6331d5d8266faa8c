"""Who gets which connection: openings that fail or come in another order, places of idle connections, what is kept."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from oneloop import registry, snapshot
from oneloop._native import ClientOrigin, ClientPool, ClientTimeouts
from oneloop.http import (
    AsyncClient,
    ConnectError,
    Limits,
    ReadError,
    ReadTimeout,
    RemoteProtocolError,
    Timeout,
    TotalTimeout,
)
from tests.client.callers import Caller
from tests.client.conftest import MakeCaller
from tests.client.servers import Peer, RawServer, echo, full_listener, hold

NEVER = ClientTimeouts(None, None, None)
IDLE_S = 77.0
HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def start(origin: ClientOrigin) -> Any:
    exchange = origin.start("GET", HEAD, None, False, False, True, NEVER, None, 0, None)
    # It begins when somebody waits for it.
    _ = exchange.ended()
    return exchange


async def test_an_opening_fails_after_another_one_has_served_its_request() -> None:
    """The request whose connection was taken gets another one."""
    opened: list[Any] = []
    loop: Any = asyncio.get_running_loop()
    pool = ClientPool(loop, lambda _, exchange: opened.append(exchange), None, None, None, None)
    origin = ClientOrigin(pool, None)
    first, second = start(origin), start(origin)
    assert opened == [first, second]
    # The connection for the second one is there first, and serves the first one.
    connection = origin.new_connection()
    with RawServer(hold) as server:
        transport, _ = await loop.create_connection(lambda: connection, "127.0.0.1", server.port)
        origin.opening_failed(first, ConnectError("refused"))
        assert first.error is None
        assert opened == [first, second, second]
        origin.opening_failed(second, ConnectError("refused"))
        assert isinstance(second.error, ConnectError)
        first.close()
        pool.shut()
        transport.abort()
        await asyncio.sleep(0.01)


async def test_who_gives_up_tells_the_others_who_wait() -> None:
    opened: list[Any] = []
    loop: Any = asyncio.get_running_loop()
    pool = ClientPool(loop, lambda _, exchange: opened.append(exchange), None, None, None, None)
    origin = ClientOrigin(pool, None)
    exchange = start(origin)

    async def sends() -> None:
        await exchange.ended()

    async def receives() -> None:
        await exchange.whole()

    sender, receiver = asyncio.ensure_future(sends()), asyncio.ensure_future(receives())
    await asyncio.sleep(0)
    sender.cancel()
    with pytest.raises(ReadError, match="was closed"):
        await receiver
    pool.shut()


async def test_a_pause_that_cannot_be_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without memory for the timer of an idle connection. What is counted stays right."""
    loop: Any = asyncio.get_running_loop()
    call_later = loop.call_later

    def fail(time_s: float, *args: Any) -> Any:
        if time_s == IDLE_S:
            raise MemoryError
        return call_later(time_s, *args)

    told: list[Any] = []
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
    with RawServer(echo) as server:
        async with AsyncClient(limits=Limits(keepalive_expiry=IDLE_S), timeout=None) as client:
            with monkeypatch.context() as patch:
                patch.setattr(type(loop), "call_later", lambda _, *args: fail(*args), raising=False)
                assert (await client.get(server.url + "/a")).text == "/a"
            await asyncio.sleep(0.01)
            assert [type(error) for error in told] == [MemoryError]
            assert client.statistics()["idle"] == 0
            for _ in range(2):
                assert (await client.get(server.url + "/b")).text == "/b"
            counts = client.statistics()
            assert (counts["open"], counts["idle"], counts["opened"]) == (1, 1, 2)


def test_a_server_that_speaks_first(caller: Caller) -> None:
    def serve(peer: Peer) -> None:
        peer.send(b"220 mail.example ESMTP\r\n")
        peer.wait_for_end()

    with RawServer(serve) as server, pytest.raises(RemoteProtocolError, match="answer is invalid"):
        caller.get(server.url)


async def test_the_place_of_any_idle_connection_is_given_away() -> None:
    servers = [RawServer(echo) for _ in range(3)]
    holding = RawServer(hold)
    for server in [*servers, holding]:
        server.__enter__()
    limits = Limits(max_connections=4, keepalive_expiry=None)
    async with AsyncClient(limits=limits, timeout=Timeout(60.0)) as client:
        await client.get(servers[0].url)
        held = [asyncio.ensure_future(client.get(holding.url, timeout=None)) for _ in range(3)]
        await asyncio.sleep(0.05)
        # Only the first connection, which became idle when there was room, can make place.
        assert (await client.get(servers[1].url + "/x")).text == "/x"
        for _ in range(300):
            await client.get(servers[1].url)
        assert (await client.get(servers[2].url + "/y")).text == "/y"
        for task in held:
            task.cancel()
        await asyncio.wait(held)
    for server in [*servers, holding]:
        server.__exit__(None, None, None)


async def test_the_total_timeout_holds_while_a_connection_is_opened() -> None:
    """Also for a request that had to wait for its turn before."""
    with RawServer(echo) as server, full_listener() as listener:
        limits = Limits(max_connections=1)
        async with AsyncClient(limits=limits, timeout=Timeout(None, total=0.3)) as client:
            first = asyncio.ensure_future(client.get(server.url))
            second = asyncio.ensure_future(client.get(f"http://127.0.0.1:{listener.getsockname()[1]}/"))
            results = await asyncio.gather(first, second, return_exceptions=True)
            assert any(isinstance(result, TotalTimeout) for result in results), results


async def test_failed_requests_leave_nothing() -> None:
    with RawServer(hold) as server:
        async with AsyncClient(timeout=Timeout(60.0, read=0.01)) as client:
            gc.collect()
            errors = []
            for _ in range(3):
                with pytest.raises(ReadTimeout) as caught:
                    await client.get(server.url)
                errors.append(weakref.ref(caught.value))
                del caught
            gc.collect()
            assert [error() for error in errors] == [None, None, None]


def test_the_request_of_a_response_is_what_was_sent(make_caller: MakeCaller) -> None:
    with RawServer(echo) as server:
        caller = make_caller(base_url=server.url)
        for _ in range(2):
            response = caller.get("/")
        caller.client.headers["X-Later"] = "1"
        assert "x-later" not in response.request.headers
        assert response.request.headers["host"] == f"127.0.0.1:{server.port}"
        assert str(response.url) == server.url + "/"


async def test_the_snapshot_has_the_sums_of_a_loops_clients() -> None:
    loop: Any = asyncio.get_running_loop()

    def counts() -> Any:
        mine = next(shown for number, shown in zip(registry.loops(), snapshot.take()["loops"], strict=True)
                    if number[1] is loop)  # fmt: skip
        return mine["client"]

    assert counts() is None
    with RawServer(echo) as server, RawServer(hold) as holding:
        async with AsyncClient() as one, AsyncClient(limits=Limits(max_connections=1)) as two:
            await one.get(server.url)
            await one.get(server.url)
            tasks = [asyncio.ensure_future(two.get(holding.url)) for _ in range(3)]
            while counts()["opened"] != 2:
                await asyncio.sleep(0.001)
            assert counts() == {"open": 2, "idle": 1, "waiting": 2, "opened": 2, "requests": 5, "repeated": 0}
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
    assert counts() is None
