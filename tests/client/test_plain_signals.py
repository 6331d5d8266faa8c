"""Plain code whose waits end with the exception of a signal handler, wherever the handler runs."""

from __future__ import annotations

import _thread
import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oneloop.http import Client
from oneloop.http.client import callers
from oneloop.http.client.openings import Opening
from tests.client.servers import Peer, RawServer, echo


class Alarm(BaseException):
    """What the handler raises."""


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    def raise_alarm(*_: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGUSR1, raise_alarm)
    yield
    signal.signal(signal.SIGUSR1, before)


def test_an_exception_in_a_callback_reaches_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    connected = Opening._connected
    left = [1]

    def interrupted(self: Any) -> None:
        if left:
            left.pop()
            os.kill(os.getpid(), signal.SIGUSR1)
        connected(self)

    monkeypatch.setattr(Opening, "_connected", interrupted)
    with RawServer(echo) as server, Client(timeout=None) as client:
        with pytest.raises(Alarm):
            client.get(server.url + "/first")
        assert client.get(server.url + "/second").text == "/second"


def test_an_exception_while_a_transport_ends_reaches_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket is closed by Python code, in which a handler may run."""
    close = socket.socket.close
    left = [1]

    def interrupted(self: Any) -> None:
        close(self)
        if left and threading.current_thread() is threading.main_thread():
            left.pop()
            os.kill(os.getpid(), signal.SIGUSR1)

    def serve(peer: Peer) -> None:
        peer.head()
        peer.answer(str(peer.number).encode(), "200 OK", "Connection: close")
        peer.wait_for_end()

    with RawServer(serve) as server, Client(timeout=60) as client:
        assert client.get(server.url).text == "0"
        monkeypatch.setattr(socket.socket, "close", interrupted)
        with pytest.raises(Alarm):
            client.get(server.url)
        assert not left
        assert client.get(server.url).text == "2"


def test_an_interrupted_download_does_not_go_on(tmp_path: Path) -> None:
    reached = threading.Event()

    def serve(peer: Peer) -> None:
        while head := peer.head():
            if b"/file" not in head:
                peer.answer(b"other")
                continue
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nbegin")
            reached.set()
            peer.wait_for_end()
            return

    def interrupt() -> None:
        reached.wait(20)
        threading.Event().wait(0.05)
        os.kill(os.getpid(), signal.SIGUSR1)

    with RawServer(serve) as server, Client() as client:
        client.get(server.url)
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(Alarm):
            client.download(server.url + "/file", tmp_path / "file")
        thread.join()
        assert list(tmp_path.iterdir()) == []
        assert client.get(server.url).text == "other"
        assert client.statistics()["open"] == 1


def test_interrupted_while_another_thread_runs_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was waited for ends, and the response of the other thread is whole."""
    pytest.importorskip("httpcore")
    from oneloop.compat import httpcore

    ends = threading.Event()
    waits: list[int] = []
    allocate = _thread.allocate_lock

    def serve(peer: Peer) -> None:
        if b"/slow" in peer.head():
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npart")
            assert ends.wait(60)
            peer.send(b"rest")
        else:
            peer.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
            peer.wait_for_end()

    class Place:
        """A lock of whoever waits for another thread; a signal comes when the main thread does."""

        def __init__(self) -> None:
            self._lock = allocate()
            self.release = self._lock.release

        def acquire(self) -> None:
            is_waiting = self._lock.locked() and threading.current_thread() is threading.main_thread()
            if is_waiting and not waits:
                waits.append(1)
                signal.raise_signal(signal.SIGUSR1)
            self._lock.acquire()

    with RawServer(serve) as server, httpcore.ConnectionPool() as pool:
        slow = pool.stream("GET", f"{server.url}/slow")
        switched = pool.stream("GET", server.url, headers={"Upgrade": "x"})
        with slow as response, switched as other:
            stream = other.extensions["network_stream"]
            content: list[bytes] = []
            reader = threading.Thread(target=lambda: content.extend(response.iter_stream()))
            reader.start()
            while not stream._caller.loop.is_running():
                time.sleep(0.001)
            monkeypatch.setattr(callers, "_allocate_lock", Place)
            with pytest.raises(Alarm):
                stream.read(10)
            assert (waits, reader.is_alive()) == ([1], True)
            ends.set()
            reader.join(60)
            assert b"".join(content) == b"partrest"


def test_of_several_exceptions_one_is_raised_and_the_others_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(number: int) -> None:
        raise LookupError(number)

    with RawServer(echo) as server, Client(timeout=60) as client:
        client.get(server.url)
        loop = client._callers.here().loop
        loop.call_soon(fail, 1)
        loop.call_soon(fail, 2)
        with pytest.raises(LookupError, match="1"):
            client.get(server.url)
        assert "LookupError: 2" in caplog.text
        assert client.get(server.url + "/next").text == "/next"


def test_an_exception_that_ends_the_run_leaves_no_other_one_behind(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise LookupError("1")

    def interrupt() -> None:
        raise KeyboardInterrupt

    with RawServer(echo) as server, Client(timeout=60) as client:
        client.get(server.url)
        loop = client._callers.here().loop
        loop.call_soon(fail)
        loop.call_soon(interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.get(server.url)
        assert "LookupError: 1" in caplog.text
        assert client.get(server.url + "/next").text == "/next"


def test_a_closed_client_makes_no_loops() -> None:
    with RawServer(echo) as server:
        client = Client()
        client.get(server.url)
        client.close()
        gc.collect()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            with pytest.raises(RuntimeError, match="closed"):
                client.get(server.url)
        assert len(os.listdir("/proc/self/fd")) == before
