"""A place in the pool is given back, whatever ends the opening of its connection."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from oneloop.http import AsyncClient, Client, CloseError, ConnectTimeout, Limits, PrivateAddress, Retry, Timeout
from oneloop.http import client as package
from oneloop.http.client import openings
from oneloop.http.client.dialing import begin
from tests.client.conftest import MakeCaller
from tests.client.servers import Peer, RawServer, echo, full_listener
from tests.tracing import traced

SOURCES = [str(Path(package.__file__).parent / f"{name}.py") for name in ("pools", "openings", "resolving", "routes")]


def test_a_refused_address_takes_no_place(make_caller: MakeCaller) -> None:
    caller = make_caller(block_private=True, limits=Limits(max_connections=1), timeout=Timeout(5.0, pool=0.2))
    for _ in range(3):
        with pytest.raises(PrivateAddress):
            caller.get("http://127.0.0.1:1/")
    assert caller.statistics()["open"] == 0


def test_an_opener_that_fails_takes_no_place(make_caller: MakeCaller) -> None:
    with RawServer(echo) as server:
        caller = make_caller(limits=Limits(max_connections=1), timeout=Timeout(5.0, pool=0.2))
        for _ in range(2):
            with pytest.raises(TypeError):
                caller.get(server.url, timeout=Timeout(5.0, connect="soon"))
        assert caller.get(f"{server.url}/next").content == b"/next"


class Interruption:
    """Raises KeyboardInterrupt at a line of what opens connections, counted from the first one that runs."""

    def __init__(self, line: int) -> None:
        self._left = line
        self.place = ""

    def __call__(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if frame.f_code.co_filename not in SOURCES:
            return None
        if event == "call" and frame.f_back is not None and frame.f_back.f_code.co_name == "_run_loop":
            # A callback that has not begun: it is lost, as on asyncio, and who gives the request up ends the opening.
            return self._begun
        if event == "line":
            self._left -= 1
            if self._left == 0:
                self.place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                sys.settrace(None)
                raise KeyboardInterrupt
        return self

    def _begun(self, *_: Any) -> Callable[..., Any]:
        return self


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("target", ["/plain", "/a b", "/dropped"])
def test_interrupted_at_each_line(target: str, request: pytest.FixtureRequest) -> None:
    """Plain code that a signal handler interrupts can go on with the same client."""

    def serve(peer: Peer) -> None:
        is_kept = False
        while head := peer.head():
            if b"/dropped" in head and is_kept:
                # Without a response: it is sent again, on another connection.
                return
            is_kept = True
            peer.answer(head.split(b" ")[1])
            if b"/first" in head and target != "/dropped":
                return

    line = 0
    # What the tests before have left need not be looked through each time.
    gc.collect()
    gc.freeze()
    request.addfinalizer(gc.unfreeze)
    with RawServer(serve) as server:
        while True:
            line += 1
            interruption = Interruption(line)
            with Client(
                limits=Limits(max_connections=1, max_keepalive_connections=1), timeout=Timeout(60.0, pool=20.0)
            ) as client:
                # Its loop is there afterwards, its connection is not.
                client.get(f"{server.url}/first")
                try:
                    traced(lambda client=client: client.get(server.url + target), interruption)
                except KeyboardInterrupt:
                    pass
                else:
                    assert not interruption.place, "the exception is lost"
                if not interruption.place:
                    break
                gc.collect()
                assert client.get(f"{server.url}/next").content == b"/next", interruption.place
                counts = client.statistics()
                assert (counts["open"], counts["idle"], counts["waiting"]) == (1, 1, 0), interruption.place
    assert line > 30


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
async def test_an_opening_that_has_begun_when_its_start_is_interrupted_ends() -> None:
    loop = asyncio.get_running_loop()

    class Interruption(BaseException):
        pass

    begun: list[asyncio.Task[Any]] = []

    def factory(loop: Any, steps: Any, **given: Any) -> Any:
        task = asyncio.eager_task_factory(loop, steps, **given)
        if steps.__qualname__ == "Pool._open":
            begun.append(task)
            raise Interruption
        return task

    with full_listener() as listener, RawServer(echo) as server:
        async with AsyncClient(limits=Limits(max_connections=1), timeout=None) as client:
            loop.set_task_factory(factory)
            try:
                with pytest.raises(Interruption):
                    # A name: it is looked up within a task.
                    await client.get(f"http://localhost:{listener.getsockname()[1]}/")
            finally:
                loop.set_task_factory(None)
            await asyncio.wait(begun)
            assert begun[0].cancelled()
            assert client.statistics()["open"] == 0
            assert (await client.get(f"{server.url}/next")).content == b"/next"


async def test_who_gives_up_last_ends_the_opening() -> None:
    """That was begun for a request that was given up before."""
    with full_listener() as listener:
        async with AsyncClient(limits=Limits(max_connections=1), timeout=None) as client:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            requests = [asyncio.ensure_future(client.get(url)) for _ in range(3)]
            await asyncio.sleep(0.02)
            for request in requests:
                assert client.statistics()["open"] == 1
                request.cancel()
                await asyncio.wait([request])
            assert client.statistics()["open"] == 0


@pytest.mark.parametrize("protocols", [{}, {"http1": False, "http2": True}], ids=["http1", "http2"])
@pytest.mark.parametrize("pool", [None, 0.05])
async def test_who_waits_for_the_place_has_the_limits_of_its_own(pool: float | None, protocols: Any) -> None:
    """Not those of the one that had it, nor that of the turn, which it has."""
    with full_listener() as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        async with AsyncClient(limits=Limits(max_connections=1), timeout=None, **protocols) as client:
            first = asyncio.ensure_future(client.get(url))
            await asyncio.sleep(0)
            second = asyncio.ensure_future(client.get(url, timeout=Timeout(None, connect=0.2, pool=pool)))
            await asyncio.sleep(0)
            first.cancel()
            done, _ = await asyncio.wait([second], timeout=20)
            assert done
            with pytest.raises(ConnectTimeout):
                await second
            assert client.statistics()["open"] == 0


async def test_a_connection_is_for_the_request_that_it_was_opened_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits with its own limits, and who gives up ends the opening that nobody else needs."""

    def once(peer: Peer) -> None:
        peer.head()
        peer.answer(b"once", "200 OK", "Connection: close")

    with full_listener() as silent, RawServer(once) as server:
        targets = [silent.getsockname()]

        def first_elsewhere(address: Any, local_address: Any) -> Any:
            return begin((address[0], targets.pop() if targets else address[1]), local_address)

        monkeypatch.setattr(openings, "begin", first_elsewhere)
        async with AsyncClient(timeout=Timeout(None)) as client:
            first = asyncio.ensure_future(client.get(f"{server.url}/first"))
            await asyncio.sleep(0)
            second = asyncio.ensure_future(client.get(f"{server.url}/second", timeout=Timeout(None, connect=20)))
            done, _ = await asyncio.wait([first, second], timeout=60, return_when=asyncio.FIRST_COMPLETED)
            assert done == {second}
            assert client.statistics()["open"] == 1
            first.cancel()
            await asyncio.wait([first])
            assert client.statistics()["open"] == 0


async def test_who_gives_up_forgets_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    loop: Any = asyncio.get_running_loop()
    asked: list[str] = []
    look_up = loop.getaddrinfo

    async def getaddrinfo(host: str, *args: Any, **kwargs: Any) -> Any:
        asked.append(host)
        return await look_up("127.0.0.1", *args, **kwargs)

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
    with full_listener() as silent, RawServer(echo) as server:
        async with AsyncClient(timeout=None, dns_cache_s=60.0) as client:
            url = f"http://name.test:{server.port}/"
            assert (await client.get(url, headers={"Connection": "close"})).text == "/"
            targets = [silent.getsockname()]

            def elsewhere(address: Any, local_address: Any) -> Any:
                return begin((address[0], targets.pop() if targets else address[1]), local_address)

            monkeypatch.setattr(openings, "begin", elsewhere)
            given_up = asyncio.ensure_future(client.post(url))
            await asyncio.sleep(0.01)
            assert not targets
            given_up.cancel()
            await asyncio.wait([given_up])
            assert (await client.post(url)).text == "/"
            assert asked == ["name.test"]


async def test_those_that_wait_for_one_that_is_given_up_do_not_open_one_each() -> None:
    """Nothing says that the server does not speak HTTP/2."""
    with full_listener() as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        async with AsyncClient(http1=False, http2=True, timeout=None) as client:
            requests = [asyncio.ensure_future(client.get(url)) for _ in range(4)]
            await asyncio.sleep(0.02)
            for request in requests:
                assert client.statistics()["open"] == 1
                request.cancel()
                await asyncio.wait([request])
            assert client.statistics()["open"] == 0


@pytest.mark.parametrize("retries", [0, 2])
async def test_closed_while_connecting(retries: int) -> None:
    with full_listener() as listener:
        client = AsyncClient(retries=Retry(retries, backoff_s=0.01))
        request = asyncio.ensure_future(client.get(f"http://127.0.0.1:{listener.getsockname()[1]}/"))
        await asyncio.sleep(0.02)
        await client.aclose()
        with pytest.raises(CloseError):
            await request


async def test_a_burst_above_the_limit_leaves_its_connections() -> None:
    with RawServer(echo) as server:
        async with AsyncClient(limits=Limits(max_connections=2)) as client:
            for _ in range(5):
                await asyncio.gather(*[client.get(f"{server.url}/{number}") for number in range(6)])
            assert client.statistics()["opened"] == 2
