"""The peer's two roles on a Python loop: `python -m tests.tls.peers.echo LOOP ROLE …` (asyncio, uvloop, oneloop).

The command line and the behaviour are those of every peer program here:

    server PEM VERSION LIMIT          prints "ready PORT" and echoes; closes a connection after LIMIT bytes, 0: never
    client PORT AUTHORITY VERSION COUNT CLOSER SIZE...
        COUNT times: connects to localhost, checks the certificate, and for each SIZE sends so many bytes and compares
        what comes back; then the CLOSER ("client" or "server") closes, and the server's close must be a clean one.
        Prints "ok" at last, or says on standard error what was wrong and exits with status 1.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Callable
from pathlib import Path

from tests.tls.authority import pinned
from tests.tls.peers.content import content


async def serve(pem: str, version: str, limit: int) -> None:
    context = pinned(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), version)
    context.load_cert_chain(pem)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        count = 0
        while not limit or count < limit:
            data = await reader.read(1 << 16)
            if not data:
                break
            count += len(data)
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=context)
    print(f"ready {server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


async def call(port: int, authority: str, version: str, count: int, closer: str, sizes: list[int]) -> None:
    context = pinned(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), version)
    context.load_verify_locations(authority)
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
        for size in sizes:
            writer.write(content(size))
            await writer.drain()
            assert await reader.readexactly(size) == content(size), f"wrong answer to {size} bytes"
        if closer == "server":
            assert await reader.read() == b"", "data after the last answer"
        writer.close()
        await writer.wait_closed()
    print("ok")


def factory(loop: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if loop == "uvloop":
        import uvloop

        return uvloop.new_event_loop
    if loop == "oneloop":
        sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))
        import oneloop

        return oneloop.new_event_loop
    return asyncio.SelectorEventLoop


def main() -> None:
    loop, role, *rest = sys.argv[1:]
    if role == "server":
        pem, version, limit = rest
        work = serve(pem, version, int(limit))
    else:
        port, authority, version, count, closer, *sizes = rest
        work = call(int(port), authority, version, int(count), closer, [int(size) for size in sizes])
    with asyncio.Runner(loop_factory=factory(loop)) as runner:
        runner.run(work)


if __name__ == "__main__":
    main()
