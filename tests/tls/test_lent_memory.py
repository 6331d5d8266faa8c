"""Memory that is lent to the library for one call, and to nobody else; two loops of two threads at once."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests import programs
from tests.loops import LoopFactory
from tests.protocols import Echo, Recorder
from tests.tls.authority import Authority
from tests.tls.endpoint import connected

ROUNDS = 100
BLOCK = 30_000
# A library that keeps what it is lent, in the place of `ssl.MemoryBIO`.
KEEPING = """
import ssl

class Keeping:
    def __init__(self):
        self.bio = stock()

    def write(self, data):
        lent.append({kept})
        return self.bio.write(data)

    def __getattr__(self, name):
        return getattr(self.bio, name)

class Context(ssl.SSLContext):
    def wrap_bio(self, incoming, outgoing, **options):
        return super().wrap_bio(incoming.bio, outgoing.bio, **options)

lent = []
stock = ssl.MemoryBIO
ssl.MemoryBIO = Keeping

async def main():
    ours, theirs = socket.socketpair()
    theirs.send(b"no handshake")
    theirs.close()
    try:
        await loop.connect_accepted_socket(asyncio.Protocol, ours, ssl=Context(ssl.PROTOCOL_TLS_SERVER))
    except OSError:
        pass

loop = new_loop()
loop.run_until_complete(main())
loop.close()
for each in lent:
    try:
        print(bytes(memoryview(each)))
    except BufferError as exc:
        print(exc)
"""


@pytest.mark.oneloop_only("asyncio lends a bytes object")
def test_nothing_is_shown_after_the_call(loop_name: str) -> None:
    """Who keeps the object gets no freed memory from it."""
    assert programs.run_ok(loop_name, KEEPING.format(kept="data")) == "the buffer is only available during the call\n"


@pytest.mark.oneloop_only("asyncio lends a bytes object")
def test_who_keeps_the_memory_itself_ends_the_process(loop_name: str) -> None:
    """There is no other way left: it is about to be freed."""
    done = programs.run(loop_name, KEEPING.format(kept="memoryview(data)"))
    assert done.returncode < 0
    assert "oneloop: a buffer was kept after the call that it was passed to" in done.stderr


@pytest.mark.oneloop_only("asyncio lends a bytes object")
def test_what_is_lent_for_reading_is_read_only(loop_name: str) -> None:
    assert programs.run_ok(loop_name, KEEPING.format(kept="memoryview(data).readonly and b'yes'")) == "b'yes'\n"


def test_loops_of_two_threads(loop_factory: LoopFactory, authority: Authority) -> None:
    """The library lets the other thread run while it encrypts and decrypts."""
    failed: list[BaseException] = []

    async def much() -> None:
        async with connected(authority, Recorder, Echo) as (transport, protocol, _accepted, _echo):
            for number in range(1, ROUNDS + 1):
                transport.write(bytes([number]) * BLOCK)
                received = await protocol.wait_received(number * BLOCK)
                assert received[-BLOCK:] == bytes([number]) * BLOCK
            transport.close()
            assert await protocol.wait_lost() is None

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory) as runner:
                runner.run(much())
        except BaseException as exc:
            failed.append(exc)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
