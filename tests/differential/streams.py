"""Actions on stream transports over socket pairs: protocols with bodies, and what their peer does and can read.

The peer is the other end of the pair, in the same thread, never blocking: `peer_read` says what can be read at that
moment. Each write has a letter of its own, so that bytes tell which write they are from.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any

from tests.differential import allowed
from tests.differential.author import Author
from tests.differential.program import Action, Body, Hooks
from tests.differential.reference import ReferenceLoop
from tests.differential.verb import Absent, verb
from tests.differential.watchdog import HangError
from tests.differential.world import World, plain

HARD_CLOSE = struct.pack("ii", 1, 0)


class Connection:
    """Our end, as a transport with a protocol, and the peer's socket."""

    def __init__(self, world: World, label: str, hooks: Hooks) -> None:
        self.world = world
        self.label = label
        self.hooks = hooks
        self.transport: Any = None
        self.peer: socket.socket | None = None
        self.ours: socket.socket | None = None
        self.is_lost = False
        # asyncio's pipe transports cannot be asked anything once they are lost (AttributeError).
        self.is_brittle = False
        # Methods that it has no use for, and has or has not.
        self.lacks: frozenset[str] = frozenset()
        self.is_being_made = False
        self.context: contextvars.Context | None = None
        self.is_in_context = False
        # TLS: who writes, and in which callback, is the TLS protocol's to say.
        self.is_wrapped = False
        self.letters = 0
        # Which step of the world wrote last, and how often.
        self.wrote_in = -1
        self.writes = 0

    def data(self, size: int) -> bytes:
        self.letters += 1
        return bytes([65 + (self.letters - 1) % 26]) * size

    def call(self, hook: str, *args: object) -> None:
        self.is_lost = self.is_lost or hook == "lost"
        self.is_being_made = hook == "made"
        try:
            self.enter(hook, *args)
        finally:
            self.is_being_made = False

    def enter(self, hook: str, *args: object) -> None:
        play = functools.partial(self.world.enter, f"{self.label}.{hook}", self.hooks.get(hook, []), *args)
        if isinstance(self.world.loop, ReferenceLoop) and allowed.OWN_CONTEXTS:
            self.play_in_own_context(play)
        else:
            play()

    def play_in_own_context(self, play: Callable[[], None]) -> None:
        """As oneloop calls the methods of a protocol; the first of them is called there by asyncio too."""
        if self.context is None:
            self.context = contextvars.copy_context()
        if not self.is_in_context:
            self.is_in_context = True
            try:
                self.context.run(play)
            finally:
                self.is_in_context = False
        elif contextvars.copy_context() == self.context:
            play()
        else:
            self.context.copy().run(play)

    def note_write(self) -> None:
        if self.wrote_in != self.world.step:
            self.wrote_in, self.writes = self.world.step, 0
        self.writes += 1

    def may_be_gathered(self) -> bool:
        """True if something that this very callback wrote may still be on its way."""
        if not allowed.GATHERED_WRITES:
            return False
        if self.is_wrapped:
            return self.world.loop.is_running()
        return self.wrote_in == self.world.step and self.writes > 1

    def begin(self, what: str, make: Callable[[], Coroutine[Any, Any, Any]], ours: Any) -> asyncio.Task[None]:
        """Begin to make the transport for our end; what comes of it is noted. If it fails, our end is closed."""
        self.world.things[self.label] = self
        self.world.endings.append(self.end)

        async def main() -> None:
            try:
                await make()
            except (HangError, asyncio.CancelledError):
                ours.close()
                raise
            except Exception as exc:
                self.world.note("raised", what, self.label, plain(exc))
                ours.close()
            else:
                self.world.note("connected", self.label)

        return self.world.loop.create_task(main(), name=f"connect {self.label}")

    def end(self) -> None:
        if self.transport is not None and not self.is_lost:
            # Pipes that are read have no abort().
            getattr(self.transport, "abort", self.transport.close)()
        if self.peer is not None:
            self.peer.close()


class Wire(asyncio.Protocol):
    """A protocol that plays bodies; what `eof_received` returns is the hooks' to say."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def connection_made(self, transport: Any) -> None:
        self.connection.transport = transport
        self.connection.call("made")

    def data_received(self, data: bytes) -> None:
        self.connection.call("data", type(data).__name__, data)

    def eof_received(self) -> bool | None:
        self.connection.call("eof")
        return "keep" in self.connection.hooks

    def connection_lost(self, exc: BaseException | None) -> None:
        self.connection.call("lost", exc)

    def pause_writing(self) -> None:
        self.connection.call("pause")

    def resume_writing(self) -> None:
        self.connection.call("resume")


class BufferedWire(asyncio.BufferedProtocol):
    """The same with a buffer of its own."""

    def __init__(self, connection: Connection, size: int = 1000) -> None:
        self.connection = connection
        self.buffer = bytearray(size)

    connection_made = Wire.connection_made  # type: ignore[assignment]
    eof_received = Wire.eof_received  # type: ignore[assignment]
    connection_lost = Wire.connection_lost  # type: ignore[assignment]
    pause_writing = Wire.pause_writing  # type: ignore[assignment]
    resume_writing = Wire.resume_writing  # type: ignore[assignment]

    def get_buffer(self, sizehint: int) -> Any:
        self.connection.call("get_buffer")
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.connection.call("data", "buffer", bytes(self.buffer[:nbytes]))


class Bare:
    """A protocol with nothing but its ends."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    connection_made = Wire.connection_made
    connection_lost = Wire.connection_lost


PROTOCOLS: dict[str, Any] = {"wire": Wire, "buffered": BufferedWire, "bare": Bare}


def socket_pair(kind: str) -> tuple[socket.socket, socket.socket]:
    """Ours and the peer's."""
    if kind == "tcp":
        with socket.create_server(("127.0.0.1", 0)) as server:
            theirs = socket.create_connection(server.getsockname())
            ours = server.accept()[0]
        for end in (ours, theirs):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    else:
        ours, theirs = socket.socketpair()
        if kind == "small":
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    ours.setblocking(False)
    theirs.setblocking(False)
    return ours, theirs


@verb
def connect(world: World, label: str, kind: str, protocol: str, hooks: Hooks) -> None:
    """A transport for one end of a new pair; it is there when connection_made has been called."""
    connection = Connection(world, label, hooks)
    ours, connection.peer = socket_pair(kind)
    connection.ours = ours
    make = functools.partial(world.loop.create_connection, lambda: PROTOCOLS[protocol](connection), sock=ours)
    wait_for(world, connection.begin("connect", make, ours))


def wait_for(world: World, task: asyncio.Task[None]) -> None:
    """Run the loop until the task has ended, unless the loop runs."""
    if not world.loop.is_running():
        task.add_done_callback(lambda _task: world.loop.stop())
        world.loop.run_forever()


def transport_of(world: World, label: str, what: str = "") -> tuple[Connection, Any]:
    connection: Connection = world.get(label)
    if connection.transport is None or (connection.is_brittle and (connection.is_lost or connection.is_being_made)):
        raise Absent
    if what in connection.lacks:
        raise Absent
    return connection, connection.transport


# -- the transport -----------------------------------------------------------------------------------


@verb
def write(world: World, label: str, size: int, kind: str) -> None:
    connection, transport = transport_of(world, label, "write")
    data: Any = connection.data(size)
    connection.note_write()
    if kind == "bytes":
        transport.write(data)
    elif kind == "text":
        transport.write(data.decode())
    else:
        mutable = bytearray(data)
        transport.write(mutable if kind == "bytearray" else memoryview(mutable))
        # What is mutable has been sent by the time that write() returns, or was copied. Since Python 3.12 asyncio keeps
        # a reference to what the socket did not take, and sends what it finds there later.
        if not transport.get_write_buffer_size():
            mutable[:] = b"!" * len(mutable)


@verb
def writelines(world: World, label: str, sizes: list[Any]) -> None:
    connection, transport = transport_of(world, label, "write")
    if transport.is_closing():
        # asyncio fails in several ways by then: on bad items, or because close() took away what sends the bytes.
        raise Absent
    if connection.is_wrapped and any(item[0] < 0 for item in sizes):
        # asyncio's TLS drops the connection; ours refuses them, as a plain transport does.
        raise Absent
    connection.note_write()
    transport.writelines([connection.data(item[0]) if item[0] >= 0 else "text" for item in sizes])


@verb
def call(world: World, label: str, method: str) -> Any:
    """A method of the transport without arguments."""
    _, transport = transport_of(world, label, method)
    return getattr(transport, method)()


@verb
def buffered(world: World, label: str) -> Any:
    """Whether anything waits to be sent; the exact number depends on how the kernel accounts for small packets."""
    connection, transport = transport_of(world, label, "write")
    if connection.may_be_gathered():
        raise Absent
    return transport.get_write_buffer_size() > 0


@verb
def limits(world: World, label: str, high: int | None, low: int | None) -> Any:
    _, transport = transport_of(world, label, "write")
    transport.set_write_buffer_limits(high=high, low=low)
    return transport.get_write_buffer_limits()


@verb
def swap(world: World, label: str, protocol: str, hooks: Hooks) -> None:
    """set_protocol() in mid-stream."""
    connection, transport = transport_of(world, label)
    connection.hooks = hooks
    transport.set_protocol(PROTOCOLS[protocol](connection))


@verb
def extra(world: World, label: str) -> Any:
    connection, transport = transport_of(world, label)
    if connection.is_wrapped and (connection.is_lost or transport.is_closing()):
        # asyncio's TLS forgets the transport below with its end.
        raise Absent
    names = ("socket", "sockname", "peername", "nothing")
    return [type(transport.get_extra_info(name, "default")).__name__ for name in names]


# -- the peer ----------------------------------------------------------------------------------------


def peer_of(world: World, label: str) -> socket.socket:
    connection: Connection = world.get(label)
    if connection.peer is None or connection.peer.fileno() < 0:
        raise Absent
    return connection.peer


def leaving_peer_of(world: World, label: str) -> socket.socket:
    """The peer, if nothing is on its way to it that would meet a closed door."""
    peer = peer_of(world, label)
    if world.get(label).may_be_gathered():
        raise Absent
    return peer


@verb
def peer_read(world: World, label: str, size: int) -> Any:
    """What the peer can read now."""
    peer = peer_of(world, label)
    if world.get(label).may_be_gathered():
        raise Absent
    found = read_now(peer, size)
    if world.get(label).is_wrapped and found[-1] == "…":
        # How much of a long write fits into the socket depends on how it is cut into sends.
        return [bool(found[0]), "…"]
    return found


def read_now(peer: socket.socket, size: int) -> Any:
    got = bytearray()
    while len(got) < size:
        try:
            data = peer.recv(size - len(got))
        except BlockingIOError:
            return [plain(got), "…"]
        except OSError as exc:
            return [plain(got), plain(exc)]
        if not data:
            return [plain(got), "eof"]
        got += data
    return [plain(got)]


@verb
def peer_send(world: World, label: str, size: int) -> Any:
    peer = peer_of(world, label)
    connection: Connection = world.get(label)
    sent = peer.send(connection.data(size).lower())
    return sent == size


@verb
def peer_shut(world: World, label: str) -> None:
    peer_of(world, label).shutdown(socket.SHUT_WR)


@verb
def peer_close(world: World, label: str) -> None:
    leaving_peer_of(world, label).close()


@verb
def peer_reset(world: World, label: str) -> None:
    peer = leaving_peer_of(world, label)
    if peer.family == socket.AF_INET:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, HARD_CLOSE)
    peer.close()


@verb
def close_under(world: World, label: str) -> None:
    """The program closes the socket behind the transport's back."""
    connection: Connection = world.get(label)
    if connection.ours is not None:
        with contextlib.suppress(OSError):
            connection.ours.close()


# -- drawing -----------------------------------------------------------------------------------------

SIZES = [1, 2, 10, 100, 1000, 5000, 9000, 70_000]


def hooks_of(author: Author) -> Hooks:
    hooks: Hooks = {}
    for hook, probability in (
        ("made", 0.5),
        ("data", 0.6),
        ("eof", 0.3),
        ("lost", 0.4),
        ("pause", 0.3),
        ("resume", 0.3),
    ):
        if author.chance(probability):
            body = author.body(3)
            if body:
                hooks[hook] = body
    if author.chance(0.3):
        hooks["keep"] = []
    return hooks


def draw_connect(author: Author) -> Action:
    label = author.new("w")
    kind = author.choice(["unix", "unix", "small", "tcp"])
    return ("connect", label, kind, author.choice(["wire", "wire", "buffered", "bare"]), hooks_of(author))


def draw_write(author: Author) -> Action:
    kind = author.choice(["bytes", "bytes", "bytearray", "memoryview"]) if author.chance(0.97) else "text"
    return ("write", author.some("w"), author.choice([0, *SIZES, 300_000]), kind)


def draw_writelines(author: Author) -> Action:
    # asyncio queues empty items, and does not get rid of a last one.
    sizes = [(author.choice(SIZES),) for _ in range(author.below(4))]
    if author.chance(0.1):
        sizes.insert(author.below(len(sizes) + 1), (-1,))
    return ("writelines", author.some("w"), sizes)


METHODS = {
    "close": 1.5,
    "abort": 1.0,
    "write_eof": 0.8,
    "pause_reading": 1.5,
    "resume_reading": 1.5,
    "is_closing": 0.5,
    "is_reading": 0.5,
    "can_write_eof": 0.1,
}


def draw_method(author: Author) -> Action:
    return ("call", author.some("w"), author.weighted(METHODS))


def draw_ending(author: Author) -> Action:
    return ("call", author.some("w"), author.choice(["close", "abort", "pause_reading", "resume_reading", "write_eof"]))


def draw_buffered(author: Author) -> Action:
    return ("buffered", author.some("w"))


def draw_limits(author: Author) -> Action:
    return (
        "limits",
        author.some("w"),
        author.choice([None, 0, 100, 4000, 100_000]),
        author.choice([None, None, 0, 50]),
    )


def draw_swap(author: Author) -> Action:
    return ("swap", author.some("w"), author.choice(["wire", "buffered", "bare"]), hooks_of(author))


def draw_extra(author: Author) -> Action:
    return ("extra", author.some("w"))


def draw_peer_read(author: Author) -> Action:
    return ("peer_read", author.some("w"), author.choice([1, 100, 1_000_000, 1_000_000, 1_000_000]))


def draw_peer_send(author: Author) -> Action:
    return ("peer_send", author.some("w"), author.choice(SIZES))


def draw_peer_end(author: Author) -> Action:
    return (author.choice(["peer_shut", "peer_close", "peer_reset"]), author.some("w"))


TRANSPORTS = {
    draw_write: 5.0,
    draw_writelines: 0.7,
    draw_method: 3.0,
    draw_buffered: 0.5,
    draw_limits: 0.5,
    draw_swap: 0.3,
    draw_extra: 0.1,
    draw_peer_read: 4.0,
    draw_peer_send: 4.0,
    draw_peer_end: 0.7,
}


def opening(author: Author) -> Body:
    return [draw_connect(author) for _ in range(1 + author.below(2))]
