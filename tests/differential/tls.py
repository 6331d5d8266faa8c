"""Actions on TLS transports: the peer speaks TLS through memory, in the same thread; else as with streams."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import ssl
from typing import Any

from tests.certificates import HOST, client_context, server_context
from tests.differential.author import Author
from tests.differential.program import Action, Body, Hooks
from tests.differential.running import forever
from tests.differential.streams import PROTOCOLS, Connection, hooks_of, socket_pair
from tests.differential.verb import Absent, verb
from tests.differential.world import World

# More turns than a handshake needs.
MOST_TURNS = 40
TURNS_AFTER = 4

contexts = functools.cache(lambda: (client_context(), server_context()))


class SecurePeer:
    """The other end of a pair, with a socket's methods; what is sent and received is plain text."""

    family = socket.AF_UNIX
    type = socket.SOCK_STREAM

    def __init__(self, sock: socket.socket, *, server_side: bool) -> None:
        self.sock = sock
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client, server = contexts()
        context = server if server_side else client
        host = None if server_side else HOST
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=server_side, server_hostname=host)
        self.is_ready = False
        self.is_broken = False

    def fileno(self) -> int:
        return self.sock.fileno()

    def take(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while data := self.sock.recv(1 << 16):
                self.incoming.write(data)
            self.incoming.write_eof()

    def flush(self) -> None:
        data = self.outgoing.read()
        if data:
            # What does not fit is lost, and the connection with it; pairs take what programs send.
            self.sock.send(data)

    def turn(self) -> None:
        """A step of the handshake."""
        if self.is_broken:
            # Asked again, OpenSSL would answer with any errno that is about.
            raise ConnectionAbortedError("handshake failed")
        self.take()
        if not self.is_ready:
            try:
                self.tls.do_handshake()
                self.is_ready = True
            except ssl.SSLWantReadError:
                pass
            except OSError:
                self.is_broken = True
                raise
        self.flush()

    def recv(self, size: int) -> bytes:
        self.turn()
        try:
            return self.tls.read(size)
        except ssl.SSLWantReadError:
            raise BlockingIOError from None
        except ssl.SSLZeroReturnError:
            return b""
        finally:
            self.flush()

    def send(self, data: bytes) -> int:
        self.turn()
        sent = self.tls.write(data)
        self.flush()
        return sent

    def shutdown(self, _how: int) -> None:
        """close_notify, and no more."""
        try:
            self.tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        finally:
            self.flush()

    def close(self) -> None:
        self.sock.close()


@verb
def secure(world: World, label: str, kind: str, side: str, protocol: str, hooks: Hooks) -> None:
    """A TLS transport for one end of a new pair, its handshake done."""
    if world.loop.is_running():
        raise Absent
    connection = Connection(world, label, hooks)
    ours, theirs = socket_pair(kind)
    peer: Any = SecurePeer(theirs, server_side=side == "client")
    connection.peer = peer
    connection.is_wrapped = True
    client, server = contexts()
    factory = functools.partial(PROTOCOLS[protocol], connection)

    async def make() -> None:
        if side == "client":
            await world.loop.create_connection(factory, sock=ours, ssl=client, server_hostname=HOST)
        else:
            await world.loop.connect_accepted_socket(factory, ours, ssl=server)

    shake_hands(world, peer, connection.begin("secure", make, ours))


def shake_hands(world: World, peer: SecurePeer, task: asyncio.Task[None]) -> None:
    """One tick of the loop and one step of the peer in turns, until the transport is there."""
    turns_left = MOST_TURNS
    while turns_left:
        world.loop.call_soon(world.loop.stop)
        forever(world)
        turns_left -= 1
        if not task.done():
            with contextlib.suppress(OSError):
                peer.turn()
        elif turns_left > TURNS_AFTER:
            # The tickets that a TLS 1.3 server sends behind its handshake are read.
            turns_left = TURNS_AFTER


def draw_secure(author: Author) -> Action:
    kind, side = author.choice(["unix", "tcp"]), author.choice(["client", "server"])
    return ("secure", author.new("w"), kind, side, author.choice(["wire", "wire", "buffered"]), hooks_of(author))


def opening(author: Author) -> Body:
    return [draw_secure(author)]
