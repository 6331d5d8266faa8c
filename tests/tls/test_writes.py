"""What is written arrives, whole and in order: pieces of all sizes, buffers that change, writers in other places."""

from __future__ import annotations

import asyncio
import io
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.protocols import Echo, Recorder
from tests.tls.authority import HOST, Authority
from tests.tls.endpoint import connected, facing, settled
from tests.tls.peers.content import content

RECORD = 16_384


async def test_sizes_around_a_record_in_one_callback(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str
) -> None:
    sizes = [1, 2, RECORD - 1, RECORD, RECORD + 1, 3, 2 * RECORD, 2 * RECORD + 1, 100_000, 1, 1, 0, 5]
    async with facing(authority, version=version) as (transport, _, endpoint):
        expected = b""
        for number, size in enumerate(sizes):
            piece = bytes([65 + number]) * size
            transport.write(piece)
            expected += piece
        assert await endpoint.receive(len(expected)) == expected


@pytest.mark.parametrize("seed", range(5))
async def test_pieces_of_random_sizes_and_kinds(
    loop: asyncio.AbstractEventLoop, authority: Authority, seed: int
) -> None:
    chance = random.Random(seed)
    kinds: list[Any] = [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(data))]
    async with connected(authority) as (transport, _, _, protocol):
        expected = b""
        for _ in range(60):
            pieces = [content(chance.choice([1, 10, 1000, RECORD, 40_000]))[::-1] for _ in range(chance.randrange(8))]
            made = [chance.choice(kinds)(piece) for piece in pieces]
            if chance.random() < 0.5:
                transport.writelines(made)
            else:
                for piece in made:
                    transport.write(piece)
            expected += b"".join(pieces)
            if chance.random() < 0.3:
                await asyncio.sleep(0)
        assert await protocol.wait_received(len(expected)) == expected


@pytest.mark.oneloop_only("asyncio takes no iterator, and reads the length of a view in items, not in bytes")
async def test_writelines_of_all_kinds(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    async with facing(authority) as (transport, _, endpoint):
        transport.writelines([])
        transport.writelines(iter([b"a", bytearray(b"b"), memoryview(b"c"), b""]))
        transport.writelines((b"d" * 40_000, b"e"))
        assert await endpoint.receive(40_004) == b"abc" + b"d" * 40_000 + b"e"


async def test_writelines(loop: asyncio.AbstractEventLoop, authority: Authority, version: str) -> None:
    async with facing(authority, version=version) as (transport, _, endpoint):
        transport.writelines([b"%05d" % number for number in range(10_000)])
        assert await endpoint.receive(50_000) == b"".join(b"%05d" % number for number in range(10_000))


@pytest.mark.parametrize("kind", [bytearray, lambda data: memoryview(bytearray(data))], ids=["bytearray", "view"])
@pytest.mark.parametrize("size", [10, 5_000_000])
async def test_a_buffer_that_changes_after_its_write(
    loop: asyncio.AbstractEventLoop, authority: Authority, kind: Any, size: int
) -> None:
    """A write takes the bytes as they are: the buffer is the program's again when it returns."""
    async with facing(authority) as (transport, _, endpoint):
        data = kind(content(size))
        transport.write(data)
        data[:] = bytes(size)
        if kind is bytearray:
            data.clear()
        assert await endpoint.receive(size) == content(size)


async def test_what_is_not_bytes(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    async with facing(authority) as (transport, _, endpoint):
        for wrong in ("text", 5, None, [b"x"]):
            with pytest.raises(TypeError):
                transport.write(wrong)
        transport.write(b"on")
        assert await endpoint.receive(2) == b"on"


async def test_writes_before_and_after_others_in_data_received(
    loop: asyncio.AbstractEventLoop, authority: Authority
) -> None:
    """Answers written in a callback, in what it schedules, and in a task keep their order."""

    class Answers(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.transport.write(b"1")
            loop.call_soon(self.transport.write, b"3")
            self.transport.write(b"2")
            loop.call_soon(self.transport.writelines, [b"4", b"5"])

    async with facing(authority, Answers) as (_, _, endpoint):
        for _ in range(20):
            await endpoint.send(b"?")
            assert await endpoint.receive(5) == b"12345"


async def test_from_another_thread(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    async with facing(authority) as (transport, _, endpoint):

        def work() -> None:
            for number in range(1000):
                loop.call_soon_threadsafe(transport.write, b"%06d" % number)

        thread = threading.Thread(target=work)
        thread.start()
        assert await endpoint.receive(6000) == b"".join(b"%06d" % number for number in range(1000))
        await asyncio.to_thread(thread.join)


@pytest.mark.oneloop_only("stock asyncio has no green threads")
async def test_from_a_green_thread(loop: Any, authority: Authority) -> None:
    from oneloop import green

    async with facing(authority) as (transport, _, endpoint):

        def work() -> None:
            for number in range(100):
                transport.write(b"%06d" % number)
                green.sleep(0)

        writing = loop.create_task(loop.run_green(work))
        assert await endpoint.receive(600) == b"".join(b"%06d" % number for number in range(100))
        await writing


async def test_a_file(loop: asyncio.AbstractEventLoop, authority: Authority, tmp_path: Path) -> None:
    """By the fallback, between writes; without the fallback it is refused."""
    path = tmp_path / "file"
    path.write_bytes(content(1_000_000))
    async with connected(authority) as (transport, _, _, protocol):
        with path.open("rb") as file:
            with pytest.raises(RuntimeError, match="fallback is disabled and native sendfile is not supported"):
                await loop.sendfile(transport, file, fallback=False)
            transport.write(b"before ")
            assert await loop.sendfile(transport, file, 10, 900_000) == 900_000
            assert file.tell() == 900_010
            transport.write(b" after")
        expected = b"before " + content(1_000_000)[10:900_010] + b" after"
        assert await protocol.wait_received(len(expected)) == expected


async def test_what_only_looks_like_a_file(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    async with connected(authority) as (transport, _, _, protocol):
        assert await loop.sendfile(transport, io.BytesIO(content(300_000))) == 300_000
        assert await protocol.wait_received(300_000) == content(300_000)


async def test_unix_sockets(
    loop: asyncio.AbstractEventLoop, authority: Authority, version: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "socket")
    server = await loop.create_unix_server(Echo, path, ssl=authority.server_context(version))
    transport, protocol = await loop.create_unix_connection(
        Recorder, path, ssl=authority.client_context(version), server_hostname=HOST
    )
    transport.write(content(1_000_000))
    assert await protocol.wait_received(1_000_000) == content(1_000_000)
    reader, writer = await asyncio.open_unix_connection(
        path, ssl=authority.client_context(version), server_hostname=HOST
    )
    writer.write(b"streams\n")
    assert await reader.readline() == b"streams\n"
    writer.close()
    await writer.wait_closed()
    transport.close()
    await protocol.wait_lost()
    server.close()
    await server.wait_closed()
    await settled()


@pytest.mark.parametrize("depth", [2, 3])
async def test_tls_in_tls(loop: asyncio.AbstractEventLoop, authority: Authority, version: str, depth: int) -> None:
    """Each layer is a transport for the next; the innermost carries the data, and its end ends them all."""
    async with connected(authority, version=version) as (outer, _, accepted, _):
        client, server = Recorder(), Recorder()
        below: tuple[Any, Any] = (outer, accepted)
        for _ in range(depth - 1):
            below = await asyncio.gather(
                loop.start_tls(below[0], client, authority.client_context(version), server_hostname=HOST),
                loop.start_tls(below[1], server, authority.server_context(version), server_side=True),
            )
        inside, opposite = below
        inside.write(content(500_000))
        assert await server.wait_received(500_000) == content(500_000)
        opposite.write(content(500_000))
        assert await client.wait_received(500_000) == content(500_000)
        assert inside.get_extra_info("ssl_object") is not outer.get_extra_info("ssl_object")
        assert inside.get_extra_info("peername") == outer.get_extra_info("peername")
        inside.close()
        for protocol in (client, server):
            assert await protocol.wait_lost() is None
        await settled(20)
        assert outer.is_closing()
        assert accepted.is_closing()
