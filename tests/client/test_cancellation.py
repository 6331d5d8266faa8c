"""Cancellation at every await, loops that end with requests under way, and forks: nothing stays behind."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import oneloop
from oneloop.http import AsyncClient, Auth, Client, CloseError, Limits, Request, Response, Retry, Timeout
from tests import descriptors
from tests.certificates import client_context
from tests.client.callers import KINDS
from tests.client.farm import farm
from tests.client.servers import Peer, RawServer, echo, hold
from tests.conftest import cancelled
from tests.programs import run_ok

NEVER = 3600.0
MOST_STEPS = 400


# -- cancellation ------------------------------------------------------------------------------


def site(peer: Peer) -> None:
    """Redirects, asks for a login, compresses nothing, refuses once; the body comes in parts."""
    refused: set[bytes] = set()
    while head := peer.head():
        target = head.split(b" ")[1]
        if b"transfer-encoding: chunked" in head.lower():
            if b"expect" in head.lower():
                peer.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            try:
                peer.chunked()
            except AssertionError:
                # The client has left.
                return
        if target == b"/redirect":
            peer.answer(b"there", "302 Found", "Location: /parts")
        elif target == b"/login" and b"authorization" not in head.lower():
            peer.answer(b"who?", "401 Unauthorized")
        elif target == b"/busy" and target not in refused:
            refused.add(target)
            peer.answer(b"later", "503 Service Unavailable", "Retry-After: 0")
        else:
            peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for part in (b"a", b"b"):
                peer.send(b"1\r\n%b\r\n" % part)
            peer.send(b"0\r\n\r\n")


class Login(Auth):
    """Takes two requests, and reads the body of the first response."""

    requires_response_body = True

    def auth_flow(self, request: Request) -> Any:
        response = yield request
        if response.status_code == 401:
            request.headers["Authorization"] = "Bearer x"
            yield request


async def parts() -> AsyncIterator[bytes]:
    for part in (b"one", b"two"):
        await asyncio.sleep(0)
        yield part


async def streamed(client: AsyncClient, url: str) -> bytes:
    body = b""
    async with client.stream("GET", url + "/parts") as response:
        async for piece in response.aiter_bytes():
            body += piece
    return body


async def content_of(response: Awaitable[Response]) -> bytes:
    return (await response).content


def calls(client: AsyncClient, url: str, folder: Path) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Requests that wait in many different places."""
    expect = {"Expect": "100-continue"}
    return {
        "get": lambda: content_of(client.get(url + "/parts")),
        "a name": lambda: content_of(client.get(url.replace("127.0.0.1", "localhost") + "/parts")),
        "redirect": lambda: content_of(client.get(url + "/redirect", follow_redirects=True)),
        "login": lambda: content_of(client.get(url + "/login", auth=Login())),
        "retry": lambda: content_of(client.get(url + "/busy")),
        "post": lambda: content_of(client.post(url + "/parts", content=parts())),
        "expect": lambda: content_of(client.post(url + "/parts", content=parts(), headers=expect)),
        "stream": lambda: streamed(client, url),
        "download": lambda: client.download(url + "/parts", folder / "file"),
    }


NAMES = ("get", "a name", "redirect", "login", "retry", "post", "expect", "stream", "download")


async def settled(client: AsyncClient) -> None:
    """Until nothing is under way."""
    while (counters := client.statistics())["open"] != counters["idle"] or counters["waiting"]:
        await asyncio.sleep(0.001)


class Stepper:
    """Awaits a coroutine, and throws CancelledError into it in place of its n-th resumption."""

    def __init__(self, call: Awaitable[Any], steps: int) -> None:
        self._steps = call.__await__()
        self._left = steps
        self.was_cancelled = False

    def __await__(self) -> Generator[Any, Any, Any]:
        value: Any = None
        error: BaseException | None = None
        while True:
            if self._left == 0:
                self.was_cancelled = True
                error = asyncio.CancelledError()
            self._left -= 1
            try:
                steps: Any = self._steps
                waited = steps.send(value) if error is None else steps.throw(error)
            except StopIteration as end:
                return end.value
            error = None
            try:
                value = yield waited
            except BaseException as raised:  # that of what was awaited
                error = raised


@pytest.mark.parametrize("name", NAMES)
async def test_cancelled_at_every_await(name: str, tmp_path: Path) -> None:
    """The n-th wait of the request ends with CancelledError, for every n until it has no n-th wait."""
    with RawServer(site) as server:
        limits = Limits(max_connections=1, max_keepalive_connections=0)
        async with AsyncClient(limits=limits, timeout=NEVER, retries=Retry(1, backoff_s=0.0)) as client:
            for steps in range(1, MOST_STEPS):
                call = Stepper(calls(client, server.url, tmp_path)[name](), steps)
                task = asyncio.ensure_future(_awaited(call))
                await asyncio.wait([task])
                assert task.cancelled() == call.was_cancelled
                await settled(client)
                if not call.was_cancelled:
                    break
            else:
                raise AssertionError("the request has no end")
            assert steps > 1
            assert await content_of(client.get(server.url + "/parts")) == b"ab"


async def _awaited(call: Awaitable[Any]) -> Any:
    return await call


@pytest.mark.parametrize("is_secured", [False, True], ids=["http", "https"])
async def test_cancelled_at_every_tick(is_secured: bool) -> None:
    """Between any two ticks of the loop, while a connection is opened and used."""
    with farm(secured=is_secured) as target:
        url = f"{'https' if is_secured else 'http'}://127.0.0.1:{target.port}/chunked"
        limits = Limits(max_connections=1, max_keepalive_connections=0)
        async with AsyncClient(limits=limits, timeout=NEVER, verify=client_context()) as client:
            for ticks in range(40):
                await cancelled(client.get(url), ticks)
                # It needs the only place.
                assert (await client.get(url)).content == b"hello"
            await settled(client)
            assert client.statistics()["open"] == 0


# -- loops that end ----------------------------------------------------------------------------


def test_coroutines_whose_loop_ends() -> None:
    """`run` cancels what is under way; each request ends with that alone, and its connection with it."""
    before = descriptors.open_descriptors()
    tasks: list[asyncio.Task[Any]] = []

    async def main(url: str, silent: str) -> None:
        client = AsyncClient(timeout=NEVER, limits=Limits(max_connections=2))
        tasks.extend(asyncio.ensure_future(client.get(where)) for where in (url, silent, url))
        await asyncio.sleep(0.05)

    with RawServer(hold) as server, RawServer(hold) as other:
        oneloop.run(main(server.url, f"https://127.0.0.1:{other.port}"))
        assert [task.cancelled() for task in tasks] == [True, True, True]
        tasks.clear()
        gc.collect()
    assert not descriptors.opened_since(before)


def test_green_threads_whose_loop_ends() -> None:
    """The green thread of the program ends; those that it has left are killed."""
    before = descriptors.open_descriptors()
    with RawServer(hold) as server:
        out = run_ok(
            "oneloop",
            f"""
            import oneloop
            from oneloop.green import GreenletExit, sleep, spawn
            from oneloop.http import Client

            def ask():
                try:
                    client.get({server.url!r})
                except BaseException as error:
                    print(type(error).__name__, flush=True)
                    raise

            async def main():
                loop = asyncio.get_running_loop()
                def work():
                    spawn(ask)
                    sleep(0.1)
                await loop.run_green(work)

            client = Client(timeout=None)
            oneloop.run(main())
            print("over")
            """,
        )
    assert out.split() == ["GreenletExit", "over"]
    assert not descriptors.opened_since(before)


@pytest.mark.parametrize("kind", ["coroutine", "green"])
def test_the_response_outlives_the_loop(kind: str) -> None:
    """A body that is read after the loop has ended is one clear error, not a hang."""

    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
        peer.wait_for_end()

    kept: list[Response] = []
    with RawServer(serve) as server:

        async def amain() -> None:
            async with AsyncClient(timeout=NEVER) as client:
                kept.append(await client.send(client.build_request("GET", server.url), stream=True))

        def main() -> None:
            with Client(timeout=NEVER) as client:
                kept.append(client.send(client.build_request("GET", server.url), stream=True))

        async def in_green() -> None:
            loop: Any = asyncio.get_running_loop()
            await loop.run_green(main)

        oneloop.run(amain() if kind == "coroutine" else in_green())
        response = kept[0]
        if kind == "coroutine":

            async def read() -> bytes:
                return await response.aread()

            with pytest.raises(CloseError, match="closed"):
                oneloop.run(read())
        else:
            with pytest.raises(CloseError, match="closed"):
                response.read()


# -- forks -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_while_requests_are_under_way(kind: str) -> None:
    """The child's connections are its own, and the parent's go on: none is closed, written to or read by the child."""

    def serve(peer: Peer) -> None:
        while head := peer.head():
            peer.answer(b"%d " % peer.number + head.split(b" ")[1])

    def in_child(client: Client | None, url: str) -> bytes:
        own = client or Client(timeout=20.0)
        text = own.get(url + "/child").content
        own.close()
        return text

    def fork(client: Client | None, url: str) -> bytes:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writing, in_child(client, url))
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            told = pipe.read()
        os.waitpid(child, 0)
        return told

    with RawServer(serve) as server:
        url = server.url
        if kind == "plain":
            with Client(timeout=Timeout(20.0)) as client, client.stream("GET", url + "/a") as response:
                assert fork(client, url).endswith(b"/child")
                assert response.read() == b"0 /a"
                assert client.get(url + "/b").content == b"0 /b"
            return

        async def main() -> None:
            async with AsyncClient(timeout=20.0) as client:
                async with client.stream("GET", url + "/a") as response:
                    # What runs in a child of a coroutine's process is plain code: the loop is the parent's.
                    assert fork(None, url).endswith(b"/child")
                    assert await response.aread() == b"0 /a"
                assert (await client.get(url + "/b")).content == b"0 /b"

        def green() -> None:
            with Client(timeout=20.0) as client:
                with client.stream("GET", url + "/a") as response:
                    assert fork(None, url).endswith(b"/child")
                    assert response.read() == b"0 /a"
                assert client.get(url + "/b").content == b"0 /b"

        async def in_green() -> None:
            loop: Any = asyncio.get_running_loop()
            await loop.run_green(green)

        with suppress(asyncio.CancelledError):
            oneloop.run(main() if kind == "coroutine" else in_green())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.filterwarnings("error::ResourceWarning")
async def test_cancelled_at_every_tick_on_the_way_to_a_proxy(host: str) -> None:
    before = descriptors.open_descriptors()
    limits = Limits(max_connections=1, max_keepalive_connections=0)
    with RawServer(echo) as proxy:
        url = f"http://{host}:{proxy.port}"
        async with AsyncClient(limits=limits, timeout=NEVER, proxy=url, trust_env=False) as client:
            for ticks in range(30):
                await cancelled(client.get("http://name.test/x"), ticks)
                assert (await client.get("http://name.test/y")).content == b"http://name.test/y"
            await settled(client)
        # Not by the collector.
        await asyncio.sleep(0.01)
    assert not [kind for kind in descriptors.opened_since(before).values() if "socket" in kind]
