"""A response that others use than the one who sent the request: closed while it is read, read by other threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.http import AsyncClient, Client, ReadError, StreamConsumed
from tests.client.servers import Peer, RawServer

PART = b"part," * 1000


def stalling(peer: Peer) -> None:
    peer.head()
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nabc")
    peer.wait_for_end()


@pytest.mark.parametrize("how", ["aread", "aiter_bytes"])
async def test_a_coroutine_closes_what_another_one_reads(how: str) -> None:
    with RawServer(stalling) as server:
        async with AsyncClient(timeout=None) as client, client.stream("GET", server.url) as response:

            async def read() -> None:
                if how == "aread":
                    await response.aread()
                async for _ in response.aiter_bytes():
                    pass

            reading = asyncio.ensure_future(read())
            await asyncio.sleep(0.02)
            await response.aclose()
            with pytest.raises(ReadError, match="was closed") as caught:
                await reading
            assert str(caught.value.request.url) == server.url + "/"
            assert client.statistics()["open"] == 0


async def test_a_second_reader_does_not_disturb_the_first() -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc")
        assert goes_on.wait(60)
        peer.send(b"def")
        peer.wait_for_end()

    goes_on = threading.Event()
    with RawServer(serve) as server:
        async with AsyncClient() as client, client.stream("GET", server.url) as response:
            reading = asyncio.ensure_future(response.aread())
            await asyncio.sleep(0.02)
            with pytest.raises(StreamConsumed):
                await response.aread()
            goes_on.set()
            assert await reading == b"abcdef"


def test_a_green_thread_closes_what_another_one_reads() -> None:
    def main() -> None:
        with Client(timeout=None) as client, client.stream("GET", server.url) as response:
            reading = green.spawn(response.read)
            green.sleep(0.02)
            response.close()
            with pytest.raises(ReadError, match="was closed"):
                reading.get()

    with RawServer(stalling) as server:
        oneloop.run(_in_green(main))


async def _in_green(function: Callable[[], Any]) -> Any:
    loop: Any = asyncio.get_running_loop()
    return await loop.run_green(function)


def in_threads(*functions: Callable[[], Any]) -> list[Any]:
    """What they return or raise, each in a thread of its own."""
    found: list[Any] = [None] * len(functions)

    def run(number: int) -> None:
        try:
            found[number] = functions[number]()
        except Exception as error:
            found[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "it waits for ever"
    return found


def test_a_thread_closes_what_another_one_reads() -> None:
    with RawServer(stalling) as server, Client(timeout=None) as client, client.stream("GET", server.url) as response:
        reads = threading.Event()

        def read() -> bytes:
            reads.set()
            return response.read()

        def close() -> None:
            reads.wait(60)
            threading.Event().wait(0.05)
            response.close()

        error, _ = in_threads(read, close)
        assert isinstance(error, ReadError)


def parts(peer: Peer) -> None:
    """Ten parts, each after the other requests have their first."""
    while head := peer.head():
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (10 * len(PART)))
        for _ in range(10):
            peer.send(PART)
            threading.Event().wait(0.01)
        if b"/last" in head:
            return


def test_threads_read_what_another_one_has_asked_for() -> None:
    """And that one sends further requests meanwhile, on the same loop."""
    with RawServer(parts) as server, Client(timeout=60) as client:
        asked = [client.send(client.build_request("GET", f"{server.url}/{number}"), stream=True) for number in range(4)]

        def more() -> bytes:
            return b"".join(client.get(server.url).content for _ in range(2))

        reads = [lambda response=response: b"".join(response.iter_bytes()) for response in asked]
        # The thread that has asked is this one.
        found: list[Any] = []
        helper = threading.Thread(target=lambda: found.extend(in_threads(*reads)))
        helper.start()
        assert more() == PART * 20
        helper.join(60)
        assert found == [PART * 10] * 4
        assert client.statistics()["open"] == client.statistics()["idle"]


def test_a_thread_does_not_wait_until_another_one_is_answered() -> None:
    """The other one's response comes when this one has read its own."""

    def serve(peer: Peer) -> None:
        while head := peer.head():
            if b"/slow" in head:
                asked_for_slow.set()
                assert has_read.wait(60)
                peer.answer(b"slow")
            else:
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
                assert asked_for_slow.wait(60)
                peer.send(b"fast")

    def read() -> bytes:
        assert asked_for_slow.wait(60)
        content: bytes = response.read()
        has_read.set()
        return content

    asked_for_slow, has_read = threading.Event(), threading.Event()
    with RawServer(serve) as server, Client(timeout=None) as client:
        response = client.send(client.build_request("GET", server.url), stream=True)
        found: list[Any] = []
        reading = threading.Thread(target=lambda: found.append(read()))
        reading.start()
        assert client.get(f"{server.url}/slow").content == b"slow"
        reading.join(60)
        assert found == [b"fast"]


def test_threads_read_what_a_session_of_requests_has_asked_for() -> None:
    requests = pytest.importorskip("requests")
    from oneloop.http import RequestsAdapter

    with RawServer(parts) as server, requests.Session() as session:
        session.trust_env = False
        session.mount("http://", RequestsAdapter())
        asked = [session.get(f"{server.url}/{number}", stream=True, timeout=60) for number in range(3)]
        reads = [lambda response=response: b"".join(response.iter_content(1000)) for response in asked]
        assert in_threads(*reads) == [PART * 10] * 3


def test_a_failure_of_the_receiver_ends_the_body() -> None:
    """What is in the socket then has no place in it: a part is missing."""

    def serve(peer: Peer) -> None:
        peer.head()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
        assert goes_on.wait(60)
        peer.send(b"world")
        peer.wait_delivered()
        sent.set()
        peer.wait_for_end()

    async def main() -> None:
        async with AsyncClient() as client, client.stream("GET", server.url) as response:
            goes_on.set()
            # The loop does not run meanwhile.
            assert sent.wait(60)
            response._exchange.protocol.connection_lost(MemoryError())
            with pytest.raises(ReadError):
                await response.aread()

    goes_on, sent = threading.Event(), threading.Event()
    with RawServer(serve) as server:
        oneloop.run(main())
