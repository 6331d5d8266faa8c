"""`happy_eyeballs_delay`: attempts to connect that overlap (RFC 8305), without the faults of `asyncio.staggered`.

Public reports, written anew: python/cpython#124309 (AssertionError with eager tasks), #128479 (attempts go on after the
end), #135836 (IndexError if no attempt has left an error). What a failure leaves behind is in
tests/transport/test_failed_connections.py.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from collections.abc import Callable
from typing import Any

import pytest

from oneloop import testing
from tests.conftest import settle
from tests.loop.sleeping import Sleeping
from tests.protocols import Recorder

FACTORIES: dict[str, Any] = {"usual": None}
if sys.version_info >= (3, 12):
    FACTORIES["eager"] = asyncio.eager_task_factory

Attempt = Callable[[Any, Any], Any]


@pytest.fixture(params=list(FACTORIES))
def factory(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> None:
    loop.set_task_factory(FACTORIES[request.param])


class Network:
    """What becomes of the attempts: by the last number of the address 127.0.0.N."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, loop: asyncio.AbstractEventLoop, **kinds: str) -> None:
        self.kinds = {int(name[1:]): kind for name, kind in kinds.items()}
        self.begun: list[int] = []
        self.sockets: list[socket.socket] = []
        self.tasks: list[Any] = []
        self.release = asyncio.Event()
        self._loop = loop
        real = loop.sock_connect
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()

        async def resolved(address: tuple[str, int], **_: Any) -> list[Any]:
            if address[0] != "host":
                return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address)]
            return [
                (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (f"127.0.0.{number}", 1))
                for number in self.kinds
            ]

        async def connect(sock: socket.socket, address: tuple[str, int]) -> None:
            number = int(address[0].rsplit(".", 1)[1])
            self.begun.append(number)
            self.sockets.append(sock)
            self.tasks.append(asyncio.current_task())
            match self.kinds[number]:
                case "refuses":
                    raise ConnectionRefusedError(errno.ECONNREFUSED, f"no {number}")
                case "refuses later":
                    await self.release.wait()
                    raise ConnectionRefusedError(errno.ECONNREFUSED, f"no {number}")
                case "silent":
                    await asyncio.Event().wait()
                case "waits":
                    await self.release.wait()
                    await real(sock, self._listener.getsockname())
                case "broken":
                    raise RuntimeError("no failure to connect")
                case "accepts":
                    await real(sock, self._listener.getsockname())

        monkeypatch.setattr(loop, "_ensure_resolved", resolved, raising=False)
        monkeypatch.setattr(loop, "sock_connect", connect, raising=False)

    async def connected(self, delay: float = 0.001, **options: Any) -> int:
        """Connect and return the number of the address that has won."""
        transport, protocol = await self._loop.create_connection(
            Recorder, "host", 1, happy_eyeballs_delay=delay, **options
        )
        open_sockets = [number for number, sock in zip(self.begun, self.sockets, strict=True) if sock.fileno() >= 0]
        transport.close()
        await protocol.wait_lost()
        assert len(open_sockets) == 1
        return open_sockets[0]

    def end(self) -> None:
        self._listener.close()
        assert [sock for sock in self.sockets if sock.fileno() >= 0] == []
        assert [task for task in self.tasks if not task.done()] == []


WINS: list[tuple[dict[str, str], float, int, list[int]]] = [
    # The addresses, the delay, who wins, who has begun.
    ({"n1": "accepts"}, 1000, 1, [1]),
    ({"n1": "accepts", "n2": "accepts"}, 1000, 1, [1]),
    ({"n1": "refuses", "n2": "accepts"}, 1000, 2, [1, 2]),
    ({"n1": "refuses", "n2": "refuses", "n3": "accepts"}, 1000, 3, [1, 2, 3]),
    ({"n1": "broken", "n2": "accepts"}, 1000, 2, [1, 2]),
    ({"n1": "silent", "n2": "accepts"}, 0.001, 2, [1, 2]),
    ({"n1": "silent", "n2": "refuses", "n3": "accepts"}, 0.001, 3, [1, 2, 3]),
    ({"n1": "silent", "n2": "silent", "n3": "accepts"}, 0, 3, [1, 2, 3]),
]


@pytest.mark.oneloop_only("asyncio before 3.12.8 and 3.13.1 fails with eager tasks")
@pytest.mark.parametrize(("addresses", "delay", "winner", "begun"), WINS)
async def test_who_wins(
    loop: asyncio.AbstractEventLoop,
    factory: None,
    monkeypatch: pytest.MonkeyPatch,
    addresses: dict[str, str],
    delay: float,
    winner: int,
    begun: list[int],
) -> None:
    network = Network(monkeypatch, loop, **addresses)
    assert await network.connected(delay) == winner
    assert network.begun == begun
    await settle()
    network.end()


@pytest.mark.oneloop_only("asyncio before 3.12.8 and 3.13.1 fails with eager tasks")
@pytest.mark.parametrize("all_errors", [False, True])
@pytest.mark.parametrize(
    ("addresses", "texts"),
    [
        ({"n1": "refuses"}, ["no 1"]),
        ({"n1": "refuses", "n2": "refuses"}, ["no 1", "no 2"]),
        # Failures to connect come first, as in asyncio, which has nothing to raise where there is none (gh-135836).
        ({"n1": "refuses", "n2": "broken", "n3": "refuses"}, ["no 1", "no 3"]),
        ({"n1": "broken", "n2": "broken"}, ["no failure to connect"]),
    ],
)
async def test_nobody_wins(
    loop: asyncio.AbstractEventLoop,
    factory: None,
    monkeypatch: pytest.MonkeyPatch,
    addresses: dict[str, str],
    texts: list[str],
    all_errors: bool,
) -> None:
    if all_errors and sys.version_info < (3, 12):
        pytest.skip("all_errors came with CPython 3.12")
    network = Network(monkeypatch, loop, **addresses)
    is_broken = set(addresses.values()) == {"broken"}
    expected = RuntimeError if is_broken else ExceptionGroup if all_errors else OSError
    options = {"all_errors": True} if all_errors else {}
    with pytest.raises(expected) as caught:
        await network.connected(1000, **options)
    if isinstance(caught.value, ExceptionGroup):
        assert [str(error).split("] ")[1] for error in caught.value.exceptions] == texts
    else:
        assert all(text in str(caught.value) for text in texts)
    await settle()
    network.end()


@pytest.mark.oneloop_only("IndexError: python/cpython#135836")
async def test_no_attempt_has_left_an_error(
    loop: asyncio.AbstractEventLoop, factory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody cancels all other tasks, as at the end of a program."""
    network = Network(monkeypatch, loop, n1="silent", n2="silent")
    connecting = asyncio.ensure_future(network.connected(0))
    while len(network.begun) < 2:
        await asyncio.sleep(0)
    for task in network.tasks:
        task.cancel()
    with pytest.raises(TimeoutError, match="create_connection failed"):
        await connecting
    network.end()


@pytest.mark.oneloop_only("python/cpython#128479: attempts go on")
async def test_a_cancelled_race(
    loop: asyncio.AbstractEventLoop, factory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(monkeypatch, loop, n1="silent", n2="refuses", n3="waits", n4="silent")
    connecting = asyncio.ensure_future(network.connected(0))
    while len(network.begun) < 4:
        await asyncio.sleep(0)
    network.release.set()
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    await settle()
    network.end()


@pytest.mark.oneloop_only("asyncio fails here in some patch releases")
async def test_two_connections_at_the_same_moment(
    loop: asyncio.AbstractEventLoop, factory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(monkeypatch, loop, n1="waits", n2="waits")
    connecting = asyncio.ensure_future(network.connected(0))
    while len(network.begun) < 2:
        await asyncio.sleep(0)
    network.release.set()
    assert await connecting in (1, 2)
    await settle()
    network.end()


@pytest.mark.oneloop_only("python/cpython#128479: attempts go on")
@pytest.mark.parametrize("number", [0, 1], ids=["the loser", "the winner"])
async def test_cancelled_in_the_moment_in_which_an_attempt_ends(
    loop: asyncio.AbstractEventLoop, factory: None, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """There is a connection that nobody has got yet."""
    network = Network(monkeypatch, loop, n1="silent", n2="waits")
    connecting = asyncio.ensure_future(network.connected(0))
    while len(network.begun) < 2:
        await asyncio.sleep(0)
    network.tasks[number].add_done_callback(lambda _: connecting.cancel())
    network.release.set()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    await settle()
    network.end()


def test_only_the_failure_of_the_last_attempt_starts_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one fails while the delay of the second is not over, in virtual time."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        network = Network(monkeypatch, loop, n1="refuses later", n2="silent", n3="accepts")
        connecting = asyncio.ensure_future(network.connected(10))
        await asyncio.sleep(15)
        assert network.begun == [1, 2]
        network.release.set()
        await asyncio.sleep(1)
        assert network.begun == [1, 2]
        assert await connecting == 3
        assert loop.time() == 20
        network.end()

    testing.run(main())


@pytest.mark.oneloop_only("asyncio before 3.12.8 and 3.13.1 fails with eager tasks")
def test_the_loop_sleeps_once_all_attempts_have_begun(
    loop: asyncio.AbstractEventLoop, factory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(monkeypatch, loop, n1="waits", n2="waits")
    connecting = loop.create_task(network.connected(0))
    while len(network.begun) < 2:
        loop.run_until_complete(asyncio.sleep(0))
    Sleeping(loop).while_asleep(lambda: None)
    network.release.set()
    assert loop.run_until_complete(connecting) in (1, 2)
    loop.run_until_complete(settle())
    network.end()


async def test_addresses_are_interleaved(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Families take turns, as in asyncio; `interleave` says after how many of the first one."""
    tried: list[Any] = []

    async def resolved(*_: Any, **__: Any) -> list[Any]:
        six = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", (f"::{n}", 1, 0, 0)) for n in (1, 2, 3)]
        four = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{n}", 1)) for n in (1, 2)]
        return six + four

    async def connect_sock(exceptions: list[Any], info: Any, *_: Any) -> None:
        tried.append(info[4][0])
        exceptions.append([ConnectionRefusedError(info[4][0])])
        raise exceptions[-1][0]

    monkeypatch.setattr(loop, "_ensure_resolved", resolved, raising=False)
    monkeypatch.setattr(loop, "_connect_sock", connect_sock, raising=False)
    for options in ({"happy_eyeballs_delay": 1}, {"happy_eyeballs_delay": 1, "interleave": 2}, {"interleave": 2}, {}):
        with pytest.raises(OSError, match="Multiple exceptions"):
            await loop.create_connection(Recorder, "host", 1, **options)  # type: ignore[call-overload]
    assert tried == [
        *("::1", "127.0.0.1", "::2", "127.0.0.2", "::3"),
        *("::1", "::2", "127.0.0.1", "::3", "127.0.0.2"),
        *("::1", "::2", "127.0.0.1", "::3", "127.0.0.2"),
        *("::1", "::2", "::3", "127.0.0.1", "127.0.0.2"),
    ]
