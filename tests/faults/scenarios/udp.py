"""A UDP endpoint that echoes, and a connected one that asks it. Datagrams may be lost; a wrong one may not come."""

from __future__ import annotations

import asyncio
import socket

import oneloop
from tests.faults.evidence import Evidence, ViolationError
from tests.faults.runs import Scenario

COUNT = 12


class Endpoint(asyncio.DatagramProtocol):
    """Notes errors; echoes if it is the server."""

    def __init__(self, evidence: Evidence, *, echoes: bool) -> None:
        self.evidence, self.echoes = evidence, echoes
        self.received: asyncio.Queue[bytes] = asyncio.Queue()
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.DatagramTransport)
        self.transport = transport

    def datagram_received(self, data: bytes, address: object) -> None:
        if self.echoes:
            self.transport.sendto(data, address)  # type: ignore[arg-type]
        else:
            self.received.put_nowait(data)

    def error_received(self, error: Exception) -> None:
        self.evidence.errors.append(error)

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self.evidence.errors.append(error)
        if not self.lost.done():
            self.lost.set_result(None)


async def _ask(evidence: Evidence, client: Endpoint, number: int) -> None:
    """Datagrams that were lost are sent again, unless the endpoint is closed."""
    data = b"%d" % number * (1 + number * 50)
    for _ in range(3):
        if client.transport.is_closing():
            evidence.damaged.append("the client")
            return
        client.transport.sendto(data)
        try:
            async with asyncio.timeout(0.3):
                while (answer := await client.received.get()) != data:
                    if not answer.startswith(b"%d" % (number - 1)):
                        raise ViolationError(f"another datagram than was sent: {answer[:20]!r}")
        except TimeoutError:
            continue
        return
    evidence.damaged.append("the client")


async def _main(evidence: Evidence) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(evidence.handler)
    made: list[asyncio.DatagramTransport] = []
    protocols: list[Endpoint] = []

    async def endpoint(**places: object) -> Endpoint:
        transport, protocol = await loop.create_datagram_endpoint(
            lambda: Endpoint(evidence, echoes=not made),
            **places,  # type: ignore[arg-type]
        )
        made.append(transport)
        protocols.append(protocol)
        return protocol

    try:
        server = await endpoint(local_addr=("127.0.0.1", 0))
        address = server.transport.get_extra_info("sockname")
        client = await endpoint(remote_addr=address)
        for number in range(COUNT):
            await _ask(evidence, client, number)
            if evidence.damaged:
                break
    finally:
        for transport in made:
            transport.close()
        for protocol in protocols:
            await protocol.lost


async def _sock_calls(evidence: Evidence) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(evidence.handler)
    with socket.socket(type=socket.SOCK_DGRAM) as ours, socket.socket(type=socket.SOCK_DGRAM) as theirs:
        for sock in (ours, theirs):
            sock.bind(("127.0.0.1", 0))
            sock.setblocking(False)
        for number in range(COUNT):
            data = b"%d" % number * (1 + number * 50)
            await loop.sock_sendto(ours, data, theirs.getsockname())
            received, _ = await loop.sock_recvfrom(theirs, 2000)
            if received != data:
                raise ViolationError("another datagram than was sent")


SCENARIOS = (
    Scenario("udp endpoints", lambda evidence: oneloop.run(_main(evidence)), (ConnectionRefusedError,)),
    Scenario("udp sock_*", lambda evidence: oneloop.run(_sock_calls(evidence))),
)
