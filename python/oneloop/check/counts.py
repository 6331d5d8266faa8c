"""`Counts`: how often each outcome occurred. `Rules`: which outcomes are failures. No results are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oneloop.check.result import ERRORS

if TYPE_CHECKING:
    from oneloop.check.result import BadLine, Result

__all__ = ["BAD_LINE", "Counts", "Rules"]

BAD_LINE = "bad_line"
"""The outcome under which bad lines are counted."""

ANY_ERROR = "error"
"""The rule that matches all error classes."""

_CLASSES = (*ERRORS, BAD_LINE)
_RULES = (*_CLASSES, ANY_ERROR)
_STATUS = re.compile(r"[1-9]([0-9]{2}|xx)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rules:
    """The outcomes that are failures: statuses (`404`), classes of statuses (`5xx`), error classes, `bad_line`."""

    names: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> Rules:
        """Parse a list of rules.

        Args:
            text: the rules, separated by commas: `5xx,404,dns`.

        Returns:
            The rules.

        Raises:
            ValueError: a rule is unknown; the message lists the known ones.
        """
        names = [name.strip().lower() for name in text.split(",")]
        for name in names:
            if name not in _RULES and not _STATUS.fullmatch(name):
                known = ", ".join(_RULES)
                raise ValueError(
                    f"no rule {name!r}: a rule is a status (404), a class of statuses (5xx), or one of {known}"
                )
        return cls(frozenset(names))

    def match(self, outcome: str) -> bool:
        """Return whether an outcome is a failure."""
        if outcome.isdigit():
            return outcome in self.names or (len(outcome) == 3 and f"{outcome[0]}xx" in self.names)
        return outcome in self.names or (ANY_ERROR in self.names and outcome in ERRORS)


class Counts:
    """How often each outcome occurred. `str()` returns one line of JSON: `{"200": 31}`.

    Args:
        counts: the counts to start with.
    """

    __slots__ = ("_of",)

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self._of: dict[str, int] = dict(counts or {})

    @property
    def bad_lines(self) -> int:
        """The number of bad lines."""
        return self._of.get(BAD_LINE, 0)

    @property
    def total(self) -> int:
        """The number of all entries, including bad lines."""
        return sum(self._of.values())

    def add(self, result: Result | BadLine) -> None:
        """Count a result or a bad line."""
        outcome = getattr(result, "outcome", BAD_LINE)
        self._of[outcome] = self._of.get(outcome, 0) + 1

    def merge(self, other: Counts | Mapping[str, int]) -> None:
        """Add other counts to these."""
        for outcome, count in (other._of if isinstance(other, Counts) else other).items():
            self._of[outcome] = self._of.get(outcome, 0) + count

    def as_dict(self) -> dict[str, int]:
        """Return the outcomes that occurred: statuses by number, then error classes, then `bad_line`."""
        return {outcome: self._of[outcome] for outcome in sorted(self._of, key=_place)}

    def fails(self, rules: Rules) -> bool:
        """Return whether one of the counted outcomes is a failure."""
        return any(map(rules.match, self._of))

    def __str__(self) -> str:
        return json.dumps(self.as_dict())

    def __repr__(self) -> str:
        return f"Counts({self.as_dict()})"

    def __eq__(self, other: object) -> bool:
        return self._of == other._of if isinstance(other, Counts) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


def _place(outcome: str) -> tuple[int, int, str]:
    if outcome.isdigit():
        return (0, int(outcome), "")
    return (1, _CLASSES.index(outcome) if outcome in _CLASSES else len(_CLASSES), outcome)
