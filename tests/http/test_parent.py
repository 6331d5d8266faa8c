"""`Parent`: what it does with workers that start, speak and die, told by processes that are none."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from oneloop.http import workers
from oneloop.http.forking import Child
from oneloop.http.listeners import open_listeners
from oneloop.http.measures import Board, Measures
from oneloop.http.options import Options
from oneloop.http.systemd import Notifier
from oneloop.http.workers import Parent, Work

STATUS_1 = 1 << 8


class Process(Child):
    """What the parent takes for a child: `end` ends it; what it is told is kept."""

    def __init__(self, pid: int) -> None:
        ours, self.theirs = socket.socketpair()
        ours.setblocking(False)
        super().__init__(pid, ours)
        self.told: list[bytes] = []
        self.signals: list[int] = []
        self.status: int | None = None

    def tell(self, word: bytes) -> None:
        self.told.append(word)

    def kill(self, number: signal.Signals) -> None:
        self.signals.append(number)

    def poll(self) -> int | None:
        return self.status

    def say(self, words: bytes) -> None:
        self.theirs.send(words)

    def end(self, status: int = STATUS_1) -> None:
        self.status = status
        self.theirs.close()


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


class Stage:
    """A parent, its processes in the order of their starts, and its clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int, board: Board | None = None, **given: Any) -> None:
        self.started: list[Process] = []
        self.clock = Clock()
        monkeypatch.setattr(workers, "fork", self.fork)
        monkeypatch.setattr(workers, "time", self.clock)
        options = Options(port=0, workers=count, timeout_worker_healthcheck=10_000, **given)
        self.groups = open_listeners(options)
        self.parent = Parent(options, Work(lambda *given: 0, self.groups, board), Notifier({}))
        self.parent._wake_in.setblocking(False)
        for place in self.parent._places:
            place.worker = self.parent._start(place)

    def fork(self, work: Callable[[socket.socket], int], close: Iterable[socket.socket]) -> Process:
        self.started.append(Process(100 + len(self.started)))
        return self.started[-1]

    def turn(self, *, after_s: float = 0.0) -> None:
        """What has been said and has ended is seen, and what is due by then is done."""
        self.clock.now_s += after_s
        # It would wait for what comes.
        self.parent._timeout_s = lambda: 0.0  # type: ignore[method-assign]
        self.parent._turn()

    def begin(self) -> list[Process]:
        """All are ready."""
        for process in self.started:
            process.say(b"ready\n")
        self.turn()
        return list(self.started)

    def close(self) -> None:
        for process in self.started:
            process.theirs.close()
            process.channel.close()
        self.parent._end_everything()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Stage]]:
    made: list[Stage] = []

    def make(count: int = 1, **given: Any) -> Stage:
        made.append(Stage(monkeypatch, count, **given))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_one_that_dies_again_and_again_is_replaced_later_each_time(stage: Callable[..., Stage]) -> None:
    one = stage()
    one.begin()
    for delay_s in (0.0, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0):
        count = len(one.started)
        one.started[-1].end()
        one.turn()
        if delay_s:
            one.turn(after_s=delay_s - 0.01)
            assert len(one.started) == count
        one.turn(after_s=0.02)
        assert len(one.started) == count + 1
        one.started[-1].say(b"ready\n")
        one.turn()


def test_one_that_has_lived_long_is_replaced_at_once(stage: Callable[..., Stage]) -> None:
    one = stage()
    one.begin()
    for _ in range(4):
        one.turn(after_s=11)
        one.started[-1].end()
        one.turn()
        one.turn()
        one.started[-1].say(b"ready\n")
        one.turn()
    assert len(one.started) == 5


def test_the_fifth_start_that_fails_ends_all(stage: Callable[..., Stage]) -> None:
    one = stage()
    one.begin()
    one.turn(after_s=100)
    one.started[-1].end()
    for number in range(2, 7):
        one.turn()
        one.turn(after_s=20)
        assert len(one.started) == number
        assert one.parent._state.status == 0
        one.started[-1].end(3 << 8)
    one.turn()
    assert (one.parent._state.status, one.parent._state.endings) == (3, 1)


def test_the_row_of_one_that_died_is_free(stage: Callable[..., Stage]) -> None:
    board = Board(4)
    one = stage(2, board=board)
    one.begin()
    Measures(board, 0)
    Measures(board, 1)
    assert 'worker="1"' in Measures(board, 0).text()
    one.started[1].end()
    one.turn()
    assert 'worker="1"' not in Measures(board, 0).text()


def test_its_last_words_are_heard(stage: Callable[..., Stage]) -> None:
    """It asked for a successor and died at once: that is no failure, for its successor starts already."""
    one = stage()
    [first] = one.begin()
    first.say(b"replace it has served 5 requests\n")
    first.end()
    one.parent._reap()
    place = one.parent._places[0]
    assert (len(one.started), place.worker is not None, place.start_at_s) == (2, True, None)


def test_a_successor_takes_over_when_it_is_ready(stage: Callable[..., Stage]) -> None:
    one = stage()
    [first] = one.begin()
    first.say(b"replace why\n")
    one.turn()
    assert (len(one.started), first.told) == (2, [])
    one.started[1].say(b"ready\n")
    one.turn()
    assert first.told == [b"F"]
    first.end(0)
    one.turn()
    assert len(one.started) == 2


def test_a_roll_that_fails_is_over(stage: Callable[..., Stage]) -> None:
    one = stage(3)
    one.begin()
    one.parent._on_signal(signal.SIGHUP)
    assert len(one.started) == 4
    one.started[3].end(3 << 8)
    one.turn()
    one.turn(after_s=100)
    assert len(one.started) == 4, "the others stay as they are"
    one.started[0].say(b"replace why\n")
    one.turn()
    one.started[4].end(3 << 8)
    one.turn()
    one.turn(after_s=1)
    assert len(one.started) == 6, "what was asked for otherwise is tried again"


def test_one_that_is_ready_after_its_place_has_gone_ends(stage: Callable[..., Stage]) -> None:
    one = stage()
    one.begin()
    one.parent._on_signal(signal.SIGTTIN)
    one.parent._on_signal(signal.SIGTTOU)
    second = one.started[1]
    assert (second.told, second.signals) == ([b"F"], [signal.SIGTERM]), "it may not listen for words yet"
    second.say(b"ready\n")
    one.turn()
    assert second.told == [b"F", b"F"]


def test_a_place_that_has_gone_is_not_filled(stage: Callable[..., Stage]) -> None:
    one = stage(2)
    one.begin()
    place = one.parent._places[1]
    one.parent._on_signal(signal.SIGTTOU)
    one.parent._fill(place)
    assert len(one.started) == 2


def test_who_does_not_end_in_time_is_killed_once(stage: Callable[..., Stage]) -> None:
    one = stage(timeout_graceful_shutdown=5)
    [first] = one.begin()
    one.parent._on_signal(signal.SIGTERM)
    assert first.told == [b"L"]
    one.turn(after_s=34)
    assert first.signals == []
    for _ in range(3):
        one.turn(after_s=2)
    assert first.signals == [signal.SIGKILL]


def test_a_second_signal_leaves_a_second(stage: Callable[..., Stage]) -> None:
    one = stage()
    [first] = one.begin()
    one.parent._on_signal(signal.SIGTERM)
    one.turn(after_s=1000)
    assert first.signals == []
    one.parent._on_signal(signal.SIGINT)
    assert first.told == [b"L", b"N"]
    one.turn(after_s=2)
    assert first.signals == [signal.SIGKILL]


def test_the_end_closes_the_sockets_at_once(stage: Callable[..., Stage]) -> None:
    """While workers finish what they do, nobody is kept waiting who would not be served."""
    one = stage()
    one.begin()
    one.parent._on_signal(signal.SIGTERM)
    assert [listener.socket.fileno() for listener in one.groups[0]] == [-1]


def test_the_system_is_not_suspected_of_what_the_parent_did(
    stage: Callable[..., Stage], caplog: pytest.LogCaptureFixture
) -> None:
    one = stage(timeout_graceful_shutdown=5)
    [first] = one.begin()
    with caplog.at_level(logging.INFO, "oneloop.error"):
        one.parent._on_signal(signal.SIGTERM)
        one.turn(after_s=36)
        first.end(signal.SIGKILL)
        one.turn()
    assert first.signals == [signal.SIGKILL]
    assert f"Worker [{first.pid}] was killed by SIGKILL." in caplog.messages


def test_the_system_is_suspected_of_what_nobody_did(
    stage: Callable[..., Stage], caplog: pytest.LogCaptureFixture
) -> None:
    one = stage()
    [first] = one.begin()
    first.end(signal.SIGKILL)
    one.turn()
    assert "was killed by SIGKILL (the system may be out of memory)" in caplog.text
