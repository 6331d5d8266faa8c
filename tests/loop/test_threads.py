"""Loops and threads: made in one and run in another, several at once, closed elsewhere."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.loops import LoopFactory


def in_thread(function: Callable[[], Any]) -> Any:
    """Run in another thread; returns or raises what the function does."""
    outcome: dict[str, Any] = {}

    def target() -> None:
        try:
            outcome["value"] = function()
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=target)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    if "error" in outcome:
        raise outcome["error"]
    return outcome["value"]


async def echo_once(loop: asyncio.AbstractEventLoop, text: bytes) -> bytes:
    ended = asyncio.Event()  # before Python 3.12 the server's wait_closed() does not wait for its connections

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _echo(reader, writer)
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(text)
        received = await reader.readexactly(len(text))
        writer.close()
        await writer.wait_closed()
        await ended.wait()
    return received


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100_000):
        writer.write(data)
        await writer.drain()
    writer.close()
    await writer.wait_closed()


def test_made_here_run_there(loop: asyncio.AbstractEventLoop) -> None:
    assert in_thread(lambda: loop.run_until_complete(echo_once(loop, b"there"))) == b"there"
    assert loop.run_until_complete(echo_once(loop, b"here")) == b"here"
    in_thread(loop.close)
    assert loop.is_closed()


def test_made_and_run_there_closed_here(loop_factory: LoopFactory) -> None:
    def make() -> asyncio.AbstractEventLoop:
        made = loop_factory()
        made.run_until_complete(echo_once(made, b"x"))
        return made

    made = in_thread(make)
    made.close()


def test_run_in_two_threads_at_once(loop: asyncio.AbstractEventLoop) -> None:
    started = threading.Event()
    loop.call_soon(started.set)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    assert started.wait(30)
    try:
        with pytest.raises(RuntimeError, match="already running"):
            loop.run_until_complete(loop.create_future())
        with pytest.raises(RuntimeError, match="Cannot close a running event loop"):
            loop.close()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def test_many_loops_in_many_threads(loop_factory: LoopFactory) -> None:
    def work(number: int) -> bytes:
        text = bytes([number]) * 50_000
        made = loop_factory()
        try:
            for _ in range(5):
                assert made.run_until_complete(echo_once(made, text)) == text
            return text[:1]
        finally:
            made.close()

    results: dict[int, bytes] = {}
    threads = [
        threading.Thread(target=lambda number=number: results.update({number: work(number)}))  # type: ignore[misc]
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {number: bytes([number]) for number in range(8)}


def test_two_loops_in_one_thread_in_turn(loop_factory: LoopFactory) -> None:
    first, second = loop_factory(), loop_factory()
    try:
        for _ in range(3):
            assert first.run_until_complete(echo_once(first, b"first")) == b"first"
            assert second.run_until_complete(echo_once(second, b"second")) == b"second"
    finally:
        first.close()
        second.close()


def test_run_coroutine_threadsafe(loop: asyncio.AbstractEventLoop) -> None:
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        futures = [asyncio.run_coroutine_threadsafe(echo_once(loop, b"x" * size), loop) for size in (1, 100_000)]
        assert [len(future.result(30)) for future in futures] == [1, 100_000]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def test_a_future_of_another_loop_is_refused(loop: asyncio.AbstractEventLoop, loop_factory: LoopFactory) -> None:
    other = loop_factory()
    foreign = other.create_future()

    async def wait() -> None:
        await foreign

    try:
        with pytest.raises(RuntimeError, match="attached to a different loop"):
            loop.run_until_complete(wait())
    finally:
        other.close()


def test_a_descriptor_may_be_watched_by_two_loops(loop_factory: LoopFactory) -> None:
    """Each loop has its own poller: what one is told, the other is told too."""
    first, second = loop_factory(), loop_factory()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"x")
        for each in (first, second):
            each.add_reader(ours, each.stop)
            each.run_forever()
            each.remove_reader(ours)
            each.close()
