"""Several threads, and handlers of signals, that wait for responses on one loop of plain code."""

from __future__ import annotations

import _thread
import asyncio
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import oneloop
from oneloop._native import ClientTurns
from oneloop.http import Client, CloseError, ConnectError, Limits, ReadTimeout, Response, Retry, Timeout
from oneloop.http.client.openings import Opening
from tests.certificates import client_context
from tests.client.servers import Peer, RawServer, secured
from tests.programs import run_command


class Alarm(BaseException):
    """What a handler raises."""


@contextmanager
def handled(handler: Callable[..., Any]) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


@contextmanager
def interrupted(handler: Callable[..., Any], event: threading.Event) -> Iterator[None]:
    """The handler runs in the main thread when the event is set."""

    def interrupt() -> None:
        assert event.wait(60)
        os.kill(os.getpid(), signal.SIGUSR1)

    with handled(handler):
        alarm = threading.Thread(target=interrupt)
        alarm.start()
        yield
        alarm.join(60)


def asked(client: Client, url: str) -> Response:
    """A response whose body nobody has read. The loop is that of this thread."""
    return client.send(client.build_request("GET", url), stream=True)


class Served:
    """Answers /now at once, uploads when they end, /held when `ends` is set; of /slow a part, and then the rest."""

    def __init__(self) -> None:
        self.ends = threading.Event()
        self.holds = threading.Event()

    def __call__(self, peer: Peer) -> None:
        while head := peer.head():
            if b"chunked" in head.lower():
                peer.answer(peer.chunked())
            elif b"/now" in head:
                peer.answer(b"now")
            else:
                if b"/slow" in head:
                    peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npart")
                self.holds.set()
                assert self.ends.wait(60)
                if b"/slow" in head:
                    peer.send(b"rest")
                else:
                    peer.answer(b"held")


class Reader(threading.Thread):
    """Reads a response in a thread, which runs the loop meanwhile."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response
        self.content = b""
        self.start()
        caller: Any = response._caller
        while not caller.loop.is_running():
            time.sleep(0.001)

    def run(self) -> None:
        self.content = self.response.read()


def test_the_body_of_one_thread_comes_from_another_one() -> None:
    """While the program gives the parts of a request, the thread that reads the response runs the loop."""
    served = Served()
    served.ends.set()
    pipe: queue.Queue[bytes | None] = queue.Queue(1)

    def pump() -> None:
        for part in response.iter_bytes(1):
            pipe.put(part)
        pipe.put(None)

    with RawServer(served) as server, Client(timeout=60) as client:
        response = asked(client, server.url + "/slow")
        pumping = threading.Thread(target=pump)
        pumping.start()
        assert client.post(server.url, content=iter(pipe.get, None)).content == b"partrest"
        pumping.join(60)


def test_a_pause_before_a_retry_stops_no_other_thread() -> None:
    def serve(peer: Peer) -> None:
        while head := peer.head():
            if b"/busy" in head:
                peer.answer(b"", "503 Busy", "Retry-After: 1")
            else:
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npart")
                assert pauses.wait(60)
                peer.send(b"rest")

    pauses = threading.Event()
    with RawServer(serve) as server, Client(timeout=60, retries=Retry(1)) as client:
        response = asked(client, server.url + "/slow")

        async def pause(time_s: float) -> None:
            pauses.set()
            reading = threading.Thread(target=response.read)
            reading.start()
            reading.join(60)
            assert time_s == 1

        caller: Any = response._caller
        caller.sleep = pause
        assert client.get(server.url + "/busy").status_code == 503
        assert response.content == b"partrest"


def test_a_handler_raises_while_another_thread_runs_the_loop() -> None:
    served = Served()

    def interrupt(*_: object) -> None:
        raise Alarm

    with RawServer(served) as server, Client(timeout=None) as client:
        reader = Reader(asked(client, server.url + "/slow"))
        served.holds.clear()
        with interrupted(interrupt, served.holds), pytest.raises(Alarm):
            client.get(server.url + "/held")
        assert client.get(server.url + "/now").content == b"now"
        served.ends.set()
        reader.join(60)
        assert reader.content == b"partrest"


def test_a_handler_sends_a_request_while_its_thread_waits_for_another_one() -> None:
    served = Served()
    inner: list[bytes] = []

    def ask(*_: object) -> None:
        inner.append(client.get(server.url + "/now").content)
        served.ends.set()

    with RawServer(served) as server, Client(timeout=None) as client:
        reader = Reader(asked(client, server.url + "/slow"))
        served.holds.clear()
        with interrupted(ask, served.holds):
            assert client.get(server.url + "/held").content == b"held"
        assert inner == [b"now"]
        reader.join(60)
        assert reader.content == b"partrest"


def test_a_response_that_comes_while_a_handler_waits_for_another_one() -> None:
    """It stops the handler's run of the loop, and is there when that is over."""
    has_outer, has_inner = threading.Event(), threading.Event()
    inner: list[bytes] = []

    def serve(peer: Peer) -> None:
        while head := peer.head():
            if b"/outer" in head:
                os.kill(os.getpid(), signal.SIGUSR1)
                assert has_inner.wait(60)
                peer.answer(b"outer")
                peer.wait_delivered()
                has_outer.set()
            else:
                has_inner.set()
                assert has_outer.wait(60)
                time.sleep(0.05)
                peer.answer(b"inner")

    def ask(*_: object) -> None:
        inner.append(client.get(server.url + "/inner").content)

    with RawServer(serve) as server, Client(timeout=None) as client, handled(ask):
        assert client.get(server.url + "/outer").content == b"outer"
        assert inner == [b"inner"]
        # The handler has slept, too, while it waited.
        assert client._callers.here().loop.statistics().ticks < 200


def test_a_handler_sends_a_request_and_closes_the_client() -> None:
    """The request that it has interrupted is told."""
    served = Served()

    def end(*_: object) -> None:
        client.get(server.url + "/now")
        client.close()

    with RawServer(served) as server, Client(timeout=None) as client, interrupted(end, served.holds):
        with pytest.raises(CloseError):
            client.get(server.url + "/held")
        served.ends.set()


def test_a_handler_that_sends_leaves_the_wakeup_descriptor() -> None:
    """It runs behind the loop's look for signals, when the descriptor is the loop's."""
    found: list[int] = []

    def ask(*_: object) -> None:
        found.append(signal.set_wakeup_fd(-1))
        signal.set_wakeup_fd(found[-1])
        client.get(server.url + "/now")
        served.ends.set()

    served = Served()
    with RawServer(served) as server, Client(timeout=60) as client, handled(ask):
        client.get(server.url + "/now")
        for _ in range(2):
            served.ends.clear()
            # Native code, behind which nothing looks for signals before the loop does. No response comes until then.
            client._callers.here().loop.call_soon(_thread.interrupt_main, signal.SIGUSR1)
            assert client.get(server.url + "/held").content == b"held"
            assert signal.set_wakeup_fd(-1) == -1
        assert len(found) == 2
        if sys.version_info >= (3, 13):
            # Else this shows nothing.
            assert -1 not in found


def test_a_response_of_another_thread_comes_while_a_handler_waits() -> None:
    """That thread goes on before the handler ends."""
    has_rest, is_over = threading.Event(), threading.Event()
    alive: list[bool] = []
    served = Served()

    def serve(peer: Peer) -> None:
        while head := peer.head():
            if b"/slow" in head:
                peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npart")
                assert served.ends.wait(60)
                peer.send(b"rest")
                peer.wait_delivered()
                has_rest.set()
            elif b"/now" in head:
                served.ends.set()
                assert has_rest.wait(60)
                peer.answer(b"now")
            else:
                reading.start()
                served.holds.set()
                assert is_over.wait(60)
                peer.answer(b"held")

    def ask(*_: object) -> None:
        client.get(server.url + "/now")
        reading.join(20)
        alive.append(reading.is_alive())
        is_over.set()

    with RawServer(serve) as server, Client(timeout=None) as client:
        response = asked(client, server.url + "/slow")
        reading = threading.Thread(target=response.read)
        with interrupted(ask, served.holds):
            assert client.get(server.url + "/held").content == b"held"
        reading.join(60)
    assert alive == [False]


def test_who_has_not_seen_the_last_run_looks_again() -> None:
    with Client() as client:
        turns = ClientTurns(client._callers.here().loop)
        ran: list[int] = []
        seen = turns.runs
        assert turns.lead(lambda: ran.append(1), seen)
        assert turns.lead(lambda: ran.append(2), seen)
        assert ran == [1]
        place = threading.Lock()
        # Nobody leads: it need not wait.
        assert not turns.follow(place, turns.runs)

        def fail() -> None:
            raise LookupError

        with pytest.raises(LookupError):
            turns.lead(fail, turns.runs)
        assert turns.lead(lambda: ran.append(3), turns.runs)
        assert ran == [1, 3]


@pytest.mark.parametrize("serving", [RawServer, secured], ids=["http", "https"])
def test_plain_code_in_a_coroutine(serving: Callable[..., Any]) -> None:
    """A mistake, but one that works with other clients."""
    served = Served()

    async def main() -> None:
        with Client(timeout=Timeout(60, read=1), verify=client_context()) as client:
            with pytest.raises(ReadTimeout):
                client.get(server.url + "/held")
            with client.stream("GET", server.url + "/slow"):
                pass
            assert client.get(server.url + "/now").content == b"now"
        assert asyncio.current_task() is not None
        await asyncio.sleep(0)

    with serving(served) as server:
        asyncio.run(main())
        served.ends.set()


@pytest.mark.parametrize("error", [KeyboardInterrupt, LookupError])
def test_a_handler_sends_and_raises_while_a_connection_is_being_opened(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its run of the loop opens the connection, whose place must not be given back as if nothing was begun."""
    served = Served()
    start = Opening.start
    left = [1]

    def interrupted(self: Any) -> None:
        start(self)
        if left:
            left.pop()
            signal.raise_signal(signal.SIGUSR1)

    def ask(*_: object) -> None:
        assert client.get(server.url + "/now").content == b"now"
        raise error

    monkeypatch.setattr(Opening, "start", interrupted)
    limits = Limits(max_connections=2)
    with RawServer(served) as server, Client(limits=limits, timeout=Timeout(60, pool=5)) as client, handled(ask):
        with pytest.raises(error):
            client.get(server.url + "/now")
        assert client.statistics()["open"] == client.statistics()["idle"]
        for _ in range(3):
            client.get(server.url + "/now", headers={"Connection": "close"})
            with pytest.raises(ConnectError):
                client.get("http://127.0.0.1:1/")
        assert client.statistics()["open"] == client.statistics()["idle"]


@pytest.mark.parametrize("is_own", [True, False])
def test_signal_handlers_of_the_loop_around_plain_code(is_own: bool) -> None:
    """In the coroutine of a server, for example, which is to stop at SIGTERM."""
    served = Served()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        got = asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, got.set)
        threading.Timer(0.05, served.ends.set).start()
        # Long enough that the client's loop sleeps.
        assert client.get(server.url + "/held").content == b"held"
        # While this loop sleeps.
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        await asyncio.wait_for(got.wait(), 20)
        loop.remove_signal_handler(signal.SIGUSR1)

    # No timer wakes the client's loop.
    with RawServer(served) as server, Client(timeout=None, limits=Limits(keepalive_expiry=None)) as client:
        (oneloop if is_own else asyncio).run(main())
        assert signal.set_wakeup_fd(-1) == -1
        # Its next run sleeps until a signal, too, whichever thread gets that.
        served.ends.clear()
        served.holds.clear()

        def interrupt() -> None:
            assert served.holds.wait(60)
            # The main thread sleeps, most likely.
            time.sleep(0.02)
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

        alarm = threading.Thread(target=interrupt)
        with handled(lambda *_: served.ends.set()):
            alarm.start()
            assert client.get(server.url + "/held").content == b"held"
            alarm.join()


def test_a_handler_adds_one_to_the_loop_around_plain_code() -> None:
    """While the client's loop sleeps. It is told of that signal, too."""
    served = Served()
    is_added = threading.Event()

    def interrupt() -> None:
        assert is_added.wait(60)
        # The main thread sleeps again, most likely.
        time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGUSR2)
        served.ends.set()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        got = asyncio.Event()

        def add(*_: object) -> None:
            loop.add_signal_handler(signal.SIGUSR2, got.set)
            is_added.set()

        with interrupted(add, served.holds):
            assert client.get(server.url + "/held").content == b"held"
        await asyncio.wait_for(got.wait(), 20)
        loop.remove_signal_handler(signal.SIGUSR2)

    with RawServer(served) as server, Client(timeout=None, limits=Limits(keepalive_expiry=None)) as client:
        alarm = threading.Thread(target=interrupt)
        alarm.start()
        oneloop.run(main())
        alarm.join()
        assert signal.set_wakeup_fd(-1) == -1


def test_another_thread_runs_the_loop_of_plain_code_in_a_coroutine() -> None:
    """As that of a response whose body a thread reads. It leaves the signals to the loop around."""
    served = Served()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        got = asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, got.set)
        response = asked(client, server.url + "/slow")
        # The last run in this thread does not sleep.
        with client.stream("GET", server.url + "/slow"):
            pass
        reader = Reader(response)
        # It sleeps, most likely.
        await asyncio.sleep(0.02)
        served.ends.set()
        await asyncio.to_thread(reader.join)
        assert reader.content == b"partrest"
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        await asyncio.wait_for(got.wait(), 20)

    with RawServer(served) as server, Client(timeout=60) as client:
        oneloop.run(main())


def test_a_handler_sends_within_plain_code_in_a_coroutine() -> None:
    """A signal for the loop around within the handler's run is not lost, and the run around goes on being woken."""
    holds, ends = threading.Event(), threading.Event()
    got: list[str] = []

    def serve(peer: Peer) -> None:
        while head := peer.head():
            if b"/now" in head:
                os.kill(os.getpid(), signal.SIGUSR2)
            else:
                holds.set()
                assert ends.wait(60)
            peer.answer(b"ok")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        is_told = asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR2, is_told.set)
        with interrupted(ask, holds):
            assert client.get(server.url + "/held").content == b"ok"
        await asyncio.wait_for(is_told.wait(), 20)

    def ask(*_: object) -> None:
        got.append("signal")
        if len(got) == 2:
            ends.set()
            return
        client.get(server.url + "/now")
        again.start()

    def interrupt() -> None:
        # The main thread sleeps again, most likely.
        time.sleep(0.02)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    again = threading.Thread(target=interrupt)
    with RawServer(serve) as server, Client(timeout=None, limits=Limits(keepalive_expiry=None)) as client:
        oneloop.run(main())
    again.join()


def test_a_handler_sends_with_another_client() -> None:
    """It gives the descriptor back to the loop whose sleep it has interrupted, and both have one in their next runs."""
    served = Served()
    limits = Limits(keepalive_expiry=None)
    found: list[int] = []

    def ask(*_: object) -> None:
        found.append(signal.set_wakeup_fd(-1))
        signal.set_wakeup_fd(found[-1])
        other.get(server.url + "/now")
        assert signal.set_wakeup_fd(-1) == found[-1]
        signal.set_wakeup_fd(found[-1])
        served.ends.set()

    with (
        RawServer(served) as server,
        Client(timeout=None, limits=limits) as client,
        Client(timeout=None, limits=limits) as other,
        handled(ask),
    ):
        client.get(server.url + "/now")
        other.get(server.url + "/now")
        for _ in range(2):
            served.ends.clear()
            client._callers.here().loop.call_soon(_thread.interrupt_main, signal.SIGUSR1)
            assert client.get(server.url + "/held").content == b"held"
            assert signal.set_wakeup_fd(-1) == -1
        if sys.version_info >= (3, 13):
            # Else this shows nothing.
            assert -1 not in found


IN_A_CHILD = """
import os, signal, sys, threading, time
from oneloop.http import Client
url, how = sys.argv[1:]
client = Client(timeout=None)
def ask():
    return client.send(client.build_request("GET", url + "/slow"), stream=True)
one, two = ask(), ask()
threading.Thread(target=one.read, daemon=True).start()
while not one._caller.loop.is_running():
    time.sleep(0.001)
if how == "exit":
    kept = two.iter_bytes()
    next(kept)
    sys.exit()
child = os.fork()
if child == 0:
    signal.alarm(60)
    if how == "read":
        try:
            two.read()
        except RuntimeError as error:
            print(error, flush=True)
    else:
        with two:
            pass
        print("closed", flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def in_a_child(how: str) -> str:
    served = Served()
    with RawServer(served) as server:
        done = run_command(sys.executable, "-W", "ignore", "-c", IN_A_CHILD, server.url, how)
        served.ends.set()
    assert done.stderr == ""
    return done.stdout.strip()


def test_a_forked_child_follows_no_thread_of_its_parent() -> None:
    assert "belongs to the parent process" in in_a_child("read")


def test_a_forked_child_closes_what_it_has_of_its_parent() -> None:
    assert in_a_child("close") == "closed"


def test_the_end_of_the_process_waits_for_no_daemon_thread() -> None:
    assert in_a_child("exit") == ""
