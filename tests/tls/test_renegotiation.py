"""Writes in the middle of a renegotiation, when the library takes nothing, or a part, before the peer has spoken."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from tests.tls.authority import Authority
from tests.tls.endpoint import facing, settled


class Renegotiating(ssl.SSLObject):
    """Takes `room` more bytes of text, all of them where that is None; then it wants to read first."""

    room: int | None = None

    def write(self, data: Any) -> int:
        if self.room is None:
            return super().write(data)
        if not self.room:
            raise ssl.SSLWantReadError
        taken = super().write(data[: self.room])
        self.room -= taken
        return taken


@pytest.mark.parametrize("room", [0, 1000, 40_000])
@pytest.mark.parametrize("sizes", [(3,), (100_000,), (5, 100_000, 7), (20_000, 20_000)], ids=str)
async def test_what_is_not_taken_leaves_after_the_peer_has_spoken(
    loop: asyncio.AbstractEventLoop, authority: Authority, room: int, sizes: tuple[int, ...]
) -> None:
    """Every byte once and in order, with no further call of the program's."""
    context = authority.server_context()
    context.sslobject_class = Renegotiating
    async with facing(authority, ssl=context) as (transport, _protocol, endpoint):
        library = transport.get_extra_info("ssl_object")
        pieces = [bytes(number % 251 + step for number in range(size)) for step, size in enumerate(sizes)]
        library.room = room
        for piece in pieces:
            transport.write(piece)
        await settled()
        assert transport.get_write_buffer_size() == max(0, sum(sizes) - room)
        library.room = None
        await endpoint.send(b"!")
        assert await endpoint.receive(sum(sizes)) == b"".join(pieces)
        assert transport.get_write_buffer_size() == 0


async def test_closing_in_the_middle(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """The connection ends, whether or not what was kept could leave."""
    context = authority.server_context()
    context.sslobject_class = Renegotiating
    async with facing(authority, ssl=context) as (transport, protocol, endpoint):
        transport.get_extra_info("ssl_object").room = 2
        transport.write(b"text")
        transport.close()
        assert await endpoint.receive_all() == b"te"
        await endpoint.say_goodbye()
        assert await protocol.wait_lost() is None


async def test_marks_count_what_is_kept(loop: asyncio.AbstractEventLoop, authority: Authority) -> None:
    """From the high mark on the program is paused, from the low mark down it goes on: unlike a plain transport's."""
    context = authority.server_context()
    context.sslobject_class = Renegotiating
    async with facing(authority, ssl=context) as (transport, protocol, endpoint):
        library = transport.get_extra_info("ssl_object")
        transport.set_write_buffer_limits(high=10, low=4)
        library.room = 0
        transport.write(b"x" * 9)
        assert "pause_writing" not in protocol.calls
        transport.write(b"x")
        assert transport.get_write_buffer_size() == 10
        assert protocol.calls.count("pause_writing") == 1
        library.room = 5
        await endpoint.send(b"!")
        assert await endpoint.receive(5) == b"xxxxx"
        await settled()
        assert "resume_writing" not in protocol.calls
        library.room = 1
        await endpoint.send(b"!")
        assert await endpoint.receive(1) == b"x"
        await settled()
        assert protocol.calls.count("resume_writing") == 1
