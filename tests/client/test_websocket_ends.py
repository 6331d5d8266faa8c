"""WebSockets that one closes while another waits for messages, and servers that do not read."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import suppress
from typing import Any

import pytest

import oneloop
from oneloop.http import AsyncClient, Client, Timeout, WebSocketDisconnect, WriteTimeout
from tests.client.servers import Peer, RawServer
from tests.client.test_websockets import client_frame, upgrade


def echo_close(peer: Peer) -> None:
    """Sends back what comes, the close frame included."""
    upgrade(peer)
    while True:
        opcode, payload = client_frame(peer)
        peer.send(bytes([0x80 | opcode, len(payload)]) + payload)
        if opcode == 8:
            return


def silent(peer: Peer) -> None:
    """Responses nothing but the handshake."""
    upgrade(peer)
    peer.wait_for_end()


async def messages(socket: Any) -> list[Any]:
    return [message async for message in socket]


async def test_one_closes_while_another_waits() -> None:
    with RawServer(echo_close) as server:
        async with AsyncClient() as client, client.websocket(server.url) as socket:
            reader = asyncio.ensure_future(messages(socket))
            await socket.send("text")
            await asyncio.sleep(0.02)
            await asyncio.wait_for(socket.close(), 60)
            assert await asyncio.wait_for(reader, 60) == ["text"]
            assert socket.close_code == 1000


async def test_the_end_of_the_block_while_a_task_waits() -> None:
    with RawServer(echo_close) as server:
        async with AsyncClient() as client:
            async with client.websocket(server.url) as socket:
                reader = asyncio.ensure_future(messages(socket))
                await asyncio.sleep(0.02)
            assert await asyncio.wait_for(reader, 60) == []
            assert client.statistics()["open"] == 0


async def test_who_waits_is_cancelled_while_another_closes() -> None:
    with RawServer(silent) as server:
        async with AsyncClient() as client, client.websocket(server.url) as socket:
            reader = asyncio.ensure_future(socket.receive())
            await asyncio.sleep(0.02)
            closing = asyncio.ensure_future(socket.close())
            await asyncio.sleep(0.02)
            reader.cancel()
            # Not the ten seconds that a silent server is waited for.
            await asyncio.wait_for(closing, 9)


@pytest.mark.parametrize("is_closed", [True, False])
async def test_what_came_before_a_send_that_fails(is_closed: bool) -> None:
    """The last message, and why the server has closed it."""

    def serve(peer: Peer) -> None:
        upgrade(peer)
        peer.send(b"\x81\x05quota")
        if is_closed:
            peer.send(b"\x88\x02\x0f\xa8")
        peer.reset() if not is_closed else peer.end()

    with RawServer(serve) as server:
        async with AsyncClient() as client, client.websocket(server.url) as socket:
            with pytest.raises(WebSocketDisconnect):
                while True:
                    await socket.send("x")
                    await asyncio.sleep(0.001)
            with pytest.raises(WebSocketDisconnect):
                await socket.ping()
            assert await socket.receive() == "quota"
            with pytest.raises(WebSocketDisconnect) as end:
                await socket.receive()
            assert end.value.code == (4008 if is_closed else 1006)


async def test_the_heart_beats_while_nobody_receives() -> None:
    """The responses to its pings wait with what the program has not received yet."""

    def serve(peer: Peer) -> None:
        upgrade(peer)
        while True:
            opcode, payload = client_frame(peer)
            peer.send(bytes([0x80 | (10 if opcode == 9 else opcode), len(payload)]) + payload)
            if opcode == 8:
                return

    with RawServer(serve) as server:
        async with AsyncClient() as client, client.websocket(server.url, heartbeat=3600) as socket:
            socket._beat()
            while not socket._exchange.has_received:
                await asyncio.sleep(0.001)
            socket._beat()
            await socket.send("alive")
            assert await socket.receive() == "alive"


async def test_a_given_up_block_wakes_who_waits() -> None:
    with RawServer(silent) as server:
        async with AsyncClient() as client:
            reader: Any = None
            with pytest.raises(asyncio.CancelledError):
                async with client.websocket(server.url) as socket:
                    reader = asyncio.ensure_future(socket.receive())
                    await asyncio.sleep(0.02)
                    raise asyncio.CancelledError
            with pytest.raises(WebSocketDisconnect) as end:
                await asyncio.wait_for(reader, 60)
            assert end.value.code == 1006


async def test_who_asks_while_another_closes_is_told() -> None:
    response = threading.Event()

    def serve(peer: Peer) -> None:
        upgrade(peer)
        client_frame(peer)
        response.wait(60)
        peer.send(b"\x88\x02\x03\xe8")

    with RawServer(serve) as server:
        async with AsyncClient() as client, client.websocket(server.url) as socket:
            closing = asyncio.ensure_future(socket.close())
            await asyncio.sleep(0.02)
            reader = asyncio.ensure_future(socket.receive())
            await asyncio.sleep(0.02)
            response.set()
            with pytest.raises(WebSocketDisconnect) as end:
                await asyncio.wait_for(reader, 60)
            await asyncio.wait_for(closing, 60)
            assert end.value.code == 1000


def test_green_threads_close_while_another_waits() -> None:
    from oneloop.green import sleep, spawn

    def talk(url: str) -> Any:
        with Client() as client, client.websocket(url) as socket:
            reader = spawn(list, socket)
            socket.send("text")
            sleep(0.02)
            socket.close()
            return reader.get(timeout=60)

    async def main(url: str) -> Any:
        return await asyncio.get_running_loop().run_green(talk, url)  # type: ignore[attr-defined]

    with RawServer(echo_close) as server:
        assert oneloop.run(main(server.url)) == ["text"]


async def test_pongs_to_a_server_that_does_not_read_are_bounded() -> None:
    """And it gets the last one when it reads again."""
    count, payload = 60_000, 125
    may_read = threading.Event()
    pongs: list[bytes] = []

    def serve(peer: Peer) -> None:
        upgrade(peer)
        ping = b"\x89" + bytes([payload]) + bytes(payload - 6)
        for block in range(0, count, 100):
            peer.send(b"".join(ping + b"%06d" % number for number in range(block, block + 100)))
        peer.send(b"\x81\x03end")
        may_read.wait(60)
        while not pongs or pongs[-1][-6:] != b"%06d" % (count - 1):
            pongs.append(client_frame(peer)[1])

    with RawServer(serve) as server:
        async with AsyncClient() as client, client.websocket(server.url) as socket:
            assert await socket.receive() == "end"
            held = socket._exchange.transport.get_write_buffer_size()
            assert held < 200_000
            waiting = asyncio.ensure_future(socket.receive())
            may_read.set()
            with pytest.raises(WebSocketDisconnect):
                await asyncio.wait_for(waiting, 60)
    assert pongs[-1][-6:] == b"%06d" % (count - 1)
    assert len(pongs) < count


async def test_who_was_woken_and_cancelled_takes_no_other_ones_place() -> None:
    with RawServer(silent) as server:
        async with AsyncClient() as client, client.websocket(server.url) as socket:
            exchange = socket._exchange
            first = asyncio.ensure_future(exchange.received())
            await asyncio.sleep(0)
            exchange.protocol.data_received(b"one")
            # Woken, and cancelled before it runs.
            first.cancel()
            assert await exchange.received() == b"one"
            asyncio.get_running_loop().call_later(0.02, exchange.protocol.data_received, b"two")
            assert await asyncio.wait_for(exchange.received(), 60) == b"two"
            assert first.cancelled()


async def test_who_was_cancelled_while_sending_leaves_nothing() -> None:
    is_over = threading.Event()

    def serve(peer: Peer) -> None:
        upgrade(peer)
        assert is_over.wait(60)

    def futures() -> int:
        return sum(type(found) is asyncio.Future for found in gc.get_objects())

    with RawServer(serve) as server:
        async with AsyncClient(timeout=None) as client:
            with suppress(WebSocketDisconnect):
                async with client.websocket(server.url) as socket:
                    filling = asyncio.ensure_future(socket.send(bytes(16 << 20)))
                    await asyncio.sleep(0)
                    before = futures()
                    for _ in range(50):
                        with pytest.raises(TimeoutError):
                            await asyncio.wait_for(socket.send(b"more"), 0)
                        sending = asyncio.ensure_future(socket.send(b"more"))
                        await asyncio.sleep(0)
                        sending.cancel()
                        await asyncio.wait([sending])
                    assert futures() < before + 10
                    filling.cancel()
                    socket._drop()
            is_over.set()


async def test_a_websocket_may_stay_open_for_longer_than_its_handshake_may_take() -> None:
    """A server that stops reading is late with reading, and not with the whole request."""
    is_over = threading.Event()

    def serve(peer: Peer) -> None:
        upgrade(peer)
        assert is_over.wait(60)

    timeout = Timeout(60, write=0.2, total=1)
    with RawServer(serve) as server:
        async with AsyncClient() as client, client.websocket(server.url, timeout=timeout) as socket:
            reader = asyncio.ensure_future(socket.receive())
            await asyncio.sleep(1.1)
            with pytest.raises(WebSocketDisconnect):
                await asyncio.wait_for(socket.send(bytes(16 << 20)), 60)
            with pytest.raises(WebSocketDisconnect) as end:
                await asyncio.wait_for(reader, 60)
            assert isinstance(end.value.__cause__, WriteTimeout)
            is_over.set()


def closes_late(peer: Peer) -> None:
    """Answers the close frame after several heartbeats, and says what came behind it."""
    upgrade(peer)
    while client_frame(peer)[0] != 8:
        pass
    peer.sock.settimeout(0.5)
    with suppress(TimeoutError):
        peer.send(b"\x88\x02\x03\xf3" if peer.sock.recv(1) else b"")
    peer.sock.settimeout(60)
    peer.send(b"\x88\x02\x03\xe8")


def test_no_heartbeat_follows_the_close_frame() -> None:
    async def main(url: str) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: reports.append(told))
        async with AsyncClient() as client, client.websocket(url, heartbeat=0.1) as socket:
            await socket.send("text")
        assert socket.close_code == 1000

    reports: list[Any] = []
    with RawServer(closes_late) as server:
        with Client() as client, client.websocket(server.url, heartbeat=0.1) as socket:
            socket.send("text")
        assert socket.close_code == 1000
        oneloop.run(main(server.url))
    assert reports == []
