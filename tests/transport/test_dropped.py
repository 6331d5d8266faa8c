"""Transports that the program drops without a close: each kind in each state, as on asyncio.

asyncio's selector keeps a transport that waits for something: it stays, and ends with its loop. One that waits for
nothing (paused, half open, nothing to write) is collected at once. Then its descriptor is closed, its peer sees the
end, and a ResourceWarning says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import select
import socket
import ssl
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from oneloop import tls as native_tls
from tests.conftest import settle
from tests.loops import LoopFactory
from tests.protocols import keeping
from tests.tls import authority as certificates
from tests.tls.authority import HOST, Authority
from tests.transport.conftest import socket_pair

# What becomes of it: when it is dropped, and when its loop is closed. The number counts the warnings of unclosed
# transports in all.
FREED = ("freed", 1)
KEPT = ("kept", 1)
KEPT_TLS = ("kept", 2)
FREED_TLS = ("freed", 2)
CLOSED = ("freed", 0)

STREAM = {
    "reading": KEPT,
    "paused": FREED,
    "half closed": FREED,
    "writing": KEPT,
    "paused and writing": KEPT,
    "half closed and writing": KEPT,
    "closing": CLOSED,
    "writing and closing": KEPT,
    "paused and closing": CLOSED,
    "paused and resumed": KEPT,
    "never started": KEPT,
    "never started and paused": KEPT,
}
DATAGRAM = {state: fate for state, fate in STREAM.items() if "half closed" not in state}
READ_PIPE = {state: fate for state, fate in DATAGRAM.items() if "writing" not in state}
# It watches for the end of its reader.
WRITE_PIPE = {state: fate for state, fate in DATAGRAM.items() if "paused" not in state}
# A character device has no end to watch for: here nothing is watched until a write has to wait.
DEVICE = {"reading": FREED, "closing": CLOSED, "never started": KEPT}
TLS = {
    "reading": KEPT_TLS,
    # Its own transport, below, goes on reading...
    "paused": KEPT_TLS,
    # ...until this much waits.
    "paused and full": FREED_TLS,
    "writing": KEPT_TLS,
    # It waits for the peer's close_notify.
    "closing": KEPT,
    "paused and resumed": KEPT_TLS,
    "never started": KEPT_TLS,
}
TABLE: dict[str, dict[str, tuple[str, int]]] = {
    "tcp": STREAM,
    "unix": STREAM,
    "datagram": DATAGRAM,
    "read pipe": READ_PIPE,
    "write pipe": WRITE_PIPE,
    "device": DEVICE,
    "tls": TLS,
    "rustls": TLS,
}
CELLS = [(kind, state) for kind, states in TABLE.items() for state in states]
LARGE = 8 << 20


class Quiet(asyncio.Protocol, asyncio.DatagramProtocol):  # type: ignore[misc]  # one for all kinds
    """Holds its transport, as most do: a cycle."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.has_eof = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def eof_received(self) -> bool:
        self.has_eof = True
        return True


@dataclass
class Place:
    """Two ends, one of them the loop's."""

    loop: Any
    kind: str
    path: Path
    authority: Authority
    peer: Any = None
    was: tuple[int, int, int] = (-1, 0, 0)

    def ends(self) -> tuple[Any, Any]:
        made = self.two_ends()
        self.was = file_of(made[0].fileno())
        return made

    def two_ends(self) -> tuple[Any, Any]:
        if self.kind == "read pipe":
            reads, writes = os.pipe()
            return os.fdopen(reads, "rb", 0), os.fdopen(writes, "wb", 0)
        if self.kind == "write pipe":
            reads, writes = os.pipe()
            return os.fdopen(writes, "wb", 0), os.fdopen(reads, "rb", 0)
        if self.kind == "device":
            return Path("/dev/null").open("wb", 0), None
        if self.kind == "datagram":
            ours, theirs = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
            ours.bind(str(self.path / "ours"))
            theirs.bind(str(self.path / "theirs"))
            ours.connect(str(self.path / "theirs"))
            theirs.connect(str(self.path / "ours"))
            for end in (ours, theirs):
                end.setblocking(False)
            return ours, theirs
        return socket_pair("unix" if self.kind == "unix" else "tcp")

    def context(self) -> Any:
        if self.kind == "rustls":
            return native_tls.client_context(ca=self.authority.authority)
        return self.authority.client_context()

    async def make(self) -> Any:
        """A started transport and its protocol."""
        ours, self.peer = self.ends()
        if self.kind == "read pipe":
            return await self.loop.connect_read_pipe(Quiet, ours)
        if self.kind in ("write pipe", "device"):
            return await self.loop.connect_write_pipe(Quiet, ours)
        if self.kind == "datagram":
            return await self.loop.create_datagram_endpoint(Quiet, sock=ours)
        if self.kind in ("tls", "rustls"):
            self.peer = TlsPeer(self.peer, self.authority.server_context())
            made, _ = await asyncio.gather(
                self.loop.create_connection(Quiet, sock=ours, ssl=self.context(), server_hostname=HOST),
                asyncio.to_thread(self.peer.shake_hands),
            )
            await self.loop.shutdown_default_executor()
            return made
        return await self.loop.create_connection(Quiet, sock=ours)

    def make_unstarted(self) -> Any:
        ours, self.peer = self.ends()
        if self.kind == "read pipe":
            return self.loop._make_read_pipe_transport(ours, Quiet())
        if self.kind in ("write pipe", "device"):
            return self.loop._make_write_pipe_transport(ours, Quiet())
        if self.kind == "datagram":
            return self.loop._make_datagram_transport(ours, Quiet())
        if self.kind in ("tls", "rustls"):
            return self.loop._make_ssl_transport(ours, Quiet(), self.context(), server_hostname=HOST)
        return self.loop._make_socket_transport(ours, Quiet())


class TlsPeer:
    """A blocking TLS server on the other end of a socket."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self.sock = sock
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)

    def shake_hands(self) -> None:
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.send()
                select.select([self.sock], [], [], 10)
                self.incoming.write(self.sock.recv(1 << 16))
            else:
                return self.send()

    def send(self) -> None:
        data = self.outgoing.read()
        while data:
            select.select([], [self.sock], [], 10)
            data = data[self.sock.send(data) :]

    def fileno(self) -> int:
        return self.sock.fileno()

    def close(self) -> None:
        self.sock.close()


async def until(is_so: Callable[[], Any]) -> None:
    while not is_so():
        await asyncio.sleep(0.001)


async def enter(place: Place, state: str, transport: Any, protocol: Any) -> None:
    """Bring a started transport into a state."""
    for part in state.split(" and "):
        if part == "paused":
            transport.pause_reading()
        elif part == "resumed":
            transport.resume_reading()
        elif part == "half closed":
            place.peer.shutdown(socket.SHUT_WR)
            await until(lambda: protocol.has_eof)
        elif part == "full":
            await fill(place.peer, transport)
        elif part == "writing":
            write_much(place.kind, transport)
        elif part == "closing":
            transport.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def fill(peer: TlsPeer, transport: Any) -> None:
    """Send more than a paused TLS transport takes."""
    below = getattr(transport, "_ssl_protocol", transport)
    peer.tls.write(b"x" * (1 << 20))
    data = memoryview(peer.outgoing.read())
    while transport_below(below).is_reading():
        with contextlib.suppress(BlockingIOError):
            data = data[peer.sock.send(data[: 1 << 16]) :]
        await asyncio.sleep(0)


def transport_below(protocol: Any) -> Any:
    if hasattr(protocol, "_transport"):
        return protocol._transport
    (below,) = (t for t in gc.get_referrers(protocol) if type(t).__name__ == "StreamTransport")
    return below


def write_much(kind: str, transport: Any) -> None:
    if kind == "datagram":
        while not transport.get_write_buffer_size():
            transport.sendto(b"x" * 1000)
    else:
        # More than a socket takes, and the water marks of both layers of TLS.
        transport.write(b"x" * LARGE)


def sees_the_end(peer: Any) -> bool:
    """Whether the other end notices that the transport's descriptor is closed."""
    if getattr(peer, "type", None) == socket.SOCK_DGRAM:
        with contextlib.suppress(BlockingIOError):
            try:
                peer.send(b"x")
            except (ConnectionRefusedError, OSError) as error:
                if isinstance(error, BlockingIOError):
                    raise
                return True
        return False
    number = peer.fileno()
    os.set_blocking(number, False)
    ended = select.poll()
    ended.register(number, select.POLLIN)
    while events := ended.poll(0):
        if events[0][1] & select.POLLERR:
            return True
        try:
            if not os.read(number, 1 << 20):
                return True
        except ConnectionResetError:
            return True
    return False


def file_of(number: int) -> tuple[int, int, int]:
    """The open file with this number; none has the inode 0."""
    try:
        status = os.fstat(number)
    except OSError:
        return number, 0, 0
    return number, status.st_dev, status.st_ino


@contextlib.contextmanager
def noting(said: list[str]) -> Iterator[None]:
    """Not the recorder of `catch_warnings`, which would keep the sources of the warnings alive."""

    def note(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        if category is ResourceWarning:
            said.append(str(message))

    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("always")
        patch.setattr(warnings, "showwarning", note)
        yield
        gc.collect()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return certificates.make(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize(("kind", "state"), CELLS, ids=[f"{kind}-{state}" for kind, state in CELLS])
def test_dropped(
    loop_factory: LoopFactory, loop_name: str, kind: str, state: str, tmp_path: Path, authority: Authority
) -> None:
    if kind == "rustls" and loop_name == "asyncio":
        pytest.skip("asyncio has OpenSSL only")
    place = Place(loop_factory(), kind, tmp_path, authority)
    said: list[str] = []
    with noting(said):
        dropped = drop(place, state)
        was = place.was
        gc.collect()
        if not state.startswith("never"):
            place.loop.run_until_complete(asyncio.sleep(0.001))
            gc.collect()
        fate = "freed" if dropped() is None else "kept"
        if fate == "freed":
            assert file_of(was[0]) != was
            assert place.peer is None or sees_the_end(place.peer)
        elif place.peer is not None:
            assert file_of(was[0]) == was
        place.loop.close()
        gc.collect()
        assert dropped() is None
        assert file_of(was[0]) != was
        assert place.peer is None or sees_the_end(place.peer)
    if place.peer is not None:
        place.peer.close()
    told = [text for text in said if text.startswith("unclosed transport")]
    expected = TABLE[kind][state]
    if kind in ("tls", "rustls") and state == "never started" and loop_name == "oneloop":
        # Above the transport that never started there is none yet.
        expected = KEPT
    assert (fate, len(told)) == expected, told


def drop(place: Place, state: str) -> weakref.ref[Any]:
    """Make a transport, bring it into the state, and drop it."""
    if state.startswith("never"):
        transport = place.make_unstarted()
        if "paused" in state:
            transport.pause_reading()
    else:
        transport, protocol = place.loop.run_until_complete(place.make())
        place.loop.run_until_complete(enter(place, state, transport, protocol))
    return weakref.ref(transport)


@pytest.mark.oneloop_only("asyncio tells the server since 3.13", before=(3, 13))
async def test_a_server_is_told(loop: asyncio.AbstractEventLoop) -> None:
    """`wait_closed` does not wait for a connection that is gone."""
    connections: list[Quiet] = []
    server = await loop.create_server(keeping(connections, Quiet), "127.0.0.1", 0)
    with socket.create_connection(server.sockets[0].getsockname()) as peer:
        await until(lambda: connections and connections[0].transport)
        await settle()
        connections[0].transport.pause_reading()
        server.close()
        waiting = loop.create_task(server.wait_closed())
        await asyncio.sleep(0)
        said: list[str] = []
        with noting(said):
            connections.clear()
        assert [text for text in said if text.startswith("unclosed transport")]
        await waiting
        peer.settimeout(60)
        assert peer.recv(1) == b""
