"""What docs/reference/differences-from-asyncio.md says, each with both sides where both can be shown.

Differences that other tests show already are not repeated: timers in tests/loop/test_timers.py, fork in
tests/loop/test_fork.py, the system calls of writes in tests/loop/test_system_calls.py.
"""

from __future__ import annotations

import asyncio
import inspect
import socket
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import oneloop
from tests.conftest import settle

Make = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


class Recorder(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data


def both(main: Callable[[], Any]) -> tuple[Any, Any]:
    """What a coroutine function returns on asyncio's loop and on ours."""
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        theirs = runner.run(main())
    return theirs, oneloop.run(main())


def test_handles_are_ours_and_look_like_asyncios() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        handle, timer = loop.call_soon(print), loop.call_later(1, print)
        kinds: tuple[type, type] = (type(handle), type(timer))
        assert kinds == (oneloop.Handle, oneloop.TimerHandle)
        assert isinstance(handle, asyncio.Handle)
        assert isinstance(timer, asyncio.TimerHandle)
        handle.cancel()
        timer.cancel()
        loop.set_debug(True)
        stock = loop.call_soon(print)
        assert type(stock) is asyncio.Handle
        stock.cancel()
        loop.set_debug(False)

    oneloop.run(main())


def test_handles_let_go_of_what_has_run() -> None:
    async def main() -> bool:
        class Thing:
            def __call__(self) -> None:
                pass

        thing = Thing()
        alive = weakref.ref(thing)
        handle = asyncio.get_running_loop().call_soon(thing)
        del thing
        await settle()
        assert not handle.cancelled()
        return alive() is not None

    assert both(main) == (True, False)


def test_replaced_time_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = oneloop.new_event_loop()
    monkeypatch.setattr(loop, "time", lambda: 0.0)
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    loop.close()


def test_the_second_write_of_a_callback_may_wait_for_its_end(pair: tuple[socket.socket, socket.socket]) -> None:
    """Whoever is interrupted for 50 us sends it at once, as asyncio does: one turn of twenty that shows it will do."""
    ours, theirs = pair

    async def main() -> tuple[set[bytes], bytes]:
        transport, _ = await asyncio.get_running_loop().create_connection(Recorder, sock=ours.dup())
        within, after = set(), b""
        for _ in range(20):
            transport.write(b"head")
            transport.write(b"body")
            first = theirs.recv(100)
            within.add(first)
            await settle()
            after += first if first == b"headbody" else first + theirs.recv(100)
        transport.close()
        await settle()
        return within, after

    stock, native = both(main)
    assert stock == ({b"headbody"}, b"headbody" * 20)
    assert native[1] == b"headbody" * 20
    assert b"head" in native[0] <= {b"head", b"headbody"}


@pytest.mark.parametrize("ask", ["get_write_buffer_size", "is_closing"])
def test_asking_the_transport_sends_what_waits(pair: tuple[socket.socket, socket.socket], ask: str) -> None:
    ours, theirs = pair

    async def main() -> bytes:
        transport, _ = await asyncio.get_running_loop().create_connection(Recorder, sock=ours.dup())
        transport.write(b"head")
        transport.write(b"body")
        assert not getattr(transport, ask)()
        received = theirs.recv(100)
        transport.close()
        await settle()
        return received

    assert both(main) == (b"headbody", b"headbody")


def test_large_writes_leave_at_once(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair

    async def main() -> bytes:
        transport, _ = await asyncio.get_running_loop().create_connection(Recorder, sock=ours.dup())
        transport.write(bytes(64 * 1024))
        received = theirs.recv(10)
        transport.abort()
        await settle()
        while theirs.recv(1 << 20):
            break
        return received

    assert oneloop.run(main()) == bytes(10)


def test_socket_closed_behind_the_transport_is_noticed(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair

    async def main() -> None:
        class Lost(asyncio.Protocol):
            error: BaseException | None = None

            def connection_lost(self, exc: BaseException | None) -> None:
                self.error = exc

        copy = ours.dup()
        transport, protocol = await asyncio.get_running_loop().create_connection(Lost, sock=copy)
        copy.close()
        # The number may be this pair's now: nothing may arrive there.
        one, other = socket.socketpair()
        with one, other:
            one.setblocking(False)
            other.setblocking(False)
            transport.write(b"for nobody")
            await settle()
            for end in (one, other, theirs):
                with pytest.raises(BlockingIOError):
                    end.recv(100)
        assert isinstance(protocol.error, OSError)

    oneloop.run(main())


def test_socket_operations_are_awaitable_objects(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair

    async def main() -> None:
        loop = asyncio.get_running_loop()
        operation = loop.sock_recv(ours, 10)
        assert asyncio.iscoroutine(operation)
        assert not inspect.iscoroutine(operation)
        task = loop.create_task(operation)
        await settle()
        theirs.send(b"hello")
        assert await task == b"hello"
        # Dropped without a word, where a coroutine would warn.
        del operation
        loop.sock_recv(ours, 10)  # type: ignore[unused-coroutine]
        with pytest.raises(TypeError):
            loop.sock_recv(ours, "ten")  # type: ignore[arg-type, unused-coroutine]

    oneloop.run(main())


def test_socket_operations_do_not_block_on_blocking_sockets(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    ours.setblocking(True)

    async def main() -> bytes:
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, theirs.send, b"later")
        return await loop.sock_recv(ours, 10)

    assert oneloop.run(main()) == b"later"


def test_several_tasks_wait_on_one_socket(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair

    async def main() -> set[bytes]:
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(loop.sock_recv(ours, 1)) for _ in range(3)]
        await settle()
        theirs.send(b"abc")
        return set(await asyncio.gather(*tasks))

    assert oneloop.run(main()) == {b"a", b"b", b"c"}


def test_sock_recv_into_holds_its_buffer(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair

    async def main() -> bytearray:
        loop = asyncio.get_running_loop()
        buffer = bytearray(5)
        task = loop.create_task(loop.sock_recv_into(ours, buffer))
        await settle()
        with pytest.raises(BufferError):
            buffer.append(0)
        theirs.send(b"hello")
        assert await task == 5
        buffer.append(33)
        return buffer

    assert oneloop.run(main()) == b"hello!"


def test_numeric_addresses_need_no_thread() -> None:
    async def main() -> Any:
        loop = asyncio.get_running_loop()

        def refuse(*_: object) -> None:
            raise AssertionError("no thread is needed")

        loop.run_in_executor = refuse  # type: ignore[assignment, method-assign]
        answers = await loop.getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)
        name = await loop.getnameinfo(("127.0.0.1", 80), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
        return answers[0][4], name

    assert oneloop.run(main()) == (("127.0.0.1", 80), ("127.0.0.1", "80"))
