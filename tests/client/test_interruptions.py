"""An exception that a signal handler raises, in turn behind each call of the client's code, leaves nothing behind.

CPython runs handlers behind calls and at the beginning of functions. Here the exception is raised there by
`sys.monitoring`, at one such place after the other. The client may have one connection: if the request that was
interrupted keeps it, or its place, the next request gets none.
"""

from __future__ import annotations

import asyncio
import dis
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Self

import pytest

import oneloop
import oneloop.http.client as package
from oneloop.http import (
    AsyncClient,
    Client,
    ConnectError,
    ConnectTimeout,
    HttpxTransport,
    Limits,
    PoolTimeout,
    ReadTimeout,
    Timeout,
)
from tests.client.servers import Peer, RawServer, full_listener

if sys.version_info < (3, 12):
    pytest.skip("sys.monitoring is new in Python 3.12", allow_module_level=True)

# What was being made is left to the garbage collector, as anywhere.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

FOLDER = str(Path(package.__file__).parent)
SOON = Timeout(0.05)
"""For requests without a response: they end when no place is left to be interrupted at."""
PATIENT = Timeout(60.0, pool=20.0)
PLACES_MIN = 30
UNOWNED = ("PlainCaller.run", "Client.send", "Client.stream", "Response.close", "Response._close")
"""Here a response is nobody's for a moment, or its end has not begun, as in httpx."""
EXPECTED: tuple[type[Exception], ...] = (ReadTimeout, ConnectError, ConnectTimeout)


with suppress(ImportError):
    import httpx

    EXPECTED += (httpx.ReadTimeout,)


class Interruption(BaseException):
    """What the handler raises."""


def functions(module: ModuleType) -> Iterator[FunctionType]:
    """The functions of a module and of its classes."""
    values = list(vars(module).values())
    values += [member for value in values if isinstance(value, type) for member in vars(value).values()]
    for value in values:
        for function in (value, getattr(value, "fget", None), getattr(value, "__wrapped__", None)):
            if isinstance(function, FunctionType):
                yield function


def codes() -> set[CodeType]:
    """The code of all functions of the client, and of those within them."""
    modules = [module for module in list(sys.modules.values()) if is_client(getattr(module, "__file__", None))]
    waiting = [function.__code__ for module in modules for function in functions(module)]
    found: set[CodeType] = set()
    while waiting:
        code = waiting.pop()
        if code not in found and is_client(code.co_filename):
            found.add(code)
            waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return found


def is_client(path: str | None) -> bool:
    return path is not None and path.startswith(FOLDER)


def places_of(code: CodeType, before: tuple[str, ...]) -> frozenset[int]:
    """The offsets of instructions before which a signal handler may run: `before` them is one of these."""
    steps = pairwise(dis.get_instructions(code))
    found = {second.offset for first, second in steps if first.opname.startswith(before)}
    return frozenset(found)


class Interrupter:
    """Raises an exception at one of the places, counted in the order in which they are met."""

    def __init__(self, *before: str) -> None:
        before = before or ("CALL", "RESUME")
        self._places = {code: places for code in codes() if (places := places_of(code, before))}
        self._tool = sys.monitoring.DEBUGGER_ID
        self._left = 0
        self._thread = threading.get_ident()
        self.where = self.function = ""

    def __enter__(self) -> Self:
        monitoring = sys.monitoring
        monitoring.use_tool_id(self._tool, "interruptions")
        monitoring.register_callback(self._tool, monitoring.events.INSTRUCTION, self._met)
        return self

    def __exit__(self, *_: object) -> None:
        self._watch(0)
        sys.monitoring.free_tool_id(self._tool)

    def _watch(self, events: int) -> None:
        for code in self._places:
            sys.monitoring.set_local_events(self._tool, code, events)

    def _met(self, code: CodeType, offset: int) -> None:
        if offset not in self._places[code] or threading.get_ident() != self._thread or not self._left:
            return
        self._left -= 1
        if not self._left:
            self.function = code.co_qualname
            self.where = f"{code.co_filename}: {code.co_qualname}, offset {offset}"
            raise Interruption

    def run(self, action: Callable[[], object], place: int) -> bool:
        """Interrupt an action at a place, from 1. Returns False if there are less."""
        self._left, self.where = place, ""
        self._watch(sys.monitoring.events.INSTRUCTION)
        try:
            action()
        except (Interruption, *EXPECTED):
            pass
        finally:
            self._left = 0
            self._watch(0)
        return bool(self.where)


class Server(RawServer):
    """Answers each request, unless `holds` is set."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.holds = threading.Event()

    def _answer(self, peer: Peer) -> None:
        while head := peer.head():
            try:
                if b"transfer-encoding" in head.lower():
                    peer.chunked()
                elif b"Content-Length: 1" in head:
                    peer.exactly(1)
            except AssertionError:
                # The client was interrupted within the body.
                return
            if not self.holds.is_set():
                peer.answer(b"ok")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


def first_request(client: Client, url: str) -> None:
    client.get(url)


def known_request(client: Client, url: str) -> None:
    client.get(url)


def whole_body(client: Client, url: str) -> None:
    client.post(url, content=b"x")


def body_in_parts(client: Client, url: str) -> None:
    client.post(url, content=iter([b"a", b"b"]))


def streamed(client: Client, url: str) -> None:
    with client.stream("GET", url, headers={"x": "y"}) as response:
        response.read()


def refused(client: Client, url: str) -> None:
    client.get("http://127.0.0.1:1/")


def too_late(client: Client, url: str) -> None:
    with full_listener() as listener:
        client.get(f"http://127.0.0.1:{listener.getsockname()[1]}/")


@pytest.mark.parametrize(
    "action", [refused, too_late, first_request, known_request, whole_body, body_in_parts, streamed]
)
def test_requests(action: Callable[[Client, str], None], server: Server) -> None:
    place = 0
    with Interrupter() as interrupter:
        while True:
            place += 1
            server.holds.clear()
            with Client(trust_env=False, timeout=PATIENT, limits=Limits(max_connections=1)) as client:
                if action is not first_request:
                    client.get(server.url)
                    client.get(server.url)
                server.holds.set()
                client.timeout = SOON
                if not interrupter.run(lambda: action(client, server.url), place):
                    break
                server.holds.clear()
                client.timeout = PATIENT
                try:
                    assert client.get(server.url).content == b"ok"
                except PoolTimeout:
                    pytest.fail(f"the only connection is taken for ever after {interrupter.where}")
                counters = client.statistics()
                assert asyncio._get_running_loop() is None, interrupter.where
                assert (counters["open"], counters["idle"], counters["waiting"]) == (1, 1, 0), interrupter.where
    assert place > PLACES_MIN


@pytest.mark.parametrize("action", [first_request, streamed])
def test_plain_code_in_a_coroutine(action: Callable[[Client, str], None], server: Server) -> None:
    """Its task goes on, and a signal reaches the loop around it."""

    async def interrupted(place: int) -> bool:
        loop: Any = asyncio.get_running_loop()
        task = asyncio.current_task()
        loop.add_signal_handler(signal.SIGUSR1, lambda: None)
        fd = loop._csock.fileno()
        with Client(trust_env=False, timeout=PATIENT) as client:
            was_met = interrupter.run(lambda: action(client, server.url), place)
            assert (asyncio.get_running_loop(), asyncio.current_task()) == (loop, task), interrupter.where
            assert signal.set_wakeup_fd(fd, warn_on_full_buffer=False) == fd, interrupter.where
        await asyncio.sleep(0)
        return was_met

    place = 1
    with Interrupter() as interrupter:
        while oneloop.run(interrupted(place)):
            place += 1
    assert place > PLACES_MIN


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_loop_that_goes_on(is_refused: bool) -> None:
    """An interruption may leave the loop by a callback. The request learns of its connection's failure nevertheless."""
    place = 0

    async def main() -> None:
        async with AsyncClient(trust_env=False, timeout=SOON) as client:
            await client.get(f"http://127.0.0.1:{port}/")

    async def ended(task: asyncio.Task[None]) -> None:
        await asyncio.wait([task], timeout=10)

    # The beginning of a callback is no place: one that does not even begin is lost, as in asyncio.
    with full_listener() as listener, Interrupter("CALL") as interrupter:
        port = 1 if is_refused else listener.getsockname()[1]
        while True:
            place += 1
            with closing(oneloop.new_event_loop()) as loop:
                task = loop.create_task(main())
                if not interrupter.run(partial(loop.run_until_complete, ended(task)), place):
                    break
                loop.run_until_complete(ended(task))
                assert task.done(), f"waits for ever after {interrupter.where}"
                assert isinstance(task.exception(), (Interruption, *EXPECTED)), interrupter.where
    gc.collect()
    assert place > PLACES_MIN


def part(client: Client, url: str) -> None:
    with client.stream("GET", url) as response:
        next(response.iter_raw())


def unread(client: Client, url: str) -> None:
    with client.stream("GET", url):
        pass


@pytest.mark.parametrize("action", [part, unread])
def test_a_response_that_is_left(action: Callable[[Client, str], None]) -> None:
    """Its connection is closed, wherever the exception comes, but for where nobody has it."""

    def serve(peer: Peer) -> None:
        while head := peer.head():
            peer.answer(b"ok") if b"/ok" in head else peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart")

    timeout, place = Timeout(60.0, pool=0.5), 0
    with RawServer(serve) as server, Interrupter() as interrupter:
        while True:
            place += 1
            with Client(trust_env=False, timeout=timeout, limits=Limits(max_connections=1)) as client:
                client.get(server.url + "/ok")
                if not interrupter.run(lambda: action(client, server.url), place):
                    break
                try:
                    assert client.get(server.url + "/ok").content == b"ok"
                except PoolTimeout:
                    assert interrupter.function in UNOWNED, f"the connection is taken after {interrupter.where}"
    gc.collect()
    assert place > PLACES_MIN


def test_requests_of_httpx(server: Server) -> None:
    httpx = pytest.importorskip("httpx")
    one, place = httpx.Limits(max_connections=1), 0
    with Interrupter() as interrupter:
        while True:
            place += 1
            server.holds.clear()
            with httpx.Client(transport=HttpxTransport(limits=one), trust_env=False, timeout=60) as client:
                client.get(server.url)
                server.holds.set()
                sent = interrupter.run(lambda: client.post(server.url, content=b"x", timeout=0.05), place)
                if not sent:
                    break
                server.holds.clear()
                try:
                    timeout = httpx.Timeout(60, pool=20)
                    assert client.post(server.url, content=b"x", timeout=timeout).content == b"ok"
                except httpx.PoolTimeout:
                    pytest.fail(f"the only connection is taken for ever after {interrupter.where}")
    assert place > PLACES_MIN


def test_a_request_that_nobody_waited_for_is_garbage(server: Server) -> None:
    """The reason: it begins with the first wait."""
    with Client(trust_env=False, timeout=PATIENT, limits=Limits(max_connections=1)) as client:
        client.get(server.url)
        (origin,) = next(iter(client._pools.values()))._origins.values()
        head = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        arguments: Any = ("GET", head, None, False, False, True, PATIENT.native, None, 2, None)
        origin.start(*arguments)
        assert client.statistics()["requests"] == 1
        closed = origin.start(*arguments)
        closed.close()
        assert client.get(server.url).content == b"ok"
        assert client.statistics()["requests"] == 2
