"""The differential test itself: it finds loops that are wrong, shrinks what it finds, and its programs are data."""

from __future__ import annotations

import ast
import os

import pytest

from tests import descriptors
from tests.differential import author, faults, program, shrinking, subjects, watchdog
from tests.differential.comparison import Pair, compare, is_steady
from tests.differential.reference import ReferenceLoop
from tests.differential.stage import Factory, perform
from tests.differential.virtual import VirtualLoop

FAULTS = [
    ("scheduling", faults.SwapsCallbacks),
    ("scheduling", faults.LosesContexts),
    ("signals", faults.SignalsTwice),
    ("timers", faults.LateTimers),
    ("tasks", faults.SwapsCallbacks),
    ("tasks", faults.LosesContexts),
    ("timeouts", faults.LateTimers),
    ("streams", faults.LateWrites),
    ("streams", faults.NeverPauses),
    ("readers", faults.KeepsReaders),
    ("sock calls", faults.ShortReads),
    ("dialogues", faults.LateWrites),
    ("pipes", faults.LosesPipeEnds),
    ("datagrams", faults.LateDatagrams),
    ("servers", faults.LateWrites),
    ("tls", faults.LateReads),
    ("threads", faults.CallsFromThreads),
]

# A fault must show within so many programs.
MOST_SEEDS = 60


def pair_with(fault: Factory) -> Pair:
    return Pair(ReferenceLoop, fault, VirtualLoop, fault)


@pytest.mark.parametrize(("name", "fault"), FAULTS, ids=[f"{name}-{fault.__name__}" for name, fault in FAULTS])
def test_wrong_loop_is_found(name: str, fault: Factory) -> None:
    family = subjects.named(name)
    pair = pair_with(fault)
    assert any(compare(author.write(family, seed), pair, runs=2).what == "different" for seed in range(MOST_SEEDS))


def test_every_family_has_a_fault() -> None:
    assert {name for name, _ in FAULTS} == {family.name for family in subjects.ALL}


@pytest.mark.allows_open_fds("the fault leaks them on purpose")
def test_leak_is_found() -> None:
    before = descriptors.open_descriptors()
    verdict = compare([("connect", "w1", "unix", "wire", {})], pair_with(faults.LeaksDescriptors))
    assert verdict.what == "different"
    for fd in descriptors.opened_since(before):
        os.close(fd)


def test_hang_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "LIMIT_S", 0.3)
    trace = perform([("run", 1)], faults.Hangs)
    assert any(entry[1] == "hang" for entry in trace)


def test_program_is_shrunk() -> None:
    pair = pair_with(faults.LosesContexts)
    family = subjects.named("scheduling")
    body = next(
        body for body in (author.write(family, seed) for seed in range(60)) if compare(body, pair).what != "same"
    )
    small = shrinking.shrink(body, lambda smaller: compare(smaller, pair, runs=2).what == "different")
    assert program.count(small) <= 3


@pytest.mark.parametrize("family", subjects.ALL, ids=lambda family: family.name)
def test_program_is_data(family: author.Family) -> None:
    for seed in range(20):
        body = author.write(family, seed)
        assert body == author.write(family, seed)
        assert ast.literal_eval(program.literal(body)) == body


@pytest.mark.parametrize("family", subjects.ALL, ids=lambda family: family.name)
def test_programs_repeat_on_the_reference(family: author.Family) -> None:
    """A program whose runs on asyncio differ says nothing; nearly all must agree.

    Beside a load, real threads meet the loop now here, now there: such a program may try again.
    """
    seeds = 10 if family.name == "threads" else 25
    bodies = [author.write(family, seed) for seed in range(1000, 1000 + seeds)]
    steady = sum(any(is_steady(body) for _ in range(3)) for body in bodies)
    assert steady >= seeds * 0.8
