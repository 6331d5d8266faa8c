"""Reports about waiting and blocking green threads, and the other functions of `util`."""

from __future__ import annotations

import io
import time
from typing import Any

import greenlet
import pytest

import oneloop
from oneloop import green
from oneloop.green import util
from oneloop.green.event import Event
from oneloop.green.hub import get_hub
from oneloop.green.local import local


def waits_in_here(event: Event) -> None:
    event.wait()


@pytest.fixture
def waiting() -> Any:
    """A green thread that waits and has a `local` value."""
    event = Event()
    kept = local()

    def run() -> None:
        kept.word = "of this green thread"
        waits_in_here(event)

    greenlet = green.spawn(run)
    greenlet.name = "the-waiting-one"
    green.sleep(0.001)
    yield greenlet
    event.set()
    greenlet.join()


def test_a_report_tells_where_all_are(waiting: Any) -> None:
    told = "\n".join(util.format_run_info())
    assert "(MainThread) (CURRENT)" in told
    assert "the-waiting-one" in told
    assert "in waits_in_here" in told
    assert "'word': 'of this green thread'" in told
    assert "test_a_report_tells_where_all_are" in told


def test_a_report_may_be_shorter(waiting: Any) -> None:
    told = "\n".join(util.format_run_info(thread_stacks=False, greenlet_stacks=False))
    assert "MainThread" not in told
    assert "the-waiting-one" in told
    assert "waits_in_here" not in told
    told = "\n".join(util.format_run_info(limit=1, current_thread_ident=1))
    assert "CURRENT" not in told
    # The innermost frame of each.
    assert "in waits_in_here" in told
    assert "waits_in_here(event)" not in told


def test_a_report_in_a_file(waiting: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = io.StringIO()
    util.print_run_info(file=file)
    assert "the-waiting-one" in file.getvalue()
    util.print_run_info(thread_stacks=False)
    assert "the-waiting-one" in capsys.readouterr().err


def test_the_tree(waiting: Any) -> None:
    tree = util.GreenletTree.current_tree()
    assert tree.is_current_tree
    assert tree.root is get_hub().main
    assert util.GreenletTree.forest()[0].root is tree.root
    lines = str(tree).split("\n")
    assert lines[0] == repr(get_hub().main)
    (ours,) = [line for line in lines if "the-waiting-one" in line]
    assert ours.lstrip().startswith("+--")
    assert len(lines) == len(tree.format_lines(details=False))
    assert "Running:" in tree.format()
    assert "Running:" not in tree.format({"running_stacks": False})


def test_a_green_thread_in_the_tree_of_another(waiting: Any) -> None:
    def run() -> bool:
        return "the-waiting-one" in str(util.GreenletTree.current_tree())

    assert green.spawn(run).get()
    assert "the-waiting-one" not in str(util.GreenletTree(greenlet.getcurrent()))


def test_locals_are_shown_as_the_program_wants(waiting: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(green.config, "format_context", lambda value: f"<{len(value)} of them>")
    assert "<1 of them>" in util.GreenletTree.current_tree().format()


def test_a_report_under_a_running_loop() -> None:
    async def main() -> str:
        event = Event()
        greenlet = green.spawn(waits_in_here, event)
        await get_hub().asyncio_loop.run_green(green.sleep, 0)
        told = "\n".join(util.format_run_info())
        event.set()
        await greenlet
        return told

    assert "in waits_in_here" in oneloop.run(main())


# -- wrap_errors -------------------------------------------------------------------------------------


def test_errors_as_values() -> None:
    checked = util.wrap_errors((ValueError, KeyError), int)
    assert checked("1") == 1
    assert isinstance(checked("x"), ValueError)
    assert str(checked) == str(int)
    assert repr(checked) == repr(int)
    assert checked.__name__ == "int"
    with pytest.raises(TypeError):
        checked(None)
    failing = green.spawn(util.wrap_errors(ValueError, int), "x")
    assert isinstance(failing.get(), ValueError)


# -- assert_switches ---------------------------------------------------------------------------------


def test_a_block_that_lets_others_run() -> None:
    with util.assert_switches():
        green.sleep(0)
    with util.assert_switches(hub_only=True, max_blocking_time=10):
        green.sleep(0.001)


def test_a_block_that_does_not() -> None:
    with pytest.raises(AssertionError, match="To any greenlet"), util.assert_switches():
        pass
    with pytest.raises(AssertionError, match="To the hub") as told, util.assert_switches(hub_only=True):
        pass
    assert "test_a_block_that_does_not" in str(told.value)
    with pytest.raises(LookupError), util.assert_switches():
        raise LookupError


def test_a_block_that_does_not_for_long() -> None:
    green.sleep(0)
    with pytest.raises(AssertionError, match="blocked for"), util.assert_switches(max_blocking_time=0.01):
        time.sleep(0.02)
        green.sleep(0)
    # The hub may sleep.
    with util.assert_switches(max_blocking_time=60):
        green.sleep(0.02)


def test_to_green_threads_alone() -> None:
    turns: list[None] = []

    def beside() -> None:
        while True:
            turns.append(None)
            green.sleep(0)

    running = green.spawn(beside)
    green.sleep(0)
    with util.assert_switches():
        while len(turns) < 3:
            green.sleep(0)
    running.kill()


def test_a_function_that_is_checked() -> None:
    @util.assert_switches(max_blocking_time=10)
    def rests(seconds: float) -> str:
        green.sleep(seconds)
        return "rested"

    @util.assert_switches()
    def works() -> None:
        """It works."""

    assert rests(0) == "rested"
    assert works.__doc__ == "It works."
    with pytest.raises(AssertionError):
        works()
    assert green.spawn(rests, 0.001).get() == "rested"


def test_traces_of_the_programs_go_on() -> None:
    seen: list[str] = []
    old = greenlet.settrace(lambda event, _: seen.append(event))
    try:
        with util.assert_switches():
            green.sleep(0)
        assert "switch" in seen
        del seen[:]
        green.sleep(0)
        assert "switch" in seen
    finally:
        greenlet.settrace(old)
