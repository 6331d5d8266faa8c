"""The server whose URLs are checked: every path returns 200 and a small body after a latency, on many addresses.

`/days/N` is a day of a JSON API; `/links/N` is a page with N links, for programs that cannot read a list.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import resource
import socket
from collections.abc import Iterator
from functools import partial
from typing import cast

from bench.rivals import endpoint, loops

BODY = b"x" * 1000
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s"
PLAIN = ANSWER % (b"text/plain", len(BODY), BODY)


def hosts(count: int) -> Iterator[str]:
    """This number of loopback addresses."""
    for number in range(count):
        yield f"127.{1 + number // 62_500}.{number // 250 % 250}.{1 + number % 250}"


def urls(port: int, host_count: int, count: int) -> Iterator[str]:
    """This number of URLs, alternating between hosts."""
    names = list(hosts(host_count))
    for number in range(count):
        yield f"http://{names[number % host_count]}:{port}/{number}"


class Pages(asyncio.Protocol):
    """The protocol; clients send one request at a time."""

    transport: asyncio.Transport

    def __init__(self, port: int, latency_s: float) -> None:
        self.port, self.latency_s = port, latency_s
        self.head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        endpoint.no_delay(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        self.head += data
        if not self.head.endswith(b"\r\n\r\n"):
            return
        answer = self.answer(self.head.split(b" ", 2)[1].decode())
        self.head = b""
        if self.latency_s:
            asyncio.get_running_loop().call_later(self.latency_s, self.transport.write, answer)
        else:
            self.transport.write(answer)

    def answer(self, target: str) -> bytes:
        kind, _, number = target.strip("/").partition("/")
        if kind == "days":
            body = json.dumps({"day": int(number), "temperature": int(number) % 40 - 10}).encode()
            return ANSWER % (b"application/json", len(body), body)
        if kind == "links":
            links = (f'<a href="{url}">a</a>\n' for url in urls(self.port, 10, int(number)))
            body = "".join(["<!doctype html><title>links</title>\n", *links]).encode()
            return ANSWER % (b"text/html", len(body), body)
        return PLAIN


async def serve(host_count: int, latency_s: float) -> None:
    loop = asyncio.get_running_loop()
    port = 0
    for host in ("127.0.0.1", *hosts(host_count)):
        listener = socket.create_server((host, port), backlog=endpoint.BACKLOG)
        port = port or endpoint.port_of(listener)
        await loop.create_server(partial(Pages, port, latency_s), sock=listener, backlog=endpoint.BACKLOG)
    endpoint.announce_port(port)
    await asyncio.Event().wait()


def fastest_loop() -> str:
    """The server's loop, which is the same for all rivals: uvloop if it is installed."""
    with contextlib.suppress(ImportError):
        loops.factory("uvloop")
        return "uvloop"
    return "asyncio"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds")
    asked = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    endpoint.grow_heap()
    loops.run(serve(asked.hosts, asked.latency), fastest_loop())
