"""The statistics of asyncio in green threads: `loop.statistics()`, snapshots for `oneloop top`, `--stats`."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

from oneloop import snapshot
from oneloop.green.facade import FacadeLoop
from oneloop.statistics import Statistics
from tests.cli.command import ONELOOP_RUN, run
from tests.conftest import settle

PROGRAM = """
    import asyncio

    async def answer(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def main():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(bytes(1_000_000))
        await reader.readexactly(1_000_000)
        writer.close()
        server.close()

    asyncio.run(main())
"""


def run_on_facade(main: Any) -> tuple[Any, Statistics]:
    loop = FacadeLoop()
    try:
        return loop.run_until_complete(main), loop.statistics()
    finally:
        loop.close()


def test_callbacks_timers_and_events_are_counted() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        loop.call_later(90, print).cancel()  # asyncio removes it when it is the first
        loop.call_later(60, print)
        reader, writer = socket.socketpair()
        with reader, writer:
            reader.setblocking(False)
            loop.call_soon(writer.send, b"12")
            one, other = await loop.sock_recv(reader, 2)
        await settle(100)
        loop.call_soon(print).cancel()
        await asyncio.sleep(0.001)
        return one + other

    result, found = run_on_facade(main())
    assert result == ord("1") + ord("2")
    assert 100 <= found.callbacks < 130
    assert 100 <= found.ticks <= found.polls + 1
    assert found.events >= 1
    assert (found.timers_pending, found.timers_cancelled) == (1, 1)
    assert 0 < found.longest_callback_s <= found.longest_tick_s
    assert found.loop_lag_s > 0


def test_the_longest_callback_is_named() -> None:
    def slow() -> None:
        time.sleep(0.3)

    async def main() -> None:
        asyncio.get_running_loop().call_soon(slow)
        await asyncio.sleep(0)

    _, found = run_on_facade(main())
    assert found.longest_callback_name.endswith("test_the_longest_callback_is_named.<locals>.slow")
    assert found.longest_callback_s >= 0.3

    async def slow_task() -> None:
        slow()

    async def with_task() -> None:
        await asyncio.create_task(slow_task(), name="the task")

    _, found = run_on_facade(with_task())
    assert found.longest_callback_name.endswith("slow_task (the task)")


def test_a_callback_that_raises_ends() -> None:
    loop = FacadeLoop()
    loop.call_soon(loop.stop)

    def fail() -> None:
        raise KeyboardInterrupt

    loop.call_soon(fail)
    try:
        loop.run_forever()
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError
    assert loop._activity()[0] is None
    assert loop.statistics().ticks == 1
    loop.close()


def test_a_snapshot_shows_the_loop_while_it_runs() -> None:
    async def main() -> dict[str, Any]:
        loops = snapshot.take()["loops"]
        return next(one for one in loops if one["thread"] == "MainThread" and one["busy_s"] is not None)

    found, _ = run_on_facade(main())
    assert found["state"] == "busy"
    assert "main" in found["busy_with"]
    assert found["callbacks"] == 1
    assert found["file_engine"] is None


def test_a_patched_program_has_a_column(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(dedent(PROGRAM))
    done = run(*ONELOOP_RUN, "--patch", "--stats", "program.py", cwd=tmp_path)
    assert done.returncode == 0
    callbacks = re.search(r"^callbacks +(.*)$", done.stderr, re.MULTILINE)
    assert callbacks is not None
    assert max(int(cell.replace(",", "")) for cell in callbacks[1].split()) > 20
