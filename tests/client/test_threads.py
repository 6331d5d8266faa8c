"""`Client` in threads: each has its own connections, which go with it."""

from __future__ import annotations

import gc
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from oneloop.http import Client
from oneloop.http.client.resolving import Resolver
from tests import programs
from tests.client.servers import RawServer, echo


def test_many_threads() -> None:
    with RawServer(echo) as server, Client() as client, ThreadPoolExecutor(8) as threads:
        urls = [f"{server.url}/{number}" for number in range(200)]
        assert [response.text for response in threads.map(client.get, urls)] == [f"/{number}" for number in range(200)]
        assert server.connections <= 8


def test_the_connections_of_a_thread_end_with_it() -> None:
    with RawServer(echo) as server, Client() as client:
        for number in range(5):
            thread = threading.Thread(target=client.get, args=(f"{server.url}/{number}",))
            thread.start()
            thread.join()
        gc.collect()
        assert client.statistics()["open"] == 0


OPEN_AT_THE_END = """
import sys
from oneloop.http import Client

client = Client()
print(client.get(sys.argv[1]).text)
"""


def test_a_client_that_is_open_when_the_program_ends() -> None:
    """Its loop in the main thread is closed then, so no warning of an unclosed one follows."""
    with RawServer(echo) as server:
        done = programs.run_command(sys.executable, "-X", "dev", "-c", OPEN_AT_THE_END, f"{server.url}/x")
    assert (done.returncode, done.stdout, done.stderr) == (0, "/x\n", "")


def test_closed_while_the_loop_of_a_thread_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector may find what a thread has left at any moment, also in the midst of `close`."""

    def work() -> None:
        response: Any = client.get(server.url)
        response.itself = response

    with RawServer(echo) as server:
        gc.disable()
        try:
            client = Client()
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            monkeypatch.setattr(Resolver, "close", lambda _: gc.collect())
            client.close()
        finally:
            gc.enable()


def test_a_client_that_is_dropped() -> None:
    with RawServer(echo) as server:
        client = Client()
        assert client.get(server.url + "/x").text == "/x"
        del client
        gc.collect()
