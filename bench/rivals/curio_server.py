"""curio's echo servers: sockets and streams."""

# mypy: disable-error-code="import-untyped,import-not-found"
# Curio is untyped.
from __future__ import annotations

import ssl
from multiprocessing import connection

# On import, curio 1.6 uses names that Python 3.12 removed. Only its channels and its TLS, which are not measured,
# need them.
for module, name in (
    (connection, "CHALLENGE"),
    (connection, "WELCOME"),
    (connection, "FAILURE"),
    (ssl, "wrap_socket"),
):
    if not hasattr(module, name):
        setattr(module, name, lambda: None)

import curio  # noqa: E402
import curio.io  # noqa: E402
import curio.socket  # noqa: E402

from bench.rivals import endpoint  # noqa: E402
from bench.rivals.endpoint import Endpoint  # noqa: E402

READ = 102_400


async def echo_socket(client: curio.io.Socket, where: Endpoint) -> None:
    rest = b""
    async with client:
        while data := await client.recv(READ):
            if where.form == "pipeline":
                data = rest + data
                whole = len(data) // where.size * where.size
                for at in range(0, whole, where.size):
                    await client.sendall(data[at : at + where.size])
                rest = data[whole:]
                continue
            await client.sendall(data)
            if where.form == "accept":
                return


async def echo_stream(client: curio.io.Socket, where: Endpoint) -> None:
    stream = client.as_stream()
    while data := await stream.read(READ):
        await stream.write(data)
    await stream.close()


async def serve_datagrams(sock: curio.io.Socket) -> None:
    while True:
        data, address = await sock.recvfrom(65_536)
        await sock.sendto(data, address)


async def main(where: Endpoint) -> None:
    listener = endpoint.listen(where)
    green = curio.io.Socket(listener)
    endpoint.announce(listener)
    if where.form == "udp":
        await serve_datagrams(green)
    handler = echo_stream if where.form == "streams" else echo_socket
    while True:
        client, _ = await green.accept()
        if where.family == "tcp":
            client.setsockopt(curio.socket.IPPROTO_TCP, curio.socket.TCP_NODELAY, 1)
        await curio.spawn(handler, client, where, daemon=True)


curio.run(main, endpoint.parse())
