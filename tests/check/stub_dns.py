"""A resolver for names below .test, over UDP and TCP, that counts the questions per name.

| name | what comes back |
|---|---|
| hN.farm.test, and any other name | one of `ADDRESSES`, TTL 60 |
| nx.test, x.nx.test | NXDOMAIN |
| servfail.test, refused.test | that error |
| silent.test | no answer, ever |
| empty.test | no error, and no record |
| truncated.test | over UDP only that there is more over TCP |
| ttlN.test | TTL N |
| cname.test, cnameloop.test | CNAME to h1.farm.test; to itself |
| rebind.test | `PUBLIC` and 127.0.0.1 in turns, TTL 0 |
| mixed.test | `PUBLIC` and 10.0.0.1 together |
| private.test, metadata.test, loopback.test, public.test | 10.0.0.1, 169.254.169.254, 127.0.0.1, `PUBLIC` |
| v6mapped.test, loopback6.test | AAAA ::ffff:127.0.0.1, ::1 |
| a-10-0-0-1.ip.test, x-00…01.ip.test | the address that the name spells: decimal, or 32 hex digits |

RFC 1035 is what it speaks. Names outside .test are refused.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

A, CNAME, AAAA = 1, 5, 28
NOERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5
TRUNCATED = 0x0200
TTL_S = 60

ADDRESSES = tuple(f"127.0.0.{number}" for number in range(1, 33))
"""Loopback has many: so there are ports enough for 100,000 connections in a minute."""
PUBLIC = "93.184.215.14"
"""Leads to the farm only in a network namespace where every address does (tests/check/namespace.py)."""

CODES = {"nx": NXDOMAIN, "servfail": SERVFAIL, "refused": REFUSED}
FIXED: dict[str, Sequence[str]] = {
    "mixed": (PUBLIC, "10.0.0.1"),
    "private": ("10.0.0.1",),
    "metadata": ("169.254.169.254",),
    "loopback": ("127.0.0.1",),
    "public": (PUBLIC,),
    "v6mapped": ("::ffff:127.0.0.1",),
    "loopback6": ("::1",),
    "empty": (),
}


@dataclass(frozen=True)
class Reply:
    """What is said about a name; None in its place: nothing at all."""

    addresses: Sequence[str] = ()
    code: int = NOERROR
    ttl_s: int = TTL_S
    alias: str = ""
    truncated: bool = False


def spelled(text: str) -> str | None:
    """The address that a label spells."""
    if match := re.fullmatch(r"a-(\d+)-(\d+)-(\d+)-(\d+)", text):
        return ".".join(match.groups())
    if match := re.fullmatch(r"x-([0-9a-f]{32})", text):
        return str(ipaddress.IPv6Address(int(match[1], 16)))
    return None


def address_of(name: str) -> str:
    """The same for the same name."""
    if match := re.match(r"h(\d+)\.", name):
        return ADDRESSES[int(match[1]) % len(ADDRESSES)]
    return ADDRESSES[zlib.crc32(name.encode()) % len(ADDRESSES)]


def name_and_kind(question: bytes) -> tuple[str, int, int]:
    """The first question of a message: the name in lower case, the type, and where the question ends."""
    labels, at = [], 12
    while length := question[at]:
        labels.append(question[at + 1 : at + 1 + length].decode("latin-1").lower())
        at += 1 + length
    (kind,) = struct.unpack_from("!H", question, at + 1)
    return ".".join(labels), kind, at + 5


def encoded(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def message(question: bytes, reply: Reply, kind: int, end: int) -> bytes:
    """The answer to a question, of which the header's flags and the question itself are kept."""
    records = []
    owner = b"\xc0\x0c"
    if reply.alias:
        data = encoded(reply.alias)
        records.append(owner + struct.pack("!HHIH", CNAME, 1, reply.ttl_s, len(data)) + data)
        owner = data
    for text in reply.addresses:
        address = ipaddress.ip_address(text)
        if kind == (A if address.version == 4 else AAAA):
            records.append(owner + struct.pack("!HHIH", kind, 1, reply.ttl_s, len(address.packed)) + address.packed)
    # QR and RA; RD as it was asked.
    flags = 0x8080 | (question[2] & 1) << 8 | reply.code | (TRUNCATED if reply.truncated else 0)
    header = question[:2] + struct.pack("!HHHHH", flags, 1, 0 if reply.truncated else len(records), 0, 0)
    return header + question[12:end] + (b"" if reply.truncated else b"".join(records))


class StubResolver(asyncio.DatagramProtocol):
    """Answers questions; `questions` counts them by name."""

    def __init__(self) -> None:
        self.questions: Counter[str] = Counter()
        self.turn: Counter[str] = Counter()
        self.transport: asyncio.DatagramTransport | None = None

    async def listen(self, host: str) -> int:
        """Serves UDP and TCP on the same port, which it returns."""
        server = await asyncio.start_server(self.serve_tcp, host, 0)
        port = int(server.sockets[0].getsockname()[1])
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, local_addr=(host, port))
        return port

    def reply(self, name: str, kind: int, over_tcp: bool) -> Reply | None:
        """What a name encodes; None says nothing."""
        *rest, first, top = ["", *name.split(".")] if "." in name else ["", "", name]
        if top != "test":
            return Reply(code=REFUSED)
        if first in CODES:
            return Reply(code=CODES[first])
        if first == "silent":
            return None
        if first == "ip":
            found = spelled(rest[-1])
            return Reply([found]) if found else Reply(code=NXDOMAIN)
        if first == "rebind":
            # Both types are asked for at once; the turn is that of each.
            self.turn[f"{name} {kind}"] += 1
            return Reply([PUBLIC if self.turn[f"{name} {kind}"] % 2 else "127.0.0.1"], ttl_s=0)
        if first == "cname":
            return Reply([address_of("h1.farm.test")], alias="h1.farm.test")
        if first == "cnameloop":
            return Reply(alias=name)
        if first == "truncated" and not over_tcp:
            return Reply(truncated=True)
        if match := re.fullmatch(r"ttl(\d+)", first):
            return Reply([address_of(name)], ttl_s=int(match[1]))
        return Reply(FIXED.get(first, [address_of(name)]))

    def answer(self, question: bytes, over_tcp: bool) -> bytes | None:
        """The message to send back, if any."""
        name, kind, end = name_and_kind(question)
        self.questions[name] += 1
        reply = self.reply(name, kind, over_tcp)
        return None if reply is None else message(question, reply, kind, end)

    # -- UDP ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self.transport is not None
        if (answer := self.answer(data, over_tcp=False)) is not None:
            self.transport.sendto(answer, addr)

    # -- TCP ---------------------------------------------------------------------------------------

    async def serve_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Messages that begin with their length (RFC 1035, 4.2.2)."""
        try:
            while True:
                (length,) = struct.unpack("!H", await reader.readexactly(2))
                answer = self.answer(await reader.readexactly(length), over_tcp=True)
                if answer is not None:
                    writer.write(struct.pack("!H", len(answer)) + answer)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """For the tests: the counts as JSON to whoever connects; `clear` forgets them."""
        line = await reader.readline()
        writer.write(json.dumps(self.questions).encode())
        if line.strip() == b"clear":
            self.questions.clear()
        await writer.drain()
        writer.close()
