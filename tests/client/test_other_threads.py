"""Forked children, and threads that close a client."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress

import pytest

from oneloop.http import (
    Client,
    CloseError,
)
from tests.client.servers import Peer, RawServer, noting, secured


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_has_connections_of_its_own() -> None:
    def serve(peer: Peer) -> None:
        while head := peer.head():
            time.sleep(0.1)
            peer.answer(head.split(b" ")[1])

    with RawServer(serve) as server, Client(timeout=60) as client:
        client.get(f"{server.url}/warm")
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                text = client.get(f"{server.url}/child").text + client.get(f"{server.url}/child2").text
                client.close()
                os.write(writing, text.encode())
            finally:
                os._exit(0)
        try:
            os.close(writing)
            time.sleep(0.05)
            assert client.get(f"{server.url}/parent").text == "/parent"
            assert os.read(reading, 1000) == b"/child/child2"
            assert client.get(f"{server.url}/again").text == "/again"
        finally:
            os.close(reading)
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        assert server.connections == 2


def test_closed_while_another_thread_waits() -> None:
    caught: list[BaseException] = []
    asked = threading.Event()

    def serve(peer: Peer) -> None:
        peer.head()
        asked.set()
        peer.wait_for_end()

    with RawServer(serve) as server:
        client = Client(timeout=None)

        def ask() -> None:
            try:
                client.get(server.url)
            except BaseException as error:
                caught.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        assert asked.wait(60)
        client.close()
        thread.join(60)
        assert not thread.is_alive()
    assert [type(error) for error in caught] == [CloseError]


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_in_another_thread(capfd: pytest.CaptureFixture[str]) -> None:
    """The child has no main thread, and frees what that one had for itself, before it knows that it is a child."""
    heads: list[bytes] = []

    def fork() -> None:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)

    with secured(noting(heads)) as server, Client(verify=False) as client:
        for _ in range(3):
            assert client.get(server.url).text == "ok"
            thread = threading.Thread(target=fork)
            thread.start()
            thread.join()
            # TLS would tell the server that its client has ended.
            time.sleep(0.1)
        assert client.get(server.url).text == "ok"
        assert server.connections == 1
    assert "belongs to the parent" not in capfd.readouterr().err
