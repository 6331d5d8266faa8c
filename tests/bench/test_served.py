"""Measuring real servers: the good, the dead, the silent and the wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench import served
from bench.catalogue import Serve
from bench.model import RivalFailedError, Sample, Settings
from bench.process import native
from bench.served import Load, measure_server

PROTOCOL = Serve("protocol")


def start_bad(kind: str, serve: Serve) -> tuple[Sequence[str], dict[str, str]]:
    return [sys.executable, "-m", "tests.bench.servers", kind], {}


def children() -> set[str]:
    task = f"/proc/{os.getpid()}/task/{os.getpid()}/children"
    return set(Path(task).read_text().split())


@pytest.mark.parametrize("form", ["protocol", "buffered", "streams", "sock", "pipeline", "accept", "udp"])
def test_asyncio_answers_every_form(form: str, short: Settings) -> None:
    mode = {"accept": "accept", "udp": "udp"}.get(form, "echo")
    family = "udp" if form == "udp" else "tcp"
    load = Load(mode, size=64, connections=3, pipeline=16 if form == "pipeline" else 1)
    sample = measure_server("asyncio", Serve(form, family=family, size=64), load, short)
    assert sample.metrics["throughput"] > 0
    assert sample.metrics["server_cpu_ns"] > 0
    assert sample.metrics["threads"] == 1
    assert sample.curve


def test_the_parts_of_the_cpu_time_add_up(short: Settings) -> None:
    found = measure_server("asyncio", PROTOCOL, Load(), short).metrics
    assert found["server_user_ns"] + found["server_system_ns"] == pytest.approx(found["server_cpu_ns"])


@pytest.mark.parametrize("rival", ["floor", "floor-uring", "asyncio"])
@pytest.mark.parametrize("size", [1, 1024, 300_000])
def test_unix_sockets_and_large_messages(rival: str, size: int, short: Settings) -> None:
    if rival == "floor-uring" and not has_io_uring():
        pytest.skip("this kernel or container forbids io_uring")
    serve = Serve("protocol", family="unix")
    assert measure_server(rival, serve, Load(size=size, connections=2), short).metrics["throughput"] > 0


def has_io_uring() -> bool:
    import ctypes

    # The number of io_uring_setup is the same on all architectures that have it; EFAULT means that it is there.
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(425, 1, None)
    return ctypes.get_errno() == 14


def test_a_corrupted_echo_is_detected(short: Settings) -> None:
    def corrupting(rival: str, serve: Serve) -> tuple[Sequence[str], dict[str, str]]:
        return [native("floor"), "corrupt"], {}

    with pytest.raises(RivalFailedError, match=r"wrong answer: connection \d differs at byte"):
        measure_server("corrupting", PROTOCOL, Load(size=4096, connections=3), short, corrupting)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("dies_after_some_messages", r"died: exit status 3 \(out of luck\)"),
        ("answers_and_then_hangs", "no answer on 1 connection"),
        ("says_too_much", "wrong answer"),
        ("closes_at_once", "server closed connection 0"),
        ("never_ready", "printed 'hello' instead of `ready`"),
    ],
)
def test_a_bad_server_has_a_reason_and_leaves_nothing(kind: str, words: str, short: Settings) -> None:
    before = children()
    with pytest.raises(RivalFailedError, match=words):
        measure_server(kind, PROTOCOL, Load(size=64, connections=1, patience_s=0.3), short, start_bad)
    assert children() == before


def test_an_open_loop_keeps_its_rate(short: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, Any]] = []
    made = served._sample

    def sample_of(before: Any, after: Any, outcome: dict[str, Any], *given: Any) -> Sample:
        told.append(outcome)
        return made(before, after, outcome, *given)

    monkeypatch.setattr(served, "_sample", sample_of)
    sample = measure_server("floor", PROTOCOL, Load(size=64, connections=5, rate=2000.0), short)
    # The count follows from rate and duration alone, whatever the machine does: what it could not send is told. One is
    # due at the begin, and one at the end.
    (outcome,) = told
    assert outcome["messages"] + outcome["unsent"] + outcome["lost"] == 2000.0 * short.duration_s + 1
    assert not any("generator" in note for note in sample.notes)


def test_the_generator_says_when_it_was_the_bottleneck() -> None:
    outcome = {"lost": 0, "unsent": 0, "truncated": 0}
    slow_generator = {"generator_busy": 0.99, "server_busy": 0.5}
    slow_server = {"generator_busy": 0.99, "server_busy": 1.0}
    assert served._notes(outcome, slow_generator, Load()) == ["generator was the bottleneck"]
    assert served._notes(outcome, slow_server, Load()) == []


def test_an_overloaded_open_loop_says_what_it_did_not_send() -> None:
    outcome = {"lost": 0, "unsent": 12, "truncated": 0}
    notes = served._notes(outcome, {"generator_busy": 0.1, "server_busy": 1.0}, Load())
    assert notes == ["12 messages were due and never sent: overloaded"]
