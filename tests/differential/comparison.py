"""Whether a program's traces agree: one run on each loop, and where they differ, several more to be sure."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

import oneloop
import oneloop.testing
from tests.differential.program import Body
from tests.differential.reference import ReferenceLoop
from tests.differential.stage import Factory, perform
from tests.differential.virtual import VirtualLoop
from tests.differential.world import Trace

RUNS_TO_BE_SURE = 3


@dataclass(frozen=True)
class Pair:
    """The loop that is right and the one that is compared with it, each with a real and a virtual clock."""

    reference: Factory = ReferenceLoop
    subject: Factory = oneloop.new_event_loop
    virtual_reference: Factory = VirtualLoop
    virtual_subject: Factory = oneloop.testing.new_event_loop

    def of(self, body: Body) -> tuple[Factory, Factory]:
        if body and body[0] == ("virtual",):
            return self.virtual_reference, self.virtual_subject
        return self.reference, self.subject


PAIR = Pair()


@dataclass(frozen=True)
class Verdict:
    """`same`, `different`, `unsettled` (the runs on one loop do not agree with each other), or `unfit`."""

    what: str
    reference: Trace
    subject: Trace

    def text(self) -> str:
        """Both traces, as a diff."""
        lines = difflib.unified_diff(
            [str(entry) for entry in self.reference],
            [str(entry) for entry in self.subject],
            "asyncio",
            "oneloop",
            lineterm="",
            n=100 if len(self.reference) < 50 else 4,
        )
        return "\n".join(lines)

    def is_only(self, pattern: re.Pattern[str]) -> bool:
        """True if all lines that differ match the pattern."""
        changed = [line for line in self.text().split("\n")[2:] if line[:1] in "+-"]
        return all(pattern.search(line) for line in changed)


def is_unfit(reference: Trace) -> bool:
    """True if the reference stumbled over itself: one of its transports has let go of its loop, and is asked again."""
    return any("'NoneType' object has no attribute" in str(entry) for entry in reference)


def compare(body: Body, pair: Pair = PAIR, *, runs: int = RUNS_TO_BE_SURE) -> Verdict:
    reference, subject = pair.of(body)
    expected, seen = perform(body, reference), perform(body, subject)
    if expected == seen:
        return Verdict("same", expected, seen)
    if is_unfit(expected):
        return Verdict("unfit", expected, seen)
    for _ in range(runs - 1):
        again, seen_again = perform(body, reference), perform(body, subject)
        if again != expected or seen_again == expected:
            return Verdict("unsettled", expected, seen)
    return Verdict("different", expected, seen)


def is_steady(body: Body, pair: Pair = PAIR) -> bool:
    """True if two runs on the reference agree."""
    reference, _ = pair.of(body)
    return perform(body, reference) == perform(body, reference)
