"""loop.statistics(): what each figure counts."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from typing import Any

import pytest

pytestmark = pytest.mark.oneloop_only("stock asyncio has no statistics")

FIELDS = {
    "ticks",
    "callbacks",
    "polls",
    "events",
    "stale_events",
    "timers_pending",
    "open_transports",
    "bytes_in",
    "bytes_out",
    "longest_callback_s",
    "longest_callback_name",
    "loop_lag_s",
}


def test_it_is_a_frozen_dataclass(loop: Any) -> None:
    statistics = loop.statistics()
    assert {field.name for field in dataclasses.fields(statistics)} >= FIELDS
    with pytest.raises(dataclasses.FrozenInstanceError):
        statistics.ticks = 1


def test_callbacks_and_ticks(loop: Any) -> None:
    before = loop.statistics()
    for _ in range(100):
        loop.call_soon(int)
    loop.stop()
    loop.run_forever()
    after = loop.statistics()
    assert after.callbacks - before.callbacks == 100
    assert after.ticks - before.ticks == 1


def test_pending_timers(loop: Any) -> None:
    handles = [loop.call_later(1000, int) for _ in range(10)]
    assert loop.statistics().timers_pending == 10
    for handle in handles[:4]:
        handle.cancel()
    assert loop.statistics().timers_pending == 6
    for handle in handles:
        handle.cancel()
    assert loop.statistics().timers_pending == 0


def test_the_longest_callback_has_a_name(loop: Any) -> None:
    def remarkable() -> None:
        sum(range(200_000))

    loop.call_soon(remarkable)
    loop.stop()
    loop.run_forever()
    statistics = loop.statistics()
    assert "remarkable" in statistics.longest_callback_name
    assert statistics.longest_callback_s > 0
    assert statistics.loop_lag_s >= 0


async def test_bytes_and_transports(loop: Any) -> None:
    received = asyncio.Event()
    total = 300_000

    class Sink(asyncio.Protocol):
        count = 0

        def data_received(self, data: bytes) -> None:
            self.count += len(data)
            if self.count == total:
                received.set()

    ours, theirs = socket.socketpair()
    before = loop.statistics()
    sender, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
    receiver, _ = await loop.create_connection(Sink, sock=theirs)
    assert loop.statistics().open_transports - before.open_transports == 2
    sender.write(bytes(total))
    await received.wait()
    after = loop.statistics()
    assert after.bytes_in - before.bytes_in == total
    assert after.bytes_out - before.bytes_out == total
    assert after.events > before.events
    assert after.polls > before.polls
    sender.close()
    receiver.close()
    for _ in range(5):
        await asyncio.sleep(0)
    assert loop.statistics().open_transports == before.open_transports


def test_a_closed_loop_still_tells(loop: Any) -> None:
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert loop.statistics().callbacks > 0
