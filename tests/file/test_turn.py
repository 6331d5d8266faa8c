"""`Turn`: one at a time, first come, first served, and no turn is ever lost."""

from __future__ import annotations

import asyncio

import pytest

from oneloop.files.turn import Turn
from tests.conftest import settle

# It needs none.
pytestmark = [pytest.mark.usefixtures("loop"), pytest.mark.parametrize("engine", ["threads"], indirect=True)]


async def waiting(turn: Turn, count: int) -> list[asyncio.Task[None]]:
    tasks = [asyncio.ensure_future(turn.wait()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def test_first_come_first_served() -> None:
    turn = Turn()
    turn.is_taken = True
    tasks = await waiting(turn, 3)
    for served in range(3):
        turn.leave()
        await settle(2)
        assert [task.done() for task in tasks] == [number <= served for number in range(3)]
        assert turn.is_taken
    turn.leave()
    assert not turn.is_taken


async def test_a_turn_that_is_given_and_cancelled_in_one_tick_goes_to_the_next() -> None:
    turn = Turn()
    turn.is_taken = True
    first, second = await waiting(turn, 2)
    turn.leave()
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled()
    await asyncio.wait_for(second, 5)
    assert turn.is_taken
    turn.leave()
    assert not turn.is_taken


async def test_a_turn_that_is_given_and_cancelled_in_one_tick_is_free_without_a_next() -> None:
    turn = Turn()
    turn.is_taken = True
    (only,) = await waiting(turn, 1)
    turn.leave()
    only.cancel()
    await asyncio.wait([only])
    assert not turn.is_taken


async def test_who_is_cancelled_while_waiting_is_passed_over() -> None:
    turn = Turn()
    turn.is_taken = True
    first, second, third = await waiting(turn, 3)
    second.cancel()
    await asyncio.wait([second])
    turn.leave()
    await asyncio.wait_for(first, 5)
    turn.leave()
    await asyncio.wait_for(third, 5)
    turn.leave()
    assert not turn.is_taken


async def test_one_that_is_cancelled_before_it_was_given_does_not_hold_it() -> None:
    """Cancelled first and given in the same tick: the turn goes on to who still waits."""
    turn = Turn()
    turn.is_taken = True
    first, second = await waiting(turn, 2)
    first.cancel()
    turn.leave()
    await asyncio.wait_for(second, 5)
    assert first.cancelled()
    turn.leave()
    assert not turn.is_taken
