"""Connections that are kept: what is found out before the next request, and who gets their places."""

from __future__ import annotations

import asyncio
import gc
import os
import ssl
import threading
import time

import pytest

from oneloop.http import (
    AsyncClient,
    ConnectError,
    Limits,
)
from tests.certificates import server_context
from tests.client.conftest import MakeCaller
from tests.client.servers import Peer, RawServer, echo, hold, secured

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def test_a_kept_tls_connection_with_bytes_of_nobody(make_caller: MakeCaller) -> None:
    """In plain code no loop runs between two requests: the socket is asked."""
    sent = threading.Event()

    def serve(peer: Peer) -> None:
        peer.head()
        peer.answer(b"first")
        if peer.number == 0:
            peer.send(b"HTTP/1.1 408 Late\r\nContent-Length: 0\r\n\r\n")
            peer.wait_delivered()
            sent.set()
        peer.head()
        peer.answer(b"second")

    with secured(serve) as server:
        caller = make_caller(verify=False)
        assert caller.get(server.url).text == "first"
        assert sent.wait(60)
        assert caller.get(server.url).text == "first"


def test_a_kept_tls_connection_that_the_server_closes(make_caller: MakeCaller) -> None:
    closed = threading.Event()

    def serve(peer: Peer) -> None:
        peer.head()
        peer.exactly(1)
        peer.answer(b"ok")
        peer.end()
        closed.set()

    with secured(serve) as server:
        caller = make_caller(verify=False)
        for _ in range(4):
            assert caller.post(server.url, content=b"x").text == "ok"
            assert closed.wait(60)
            closed.clear()


def test_the_request_says_that_it_is_the_last_one(make_caller: MakeCaller) -> None:
    with RawServer(echo) as server:
        caller = make_caller()
        for value in ("close", "Keep-Alive, CLOSE"):
            caller.get(server.url, headers={"Connection": value})
        caller.get(server.url, headers={"X-Connection": "close"})
        caller.get(server.url)
        assert server.connections == 3


def test_a_request_that_was_not_read_whole(make_caller: MakeCaller) -> None:
    """Its rest is in the way of the next one."""

    def serve(peer: Peer) -> None:
        peer.head()
        peer.answer(b"early", "413 Content Too Large")
        if peer.number == 0:
            time.sleep(0.5)
        peer.wait_for_end()

    caller = make_caller(limits=Limits(max_connections=1, keepalive_expiry=0.05), timeout=60)
    with RawServer(serve) as server, RawServer(echo) as other:
        assert caller.post(server.url, content=bytes(8_000_000)).status_code == 413
        assert caller.get(other.url + "/x").text == "/x"


async def test_no_origin_starves() -> None:
    def serve(peer: Peer) -> None:
        while peer.head():
            time.sleep(0.005)
            peer.answer(b"ok")

    with RawServer(serve) as busy, RawServer(serve) as other:
        async with AsyncClient(limits=Limits(max_connections=1), timeout=60) as client:

            async def load() -> None:
                while True:
                    await client.get(busy.url)

            tasks = [asyncio.ensure_future(load()) for _ in range(3)]
            await asyncio.sleep(0.05)
            assert (await client.get(other.url)).text == "ok"
            assert not any(task.done() for task in tasks)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


async def test_a_tls_server_that_does_not_say_goodbye_holds_no_place() -> None:
    done = threading.Event()

    def serve(peer: Peer) -> None:
        peer.head()
        peer.answer(b"ok", "200 OK", "Connection: close")
        done.wait(120)

    with secured(serve) as server:
        async with AsyncClient(verify=False, limits=Limits(max_connections=1), timeout=60) as client:
            for _ in range(3):
                assert (await client.get(server.url)).text == "ok"
        done.set()


async def test_all_tasks_are_cancelled_while_a_connection_is_opened() -> None:
    with RawServer(hold) as server:
        client = AsyncClient(timeout=None, limits=Limits(max_connections=1))
        before = asyncio.all_tasks()
        task = asyncio.ensure_future(client.get(server.url.replace("127.0.0.1", "localhost")))
        await asyncio.sleep(0)
        others = asyncio.all_tasks() - before - {task}
        for other in others:
            other.cancel()
        with pytest.raises((ConnectError, asyncio.CancelledError)):
            async with asyncio.timeout(60):
                await task
        await client.aclose()


def test_a_failed_attempt_leaves_nothing() -> None:
    pytest.importorskip("httpcore")
    from oneloop.compat import httpcore

    calls: list[int] = []
    context = server_context()

    def serve(peer: Peer) -> None:
        calls.append(peer.number)
        if peer.number == 0:
            peer.reset()
            return
        with context.wrap_socket(peer.sock, server_side=True) as peer.sock:
            peer.head()
            peer.answer(b"ok")
            peer.wait_for_end()

    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    with RawServer(serve) as server, httpcore.ConnectionPool(ssl_context=trusting, retries=2) as pool:
        assert pool.request("GET", server.url.replace("http", "https")).content == b"ok"
        assert len(pool.connections) == 1


def test_sessions_that_are_dropped_go() -> None:
    requests = pytest.importorskip("requests")
    from oneloop.http import RequestsAdapter

    with RawServer(echo) as server:

        def once() -> None:
            session = requests.Session()
            session.mount("http://", RequestsAdapter())
            assert session.get(server.url + "/x").text == "/x"

        once()
        gc.collect()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            once()
        gc.collect()
        assert sum(isinstance(found, RequestsAdapter) for found in gc.get_objects()) == 0
        assert len(os.listdir("/proc/self/fd")) <= before + 4
