"""TLS: an echo server with a plain `ssl` client as its peer, and a client with a plain `ssl` server as its peer."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import ssl
from typing import Any

import oneloop
import oneloop.tls
from tests import certificates
from tests.faults.evidence import Evidence, ViolationError
from tests.faults.runs import Scenario
from tests.faults.scenarios.peers import TIMEOUT_S, Peer, exchange, receive_all
from tests.faults.scenarios.tcp import Echo

SIZES = (10, 60_000, 10)
# Made once: the random numbers and the certificates would cost more than the rest.
SERVER, CLIENT = certificates.server_context(), certificates.client_context()


def _clients(evidence: Evidence, address: Any) -> None:
    for number, size in enumerate(SIZES):
        with socket.socket() as plain:
            plain.settimeout(TIMEOUT_S)
            plain.connect(address)
            try:
                sock = CLIENT.wrap_socket(plain, server_hostname="localhost")
            except TimeoutError:
                raise ViolationError(f"client {number}: the handshake does not end") from None
            except OSError as error:
                evidence.damaged.append(f"client {number}: {type(error).__name__} in the handshake")
                continue
            with sock:
                exchange(f"client {number}", sock, os.urandom(size), evidence)


async def _server(evidence: Evidence) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(evidence.handler)
    open_now: set[Echo] = set()
    made = 0

    class Counted(Echo):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            nonlocal made
            made += 1
            super().connection_made(transport)

    done = asyncio.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    peer = Peer(
        functools.partial(_clients, evidence, listener.getsockname()), lambda: loop.call_soon_threadsafe(done.set)
    )
    peer.start()
    try:
        async with await loop.create_server(lambda: Counted(evidence, done, open_now), sock=listener, ssl=SERVER):
            await done.wait()
            while open_now:
                await asyncio.sleep(0.001)
            if evidence.damaged and made != len(SIZES):
                # A handshake that fails is told to the peer alone, as in asyncio.
                evidence.reports.append("a handshake failed")
    finally:
        listener.close()
        peer.finish()


def _one_client(listener: socket.socket, size: int) -> None:
    """The peer of our client: sends back what comes."""
    plain, _ = listener.accept()
    with plain:
        plain.settimeout(TIMEOUT_S)
        try:
            with SERVER.wrap_socket(plain, server_side=True) as sock:
                data, _ = receive_all(sock, size)
                sock.sendall(data)
                receive_all(sock, 1)  # the end
        except TimeoutError:
            raise ViolationError("the client does nothing") from None
        except OSError:
            return  # the client has gone, which it tells itself


async def _client(evidence: Evidence) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(evidence.handler)
    data = os.urandom(60_000)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(TIMEOUT_S)
        peer = Peer(functools.partial(_one_client, listener, len(data)), lambda: None)
        peer.start()
        try:
            address = listener.getsockname()
            reader, writer = await asyncio.open_connection(*address, ssl=CLIENT, server_hostname="localhost")
            try:
                writer.write(data)
                await writer.drain()
                if await reader.readexactly(len(data)) != data:
                    raise ViolationError("other bytes than were sent")
            finally:
                writer.close()
                try:
                    await writer.wait_closed()
                except OSError as error:
                    evidence.errors.append(error)
        finally:
            socket.create_connection(listener.getsockname()).close()  # if the client has not connected
            peer.finish()


def _run(program: object, evidence: Evidence) -> None:
    oneloop.run(program(evidence))  # type: ignore[operator]


FOLLOWING = (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)
SCENARIOS = (
    Scenario("tls server", functools.partial(_run, _server), FOLLOWING),
    Scenario("tls client", functools.partial(_run, _client), FOLLOWING),
)
