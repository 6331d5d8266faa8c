"""Faults of the standard library's subprocess transport that older patch releases have, and this loop has not.

Public reports, written anew: python/cpython#125502 and #133536 (a cancelled start never ends), #119710 (`wait()` waits
for a grandchild that has a pipe), #103847 (pipes of a cancelled start stay open), #127049 and #87744 (a signal to a
child that has ended costs its status). The audit after each test looks for children, descriptors and tasks that are
left.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conftest import settle

pytestmark = pytest.mark.oneloop_only("stock asyncio has the faults of its patch release")

PIPE = subprocess.PIPE
PIPES: dict[str, dict[str, Any]] = {
    "no pipes": {"stdin": subprocess.DEVNULL},
    "stdout": {"stdin": subprocess.DEVNULL, "stdout": PIPE},
    "all pipes": {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE},
}


@pytest.fixture
def with_grandchild() -> Iterator[tuple[list[str], int]]:
    """A command whose own child keeps the pipes until the end of the test, and a descriptor that the command needs."""
    reader, writer = os.pipe()
    yield ["sh", "-c", f"cat <&{reader} & exec sleep 1000"], reader
    os.close(reader)
    os.close(writer)


def wait_for_end(pid: int) -> None:
    """Block until the child has ended. Its status stays there for the loop."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize("ticks", range(9))
@pytest.mark.parametrize("pipes", PIPES.values(), ids=PIPES)
async def test_everything_is_cancelled_while_a_child_starts(
    loop: asyncio.AbstractEventLoop, with_grandchild: tuple[list[str], int], pipes: dict[str, Any], ticks: int
) -> None:
    """As at the end of `asyncio.run`: the task that connects the pipes is cancelled too."""
    command, reader = with_grandchild
    before = asyncio.all_tasks()
    starting = asyncio.ensure_future(asyncio.create_subprocess_exec(*command, pass_fds=[reader], **pipes))
    await settle(ticks)
    for task in asyncio.all_tasks() - before:
        task.cancel()
    await asyncio.wait([starting])
    if not starting.cancelled():
        process = starting.result()
        process._transport.close()  # type: ignore[attr-defined]
        await process.wait()
    # The transports of the pipes have ended.
    await settle(5)


async def test_wait_does_not_wait_for_a_grandchild(
    loop: asyncio.AbstractEventLoop, with_grandchild: tuple[list[str], int]
) -> None:
    command, reader = with_grandchild
    process = await asyncio.create_subprocess_exec(*command, pass_fds=[reader], stdout=PIPE)
    process.kill()
    assert await process.wait() == -9
    process._transport.close()  # type: ignore[attr-defined]
    await settle(5)


ASKING: dict[str, Callable[[Any], object]] = {
    "send_signal": lambda transport: transport.send_signal(15),
    "terminate": lambda transport: transport.terminate(),
    "kill": lambda transport: transport.kill(),
    "close": lambda transport: transport.close(),
    "poll": lambda transport: transport.get_extra_info("subprocess").poll(),
}


@pytest.mark.parametrize("ask", ASKING.values(), ids=ASKING)
async def test_the_status_of_a_child_that_has_just_ended(
    loop: asyncio.AbstractEventLoop, ask: Callable[[Any], object]
) -> None:
    reader, writer = os.pipe()
    process = await asyncio.create_subprocess_exec("sh", "-c", "read line; exit 3", stdin=reader)
    os.close(reader)
    os.close(writer)
    wait_for_end(process.pid)
    ask(process._transport)  # type: ignore[attr-defined]
    assert await process.wait() == 3
    await settle(5)


@pytest.mark.parametrize("failing", ["connect_write_pipe", "connect_read_pipe"])
async def test_pipes_that_cannot_be_connected_are_closed(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    async def fail(*_: object) -> None:
        raise OSError("no memory")

    monkeypatch.setattr(type(loop), failing, fail)
    with pytest.raises(OSError, match="no memory"):
        await asyncio.create_subprocess_exec("cat", **PIPES["all pipes"])
    await settle(5)


def test_no_child_is_left_for_nobody(loop: asyncio.AbstractEventLoop) -> None:
    """One that ended after the loop's last tick."""
    reader, writer = os.pipe()
    process = loop.run_until_complete(asyncio.create_subprocess_exec("cat", stdin=reader))
    os.close(reader)
    os.close(writer)
    wait_for_end(process.pid)
    process._transport.close()  # type: ignore[attr-defined]
    loop.close()
    with pytest.raises(ChildProcessError):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)


def test_no_child_is_left_without_pidfds(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends after its loop was closed: the thread that waits for it collects its status."""

    def refuse(*_: object) -> int:
        raise PermissionError("no pidfds")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    reader, writer = os.pipe()
    before = set(threading.enumerate())
    process = loop.run_until_complete(asyncio.create_subprocess_exec("cat", stdin=reader))
    (waiting,) = set(threading.enumerate()) - before
    loop.close()
    os.close(reader)
    os.close(writer)
    waiting.join()
    with pytest.raises(ChildProcessError):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    process._transport.close()  # type: ignore[attr-defined]
