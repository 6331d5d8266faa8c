"""The echo servers for every asyncio loop: protocol, buffered protocol, streams, sockets, datagrams, TLS.

One program for asyncio, uvloop, rloop and oneloop, independent of the loop that runs it.
"""

from __future__ import annotations

import asyncio
import socket
from typing import cast

from bench.rivals import endpoint, loops
from bench.rivals.cpu_work import work
from bench.rivals.endpoint import Endpoint

#: The size of one read in vmbench.
STREAM_READ = 102_400


class Echo(asyncio.Protocol):
    """Writes back the received data."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        endpoint.no_delay(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class EchoOnce(Echo):
    """Writes back the first message and closes."""

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)
        self.transport.close()


class EchoEach(Echo):
    """Splits the received data into messages and writes each separately, like a server with many small responses."""

    size = 64
    rest = b""

    def data_received(self, data: bytes) -> None:
        if self.rest:
            data = self.rest + data
        whole = len(data) // self.size * self.size
        for at in range(0, whole, self.size):
            self.transport.write(data[at : at + self.size])
        self.rest = data[whole:]


class EchoWork(Echo):
    """Uses CPU before each answer, like the second benchmark of the gevent talk."""

    def data_received(self, data: bytes) -> None:
        work()
        self.transport.write(data)


class EchoBuffered(asyncio.BufferedProtocol):
    """The loop reads into the protocol's buffer."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.buffer = bytearray(1 << 18)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        endpoint.no_delay(transport.get_extra_info("socket"))

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.transport.write(self.buffer[:nbytes])


class EchoDatagrams(asyncio.DatagramProtocol):
    """Sends each datagram back to where it came from."""

    transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.transport.sendto(data, addr)


async def echo_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Vmbench's streams server."""
    endpoint.no_delay(writer.get_extra_info("socket"))
    while data := await reader.read(STREAM_READ):
        writer.write(data)
    writer.close()


async def echo_socket(loop: asyncio.AbstractEventLoop, client: socket.socket) -> None:
    """Vmbench's sockets server."""
    endpoint.no_delay(client)
    with client:
        while data := await loop.sock_recv(client, STREAM_READ):
            await loop.sock_sendall(client, data)


async def serve_sockets(loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
    """Accepts forever, with one task for each client."""
    tasks = set()
    endpoint.announce(listener)
    while True:
        client, _ = await loop.sock_accept(listener)
        task = loop.create_task(echo_socket(loop, client))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


PROTOCOLS: dict[str, type[asyncio.BaseProtocol]] = {
    "protocol": Echo,
    "idle": Echo,
    "accept": EchoOnce,
    "work": EchoWork,
    "pipeline": EchoEach,
    "buffered": EchoBuffered,
}


async def main(where: Endpoint) -> None:
    """Serves in the given form until it is killed."""
    loop = asyncio.get_running_loop()
    listener = endpoint.listen(where)
    port = endpoint.port_of(listener)
    context = endpoint.tls_context(where)
    if where.form == "udp":
        await loop.create_datagram_endpoint(EchoDatagrams, sock=listener)
    elif where.form == "sock":
        await serve_sockets(loop, listener)
    elif where.form == "streams":
        start = asyncio.start_unix_server if where.family == "unix" else asyncio.start_server
        await start(echo_stream, sock=listener, ssl=context, backlog=endpoint.BACKLOG)
    else:
        make = PROTOCOLS[where.form]
        create = loop.create_unix_server if where.family == "unix" else loop.create_server
        await create(make, sock=listener, ssl=context, backlog=endpoint.BACKLOG)
    endpoint.announce_port(port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asked = endpoint.parse()
    EchoEach.size = asked.size
    loops.run(main(asked), asked.loop)
