"""trio's echo servers: SocketStream and raw trio sockets."""

# mypy: disable-error-code="import-untyped,import-not-found"
# A rival may be missing.
from __future__ import annotations

import trio

from bench.rivals import endpoint
from bench.rivals.endpoint import Endpoint

READ = 102_400


async def echo(stream: trio.abc.Stream, where: Endpoint) -> None:
    rest = b""
    async with stream:
        try:
            while data := await stream.receive_some(READ):
                if where.form == "pipeline":
                    data = rest + bytes(data)
                    whole = len(data) // where.size * where.size
                    for at in range(0, whole, where.size):
                        await stream.send_all(data[at : at + where.size])
                    rest = data[whole:]
                    continue
                await stream.send_all(data)
                if where.form == "accept":
                    return
        except trio.BrokenResourceError:
            return


async def echo_socket(client: trio.socket.SocketType) -> None:
    client.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
    with client:
        while data := await client.recv(READ):
            left = memoryview(data)
            while left:
                left = left[await client.send(left) :]


async def serve_datagrams(sock: trio.socket.SocketType) -> None:
    while True:
        data, address = await sock.recvfrom(65_536)
        await sock.sendto(data, address)


async def main(where: Endpoint) -> None:
    listener = endpoint.listen(where)
    green = trio.socket.from_stdlib_socket(listener)
    context = endpoint.tls_context(where)
    endpoint.announce(listener)
    if where.form == "udp":
        await serve_datagrams(green)
    if where.form == "sock":
        async with trio.open_nursery() as nursery:
            while True:
                client, _ = await green.accept()
                nursery.start_soon(echo_socket, client)

    async def handler(stream: trio.abc.Stream) -> None:
        if context is not None:
            stream = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        await echo(stream, where)

    await trio.serve_listeners(handler, [trio.SocketListener(green)])


trio.run(main, endpoint.parse())
