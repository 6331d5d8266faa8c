"""How the tests of a suite ended, as a child process has recorded it (`recording.py`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Outcome:
    """How one test ended: passed, failed or skipped."""

    name: str
    outcome: str
    detail: str = ""
    seconds: float = 0.0
    # Whether the test made a loop of oneloop's, where that is recorded. One that did not says nothing about us.
    used_ours: bool = False
    is_retried: bool = False
    # Its process died by a signal: a second run that passes would only hide it.
    is_final: bool = False


@dataclass
class Attempt:
    """What one child left behind."""

    ended: list[Outcome]
    known: set[str]
    hanging: str | None
    status: int
    said: str
    cpu_s: float = 0.0


def read_attempt(results: Path, status: int, said: str, cpu_s: float = 0.0) -> Attempt:
    attempt = Attempt([], set(), None, status, said, cpu_s)
    for line in results.read_text().splitlines():
        record = json.loads(line)
        if "known" in record:
            attempt.known.add(record["known"])
        elif "start" in record:
            attempt.hanging = record["start"]
        else:
            attempt.hanging = None
            attempt.ended.append(Outcome(record.pop("test"), **record))
    return attempt
