"""answers: twenty handlers answer and then compute for 10 ms each; time until the first and the median answer.

A loop that gathers writes for longer than a callback has better results in `pipeline`, and worse results here.

Both sides: one protocol on each loop, and the same for twisted; its handler writes and then computes without waiting.
The client is another process on another CPU.
Kept: the connections.
Thrown away: each answer.
Window: from the first question of a round to its answers; the rounds are repeated for at least `--duration`, and the
figure is their median.
"""

from __future__ import annotations

from bench.catalogue import missing_reason
from bench.model import Case, RivalMissingError, Sample, Settings
from bench.suites.options import ALL_LOOPS, Options
from bench.timed import measure_program, python_module

ROUNDS = 5
REMARK = "20 connections; the client is a separate process"


def _measure(rival: str, settings: Settings) -> Sample:
    reason = missing_reason(rival)
    if reason:
        raise RivalMissingError(reason)
    args = ["--loop", rival, "--count", str(settings.scaled(ROUNDS)), "--seconds", str(settings.duration_s)]
    return measure_program(python_module("first_answer", *args), settings)


def cases(options: Options) -> list[Case]:
    rivals = options.pick_rivals((*ALL_LOOPS, "twisted"))
    params: dict[str, int | str] = {"connections": 20, "work_ms": 10}
    return [
        Case(
            suite="answers",
            name="first answer",
            params=params,
            metric="first_ns",
            unit="time to it",
            rivals=rivals,
            measure=_measure,
            remark=f"{REMARK}; p50: the median answer",
            also=("p50_ns",),
        )
    ]
