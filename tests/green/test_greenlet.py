"""Green threads: starting, results, links, joining and killing."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from oneloop import green
from oneloop.green import Greenlet, GreenletExit, Timeout
from oneloop.green.event import Event
from oneloop.green.hub import get_hub


def returns(value: Any) -> Any:
    green.sleep(0)
    return value


def fails(*_: object) -> None:
    raise LookupError("of a green thread")


def sleeps() -> None:
    green.sleep(100)


def test_a_value() -> None:
    greenlet = green.spawn(returns, 7)
    assert (greenlet.ready(), greenlet.started, greenlet.value) == (False, True, None)
    assert greenlet.get() == 7
    assert (greenlet.ready(), greenlet.started, greenlet.successful()) == (True, False, True)
    assert (greenlet.value, greenlet.exception, greenlet.dead) == (7, None, True)
    assert (greenlet.args, greenlet.kwargs) == ((), {})


def test_an_exception(capsys: pytest.CaptureFixture[str]) -> None:
    greenlet = green.spawn(fails, 4711)
    with pytest.raises(LookupError, match="of a green thread"):
        greenlet.get()
    assert (greenlet.ready(), greenlet.successful(), greenlet.value) == (True, False, None)
    assert isinstance(greenlet.exception, LookupError)
    assert greenlet.exc_info is not None
    assert greenlet.exc_info[0] is LookupError
    told = capsys.readouterr().err
    assert "LookupError: of a green thread" in told
    assert "fails(4711)> failed with LookupError" in told
    assert "fails(4711)" in repr(greenlet)
    assert (greenlet.args, greenlet.kwargs) == ((), {})


def test_they_run_in_the_order_of_their_starts_and_beside_each_other() -> None:
    seen = []

    def step(name: str) -> None:
        for number in range(3):
            seen.append(name + str(number))
            green.sleep(0)

    green.joinall([green.spawn(step, name) for name in "abc"])
    assert seen == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]


def test_what_cannot_be_called() -> None:
    with pytest.raises(TypeError, match="must be callable"):
        Greenlet(7)  # type: ignore[arg-type]


def test_a_subclass_with_its_own_run() -> None:
    class Own(Greenlet):
        def __init__(self, value: int) -> None:
            super().__init__()
            self.own = value

        def _run(self) -> int:
            return self.own

    assert Own.spawn(5).get() == 5


def test_later() -> None:
    greenlet = green.spawn_later(0.01, returns, 7)
    assert greenlet.started
    assert greenlet.get() == 7
    killed = green.spawn_later(100, returns, 7)
    killed.kill()
    assert isinstance(killed.value, GreenletExit)


@pytest.mark.parametrize("begins", [False, True])
def test_kill(begins: bool) -> None:
    left = []

    def run() -> None:
        try:
            green.sleep(100)
        finally:
            left.append(True)

    greenlet = green.spawn(run)
    if begins:
        green.sleep(0)
    greenlet.kill()
    assert (greenlet.ready(), greenlet.successful(), left) == (True, True, [True] if begins else [])
    assert isinstance(greenlet.get(), GreenletExit)
    greenlet.kill()
    green.sleep(0)
    assert left == ([True] if begins else [])


def test_kill_with_an_exception(capsys: pytest.CaptureFixture[str]) -> None:
    greenlet = green.spawn(sleeps)
    green.sleep(0)
    greenlet.kill(LookupError("told"))
    assert isinstance(greenlet.exception, LookupError)
    assert "failed with LookupError" in capsys.readouterr().err


def test_a_killed_one_may_go_on() -> None:
    def stays() -> str:
        try:
            green.sleep(100)
        except GreenletExit:
            green.sleep(0.001)
        return "stayed"

    greenlet = green.spawn(stays)
    green.sleep(0)
    greenlet.kill(block=False)
    assert not greenlet.ready()
    assert greenlet.get() == "stayed"


def test_kill_itself() -> None:
    def ends() -> None:
        green.getcurrent().kill()  # type: ignore[attr-defined]
        raise AssertionError("it went on")

    assert isinstance(green.spawn(ends).get(), GreenletExit)


def test_the_first_kill_is_the_one() -> None:
    """The first kill ends the wait. The second one arrives in another wait, or after the end."""
    raised = []

    def run() -> None:
        try:
            green.sleep(100)
        except BaseException as error:
            raised.append(type(error))
            raise

    greenlet = green.spawn(run)
    green.sleep(0)
    greenlet.kill(KeyError, block=False)
    greenlet.kill(block=False)
    with pytest.raises(KeyError):
        greenlet.get()
    assert raised == [KeyError]


def test_throw(capsys: pytest.CaptureFixture[str]) -> None:
    greenlet = Greenlet(sleeps)
    greenlet.throw(LookupError, "before it began")
    assert isinstance(greenlet.exception, LookupError)
    assert "before it began" in capsys.readouterr().err


def test_links() -> None:
    told: list[Any] = []
    good, bad = green.spawn(returns, 1), green.spawn(sleeps)
    for greenlet in (good, bad):
        greenlet.link(lambda source: told.append(("any", source)))
        greenlet.link_value(lambda source: told.append(("value", source)))
        greenlet.link_exception(lambda source: told.append(("exception", source)))
    unlinked = told.append
    good.rawlink(unlinked)
    good.unlink(unlinked)
    green.sleep(0)
    bad._kill_soon(LookupError())
    green.joinall([good, bad])
    green.sleep(0.001)
    assert told == [("any", good), ("value", good), ("any", bad), ("exception", bad)]
    # A link to a green thread that has ended.
    good.link(told.append)
    green.sleep(0.001)
    assert told[-1] is good


def test_an_exception_in_a_link_does_not_end_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[Any] = []

    def broken(_: Any) -> None:
        raise LookupError("in a link")

    greenlet = green.spawn(returns, 1)
    greenlet.rawlink(broken)
    greenlet.rawlink(told.append)
    greenlet.join()
    green.sleep(0.001)
    assert told == [greenlet]
    assert "in a link" in capsys.readouterr().err


@pytest.mark.parametrize("wait", ["a link", "a join", "a join beside a link"])
def test_a_report_that_waits_holds_up_nobody(wait: str) -> None:
    told: list[Any] = []
    reported = Event()

    class Stream:
        def write(self, text: str) -> None:
            reported.wait()

    hub: Any = green.get_hub()
    hub.exception_stream = Stream()
    greenlet = green.spawn(fails)
    if wait == "a link":
        greenlet.link_exception(told.append)
    else:
        waiting = green.spawn(greenlet.join)
        waiting.rawlink(lambda _: told.append(greenlet))
        if wait == "a join beside a link":
            greenlet.rawlink(lambda _: None)
    for _ in range(5):
        green.sleep(0)
    assert (told, greenlet.ready(), greenlet.dead) == ([greenlet], True, False)
    reported.set()
    green.sleep(0)
    assert greenlet.dead


def test_join_and_get_with_a_timeout() -> None:
    greenlet = green.spawn(sleeps)
    greenlet.join(timeout=0.001)
    assert not greenlet.ready()
    with pytest.raises(Timeout):
        greenlet.get(timeout=0.001)
    with pytest.raises(Timeout):
        greenlet.get(block=False)
    assert not greenlet._life.links
    greenlet.kill()


def test_joinall() -> None:
    quick, slow = green.spawn(returns, 1), green.spawn(sleeps)
    assert green.joinall([quick, slow], timeout=0.01) == [quick]
    assert green.joinall([quick, slow], count=1) == [quick]
    green.killall([quick, slow])
    assert slow.ready()
    assert green.joinall([]) == []


def test_joinall_raises() -> None:
    failing = green.spawn(fails)
    with pytest.raises(LookupError):
        green.joinall([green.spawn(sleeps), failing], raise_error=True)


def test_killall_in_time() -> None:
    def stays() -> None:
        try:
            green.sleep(100)
        except GreenletExit:
            green.sleep(0.1)

    greenlet = green.spawn(stays)
    green.sleep(0)
    with pytest.raises(Timeout):
        green.killall([greenlet], timeout=0.001)
    greenlet.join()


def test_iwait_gives_them_as_they_end() -> None:
    greenlets = [green.spawn_later(0.01 * wait, returns, wait) for wait in (3, 1, 2)]
    assert [greenlet.value for greenlet in green.iwait(greenlets)] == [1, 2, 3]
    event = Event()
    greenlets = [green.spawn(event.set)]
    assert set(green.wait([event, *greenlets])) == {event, *greenlets}


def test_as_a_context() -> None:
    with green.spawn(returns, 1) as greenlet:
        pass
    assert greenlet.value == 1
    with pytest.raises(LookupError), green.spawn(sleeps) as greenlet:
        green.sleep(0)
        raise LookupError
    assert isinstance(greenlet.exception, LookupError)


def test_raw() -> None:
    told: list[Any] = []
    raw = green.spawn_raw(told.append, 1)
    green.sleep(0)
    assert (told, raw.dead) == ([1], True)
    raw = green.spawn_raw(sleeps)
    green.sleep(0)
    green.kill(raw)
    green.sleep(0)
    assert raw.dead


def test_those_that_wait_end_with_the_hub() -> None:
    left = []

    class Marker:
        pass

    def run(marker: Marker) -> None:
        try:
            green.sleep(100)
        finally:
            left.append(True)

    marker = Marker()
    gone = weakref.ref(marker)
    greenlet = green.spawn(run, marker)
    green.sleep(0)
    del greenlet, marker
    gc.collect()
    assert left == []
    get_hub().destroy()
    gc.collect()
    assert (left, gone()) == ([True], None)


def test_many_that_wait() -> None:
    event = Event()
    greenlets = [green.spawn(event.wait) for _ in range(20_000)]
    green.sleep(0)
    event.set()
    green.joinall(greenlets)
    assert all(greenlet.value is True for greenlet in greenlets)


def test_names() -> None:
    greenlet = Greenlet(returns)
    assert "returns" in repr(greenlet)
    greenlet.name = "mine"
    assert (greenlet.name, '"mine"' in repr(greenlet)) == ("mine", True)
    greenlet.start()
    greenlet.join()
    # What it has run is known as long as it was asked for before.
    assert repr(greenlet).endswith(": returns>")


def test_idents_are_small_and_used_again() -> None:
    first, second = green.spawn(sleeps), green.spawn(sleeps)
    assert {first.minimal_ident, second.minimal_ident, first.minimal_ident} == {0, 1}
    assert (first.name, repr(second).split()[1]) == ("Greenlet-0", '"Greenlet-1"')
    green.killall([first, second])
    del first
    # Until then, the loop knows those that were to begin.
    green.sleep(0)
    gc.collect()
    third = green.Greenlet(sleeps)
    assert (third.minimal_ident, len(third.hub.ident_registry)) == (0, 2)


def test_who_has_spawned_it() -> None:
    def spawns() -> green.Greenlet:
        parent.spawn_tree_locals["shared"] = 1
        return green.spawn(int)

    parent = green.spawn(spawns)
    child = parent.get()
    assert child.spawning_greenlet() is parent
    assert child.spawn_tree_locals is parent.spawn_tree_locals == {"shared": 1}
    assert green.spawn(int).spawn_tree_locals == {}
    child.join()


def test_spawn_callbacks() -> None:
    started: list[green.Greenlet] = []
    green.Greenlet.add_spawn_callback(started.append)
    try:
        spawned = [green.spawn(int), green.spawn_later(0, int)]
        made = green.Greenlet(int)
        assert started == spawned
        made.start()
        made.start()
        assert started == [*spawned, made]
    finally:
        green.Greenlet.remove_spawn_callback(started.append)
        green.Greenlet.remove_spawn_callback(started.append)
    green.joinall([*spawned, made, green.spawn(int)])
    assert len(started) == 3


def test_a_subclass_with_its_own_new() -> None:
    class Looks(Greenlet):
        looked: Any

        def __new__(cls, function: Any, *args: Any) -> Any:
            made = super().__new__(cls)
            made.looked = (function, *args)
            return made

    greenlet = Looks.spawn(len, "abc")
    assert (greenlet.get(), greenlet.looked) == (3, (len, "abc"))
