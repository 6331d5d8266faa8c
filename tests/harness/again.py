"""A test that failed is run again, alone, in a process of its own, after all groups have ended; the verdict of all.

A test that passes then is FLAKY: the run passes, and the name is printed and written to a file, for each of them is a
defect, of oneloop or of the test. A crash, a panic, what a test left behind and a difference from an original are never
run again, because a second run that passes would only hide them (`Outcome.final`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.harness.running import Group, Outcome, run

ATTEMPTS = 2
MOST_FLAKY = 5
"""With more flaky tests than that a run has failed."""
MOST_AGAIN = 20
"""If more tests than that have failed, it is no accident: none is run again."""

# What cargo prints behind the tests of a target that has failed, and how it says that a target has died.
_CARGO_TARGET = re.compile(r"^error: test failed, to rerun pass `(.*)`", re.MULTILINE)
_CARGO_FAILED = re.compile(r"^failures:\n((?:    .+\n)+)", re.MULTILINE)
_CARGO_DIED = re.compile(r"\(signal: \d+.*\)")
_CARGO_UNTOLD = re.compile(r"^error(\[|: (?!test failed|\d+ targets? failed))", re.MULTILINE)
_SUITE_FAILED = re.compile(r"^FAIL (.*)$", re.MULTILINE)
_SUITE_AGAIN = re.compile(r"(?:fails on oneloop|passes on stock asyncio, \w+ on oneloop): (\S+)")
_SUITE_FLAKY = re.compile(r"^note: oneloop: (\S+) passed only when run again alone$", re.MULTILINE)


@dataclass
class Verdict:
    """What a run of groups says in the end; names are those of tests."""

    flaky: dict[str, int] = field(default_factory=dict)
    """How many attempts it took; 0 for a test whose own runner has run it again."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why it counts."""

    def passes(self) -> bool:
        return not self.failed and len(self.flaky) <= MOST_FLAKY


@dataclass(frozen=True)
class _Failed:
    """A test that may be run again, and how."""

    name: str
    again: Callable[[], Outcome]
    has_passed: Callable[[Outcome], bool]


def judge(outcomes: list[Outcome]) -> Verdict:
    """Run again what failed and may be run again."""
    verdict = Verdict()
    candidates: list[_Failed] = []
    for outcome in outcomes:
        for name in _SUITE_FLAKY.findall(outcome.output) if outcome.group.kind == "suite" else ():
            verdict.flaky[name] = 0
        if outcome.status == 0:
            continue
        mine = _candidates(outcome, verdict)
        is_told = outcome.group.name in verdict.failed or verdict.failed.keys() & outcome.final.keys()
        if not mine and not is_told:
            verdict.failed[outcome.group.name] = f"status {outcome.status}"
        candidates += mine
    if len(candidates) > MOST_AGAIN:
        verdict.failed |= dict.fromkeys((each.name for each in candidates), "one of very many, not run again")
        return verdict
    for each in candidates:
        _run_again(each, verdict)
    return verdict


def _candidates(outcome: Outcome, verdict: Verdict) -> list[_Failed]:
    """The tests of a group that failed and may be run again; the others are noted as failed."""
    if outcome.group.kind == "pytest":
        verdict.failed |= outcome.final
        return [
            _Failed(
                name,
                lambda name=name: run(outcome.group, [name]),
                lambda done, name=name: done.tests == {name: "passed"},
            )
            for name, how in outcome.tests.items()
            if how == "failed" and name not in outcome.final
        ]
    if outcome.group.kind == "cargo":
        return _cargo_candidates(outcome, verdict)
    if outcome.group.kind == "suite":
        return _suite_candidates(outcome, verdict)
    return []


def _suite_candidates(outcome: Outcome, verdict: Verdict) -> list[_Failed]:
    found: list[_Failed] = []
    for line in _SUITE_FAILED.findall(outcome.output):
        may_run = _SUITE_AGAIN.fullmatch(line)
        if may_run is None:
            verdict.failed[outcome.group.name] = line
            continue
        one = Group(may_run[1], [*outcome.group.command, "--only", may_run[1]], "suite")
        found.append(_Failed(one.name, lambda one=one: run(one), lambda done: done.status == 0))
    return found


def _cargo_candidates(outcome: Outcome, verdict: Verdict) -> list[_Failed]:
    """Of a script that calls cargo, and that with a target and a filter runs only these."""
    found: list[_Failed] = []
    begin = 0
    for target in _CARGO_TARGET.finditer(outcome.output):
        part = outcome.output[begin : target.start()]
        begin = target.end()
        names = [name.strip() for block in _CARGO_FAILED.findall(part)[-1:] for name in block.splitlines()]
        rest = outcome.output[begin : begin + 400].partition("\nerror: ")[0]
        if not names or _CARGO_DIED.search(rest):
            verdict.failed[f"cargo test {target[1]}"] = "it died"
            continue
        for name in names:
            arguments = [*target[1].split(), "--", "--exact", name, "--test-threads=1"]
            one = Group(f"cargo test {' '.join(arguments)}", [*outcome.group.command, *arguments], "cargo")
            found.append(_Failed(f"{target[1]} {name}", lambda one=one: run(one), _one_passed))
    if _CARGO_UNTOLD.search(outcome.output):
        verdict.failed[outcome.group.name] = "cargo failed"
    return found


def _one_passed(done: Outcome) -> bool:
    return done.status == 0 and done.sums()["passed"] == 1


def _run_again(each: _Failed, verdict: Verdict) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        done = each.again()
        word = "passed" if done.status == 0 and each.has_passed(done) else "failed"
        print(f"=== again, alone, attempt {attempt}: {each.name}: {word}, {done.time_s:.0f} s", flush=True)
        if word == "passed":
            verdict.flaky[each.name] = attempt
            return
        print(done.output, flush=True)
        if done.final:
            verdict.failed |= done.final
            return
    verdict.failed[each.name] = f"failed {ATTEMPTS + 1} times"


def sums_after(outcomes: list[Outcome], verdict: Verdict) -> Counter[str]:
    """How many tests passed, failed and were skipped, with what the second runs showed."""
    sums: Counter[str] = Counter()
    for outcome in outcomes:
        sums += outcome.sums()
    sums["passed"] += sum(1 for attempts in verdict.flaky.values() if attempts)
    sums["failed"] = len(verdict.failed)
    return sums
