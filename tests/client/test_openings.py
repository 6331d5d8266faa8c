"""How connections are opened: with and without a task, several addresses, the cache of names, the guard, the pace."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from typing import Any

import pytest

import oneloop
from oneloop.http import (
    AsyncClient,
    Client,
    CloseError,
    ConnectError,
    Limits,
    PrivateAddress,
    Timeout,
    TotalTimeout,
)
from oneloop.http.client import dialing
from oneloop.http.client.dialing import begin, dial
from oneloop.http.client.resolving import Resolver
from tests.client.callers import Caller
from tests.client.conftest import MakeCaller, left_of_failure
from tests.client.farm import farm
from tests.client.servers import Peer, RawServer, echo, full_listener, hold
from tests.conftest import cancelled, settle
from tests.ports import free_port


def test_refused(caller: Caller) -> None:
    port = free_port()
    for _ in range(2):
        with pytest.raises(ConnectError, match="Connect call failed") as caught:
            caller.get(f"http://127.0.0.1:{port}/")
        assert isinstance(caught.value.__cause__, ConnectionRefusedError)
        assert caught.value.request.method == "GET"
    assert caller.statistics()["open"] == 0


@pytest.mark.parametrize("number", [errno.EALREADY, errno.EINPROGRESS, errno.EINTR, errno.EISCONN])
def test_it_may_be_there_at_once_or_later(caller: Caller, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the kernel says when it is asked a second time."""
    monkeypatch.setattr(socket.socket, "connect_ex", lambda *_: number)
    with RawServer(echo) as server:
        assert caller.get(f"{server.url}/a").text == "/a"
    if number != errno.EISCONN:
        with pytest.raises(ConnectError, match="Connect call failed"):
            caller.get(f"http://127.0.0.1:{free_port()}/")


def test_most_connections_to_the_same_machine_are_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        begun = [begin((socket.AF_INET, server.getsockname()), None) for _ in range(20)]
        for sock, _ in begun:
            sock.close()
    assert any(is_connected for _, is_connected in begun)


async def test_cancelled_and_closed_while_it_is_opened() -> None:
    with full_listener() as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        async with AsyncClient(timeout=None) as client:
            task = asyncio.ensure_future(client.get(url))
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            other = asyncio.ensure_future(client.get(url))
            await asyncio.sleep(0.02)
        with pytest.raises(CloseError):
            await other


async def test_whoever_is_cancelled_while_addresses_are_tried_is_freed_at_once() -> None:
    """`cancelled` looks: the error that ends the task has the frames in which it waited."""
    loop: Any = asyncio.get_running_loop()
    with full_listener() as listener:
        silent = (socket.AF_INET, listener.getsockname())
        for ticks in range(5):
            assert (await cancelled(dial(loop, [silent, silent]), ticks)).cancelled()


@pytest.mark.parametrize("is_late", [False, True], ids=["in the same moment", "after it was cancelled"])
async def test_a_second_connection_is_closed(is_late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialing, "HAPPY_EYEBALLS_DELAY_S", 0.0)
    begun: list[int] = []
    made: list[socket.socket] = []
    may_connect = asyncio.Event()

    async def connect(*_: Any) -> socket.socket:
        begun.append(1)
        is_second = len(begun) == 2
        try:
            await (asyncio.Event() if is_second and is_late else may_connect).wait()
        except asyncio.CancelledError:
            # It was connected already.
            assert is_second
        made.append(socket.socket())
        return made[-1]

    monkeypatch.setattr(dialing, "_try", connect)
    loop: Any = asyncio.get_running_loop()
    dialed = loop.create_task(dial(loop, [(socket.AF_INET, ("127.0.0.1", 1))] * 2))
    while len(begun) < 2:
        await asyncio.sleep(0)
    may_connect.set()
    with await dialed as first:
        await settle(3)
        assert first.fileno() >= 0
        assert [sock.fileno() for sock in made if sock is not first] == [-1]


def test_more_wait_than_may_open(make_caller: MakeCaller) -> None:
    """Failures are told one by one, however many wait."""
    port = free_port()

    async def main() -> None:
        async with AsyncClient(limits=Limits(max_connections=1), timeout=None) as client:
            calls = [client.get(f"http://127.0.0.1:{port}/{number}") for number in range(3000)]
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(result) for result in results} == {ConnectError}

    oneloop.run(main())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_tls_with_and_without_a_task(make_caller: MakeCaller, host: str) -> None:
    with farm(secured=True) as server:
        trusting = make_caller(verify=False)
        assert trusting.get(f"https://{host}:{server.port}/kept").text == "hello"
        distrusting = make_caller()
        with pytest.raises(ConnectError, match=r"(?i)certificate"):
            distrusting.get(f"https://{host}:{server.port}/kept")
        assert distrusting.statistics()["open"] == 0


def test_from_a_local_address(make_caller: MakeCaller) -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        peer.answer(peer.sock.getpeername()[0].encode())

    with RawServer(serve) as server:
        assert make_caller(local_address="127.0.0.9").get(server.url).text == "127.0.0.9"
        with pytest.raises(ConnectError):
            make_caller(local_address="192.0.2.1").get(server.url)


async def test_the_first_address_that_takes_the_connection() -> None:
    loop: Any = asyncio.get_running_loop()
    refused = (socket.AF_INET, ("127.0.0.1", free_port()))
    with RawServer(hold) as server, full_listener() as listener:
        silent = (socket.AF_INET, listener.getsockname())
        right = (socket.AF_INET, ("127.0.0.1", server.port))
        for addresses in ([refused, right], [silent, right], [right, silent], [refused, silent, right], [right]):
            began = time.monotonic()
            with await dial(loop, addresses) as sock:
                assert sock.getpeername()[1] == server.port
            # The kernel would wait for two minutes.
            assert time.monotonic() - began < 60
        with pytest.raises(ConnectionRefusedError):
            await dial(loop, [refused])
        other = (socket.AF_INET, ("127.0.0.1", free_port()))
        with pytest.raises(OSError, match="Multiple exceptions: "):
            await dial(loop, [refused, other])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.4):
                await dial(loop, [silent, silent, refused])


async def test_names_are_kept_for_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    loop: Any = asyncio.get_running_loop()
    asked: list[str] = []
    real = loop.getaddrinfo

    async def getaddrinfo(host: str, *args: Any, **kwargs: Any) -> Any:
        asked.append(host)
        await asyncio.sleep(0.01)
        return await real("127.0.0.1" if host.startswith("name") else host, *args, **kwargs)

    monkeypatch.setattr(type(loop), "getaddrinfo", lambda _, *args, **kwargs: getaddrinfo(*args, **kwargs))

    def serve(peer: Peer) -> None:
        peer.head()
        peer.answer(b"ok", "200 OK", "Connection: close")

    server = RawServer(serve)
    with server:
        async with AsyncClient(dns_cache_s=30) as client:
            # Lookups at the same time are one.
            await asyncio.gather(*[client.get(f"http://name.test:{server.port}/{n}") for n in range(5)])
            await client.get(f"http://name.test:{server.port}/")
            assert asked == ["name.test"]
        async with AsyncClient(dns_cache_s=0) as client:
            await client.get(f"http://name.test:{server.port}/")
            await client.get(f"http://name.test:{server.port}/")
            assert asked == ["name.test"] * 3
        asked.clear()
        client = AsyncClient(dns_cache_s=30)
        await client.get(f"http://name.test:{server.port}/")
    # It is gone: the name is asked for anew.
    for _ in range(2):
        with pytest.raises(ConnectError):
            await client.get(f"http://name.test:{server.port}/")
    assert len(asked) >= 2
    await client.aclose()


def test_a_name_that_does_not_exist(caller: Caller) -> None:
    with pytest.raises(ConnectError) as caught:
        caller.get("http://nothing.invalid/")
    assert isinstance(caught.value.__cause__, socket.gaierror)


PRIVATE = [
    "127.0.0.1",
    "localhost",
    "[::1]",
    "10.0.0.1",
    "169.254.169.254",
    "0.0.0.0",
    "[::ffff:10.0.0.1]",
    "2130706433",
]


@pytest.mark.parametrize("host", PRIVATE)
def test_addresses_of_the_inside_are_refused(make_caller: MakeCaller, host: str) -> None:
    caller = make_caller(block_private=True, timeout=60)
    with RawServer(echo) as server:
        with pytest.raises(PrivateAddress, match=r"block_private"):
            caller.get(f"http://{host}:{server.port}/")
        assert server.connections == 0


async def test_only_public_addresses_of_a_name_are_used() -> None:
    class Names:
        """A loop that knows one name."""

        def __init__(self) -> None:
            self.now = 0.0
            self.asked = 0
            self.create_task = asyncio.get_running_loop().create_task
            self.may_respond = asyncio.Event()

        def time(self) -> float:
            return self.now

        async def getaddrinfo(self, _: str, port: int, **__: Any) -> list[Any]:
            self.asked += 1
            await self.may_respond.wait()
            found = ("10.0.0.1", "8.8.8.8", "127.0.0.1")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    names: Any = Names()
    guarded = Resolver(names, 30.0, True)
    first, second = [asyncio.create_task(guarded.addresses("mixed.test", 80)) for _ in range(2)]
    await asyncio.sleep(0)
    # The lookup is also that of the one who still waits.
    first.cancel()
    await asyncio.sleep(0)
    names.may_respond.set()
    assert await second == [(socket.AF_INET, ("8.8.8.8", 80))]
    assert first.cancelled()
    assert await guarded.of_proxies.addresses("mixed.test", 80) != await second
    assert names.asked == 2
    names.now = 29.0
    await guarded.addresses("mixed.test", 80)
    assert names.asked == 2
    names.now = 30.0
    await guarded.addresses("mixed.test", 80)
    assert names.asked == 3
    guarded.forget("mixed.test", 80)
    await guarded.addresses("mixed.test", 80)
    assert names.asked == 4
    for number in range(5000):
        await guarded.addresses(f"{number}.test", 80)
    assert guarded.at_once("mixed.test", 80) is None
    assert guarded.at_once("4999.test", 80) is not None
    guarded.close()


def test_a_redirect_to_the_inside_is_refused(make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first server counts as public, so that only the redirect decides."""
    with RawServer(echo) as inside:

        def serve(peer: Peer) -> None:
            peer.head()
            peer.answer(b"", "302 Found", f"Location: http://127.0.0.2:{inside.port}/metadata")

        monkeypatch.setattr("oneloop.http.client.resolving._is_public", lambda text: text == "127.0.0.1")
        with RawServer(serve) as server:
            caller = make_caller(block_private=True, follow_redirects=True)
            with pytest.raises(PrivateAddress):
                caller.get(server.url)
        assert inside.connections == 0


def test_requests_keep_their_pace(make_caller: MakeCaller) -> None:
    caller = make_caller(limits=Limits(max_requests_per_second=50))
    with RawServer(echo) as server:
        began = time.monotonic()
        for _ in range(6):
            caller.get(server.url)
        # Five gaps of 20 ms since the first request; the clock of a busy machine only makes them longer.
        assert time.monotonic() - began > 0.08
        slow = make_caller(limits=Limits(max_requests_per_second=0.01), timeout=Timeout(60.0, total=0.5))
        slow.get(server.url, timeout=60)
        with pytest.raises(TotalTimeout):
            slow.get(server.url)


async def test_turns_that_nobody_takes() -> None:
    """Neither a request that has no time for its turn has one, nor one that is cancelled while it waits for it."""
    with RawServer(echo) as server:
        async with AsyncClient(limits=Limits(max_requests_per_second=0.5), timeout=Timeout(60, total=1000)) as client:
            await client.get(server.url)
            short = [client.get(server.url, timeout=Timeout(60, total=0.1)) for _ in range(100)]
            results = await asyncio.gather(*short, return_exceptions=True)
            assert {type(result) for result in results} == {TotalTimeout}
            waiting = [asyncio.ensure_future(client.get(server.url)) for _ in range(100)]
            await asyncio.sleep(0)
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
            # The turn behind them would be in 200 s.
            await client.get(server.url, timeout=Timeout(60, total=100))


async def test_other_origins_have_their_own_pace() -> None:
    with RawServer(echo) as one, RawServer(echo) as two:
        async with AsyncClient(limits=Limits(max_requests_per_second=0.01)) as client:
            async with asyncio.timeout(60):
                await client.get(one.url)
                await client.get(two.url)


def test_a_pace_must_be_positive() -> None:
    with pytest.raises(ValueError, match="max_requests_per_second"):
        Client(limits=Limits(max_requests_per_second=0))


async def test_a_lookup_fails_when_nobody_waits_for_it_any_more() -> None:
    """Its exception is nobody's: `audit` finds no report of it."""
    may_respond = asyncio.Event()
    loop: Any = asyncio.get_running_loop()

    class Names:
        time = loop.time
        create_task = loop.create_task

        async def getaddrinfo(self, *_: Any, **__: Any) -> list[Any]:
            await may_respond.wait()
            raise socket.gaierror(socket.EAI_NONAME, "no such name")

    names: Any = Names()
    resolver = Resolver(names, 30.0, False)
    assert (await cancelled(resolver.addresses("name.test", 80), 2)).cancelled()
    may_respond.set()
    await settle(5)


@pytest.mark.parametrize("kind", ["address", "no such name", "one", "two", "two that differ", "not TLS"])
async def test_a_failed_connection_is_freed_with_its_error(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by the collector: a program that is refused again and again keeps no clients meanwhile."""
    hosts = {"one": ["127.0.0.1"], "two": ["127.0.0.1"] * 2, "two that differ": ["127.0.0.1", "127.0.0.2"]}

    async def names(_: str, port: int, **__: Any) -> list[Any]:
        if kind not in hosts:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in hosts[kind]]

    def speak_plainly(peer: Peer) -> None:
        peer.send(b"220 no TLS here\r\n")
        peer.wait_for_end()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", names)
    with RawServer(speak_plainly) as server:
        url = f"http://{'127.0.0.1' if kind == 'address' else 'name.test'}:{free_port()}/"
        if kind == "not TLS":
            url = f"https://127.0.0.1:{server.port}/"
        assert await left_of_failure(lambda client: client.get(url)) == []


async def test_closing_is_cancelled_while_openings_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "getaddrinfo", never)
    ends = []
    for ticks in range(6):
        client = AsyncClient(trust_env=False)
        asking = loop.create_task(client.get("http://name.test/"))
        await settle(5)
        ends.append((await cancelled(client.aclose(), ticks)).cancelled())
        await client.aclose()
        with pytest.raises(CloseError):
            await asking
    assert ends[1:3] == [True, True]
