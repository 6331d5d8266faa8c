"""What a scenario saw, and whether that is allowed."""

from __future__ import annotations

import errno as errnos
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.faults.kinds import is_transient, number_of


class ViolationError(Exception):
    """The scenario saw something that must never happen."""


@dataclass
class Evidence:
    """Filled by the scenario while it runs. Any thread may append."""

    damaged: list[str] = field(default_factory=list)
    """Connections, files… whose result was not the right one; all else was right."""
    errors: list[BaseException] = field(default_factory=list)
    """Exceptions that were raised to the program, given to connection_lost, or reported to the exception handler."""
    reports: list[str] = field(default_factory=list)
    """Of the exception handler, without an exception."""
    elsewhere: dict[str, int] = field(default_factory=dict)
    """The calls of other processes that have the same plan: the most of any of them."""
    has_failed_elsewhere: bool = False
    """Another process has ended before it could say what it has called."""
    raised: BaseException | None = None
    """What ended the program. Then no connection can be right."""

    def handler(self, _loop: object, context: dict[str, object]) -> None:
        """Use as the loop's exception handler."""
        error = context.get("exception")
        if isinstance(error, BaseException):
            self.errors.append(error)
        else:
            self.reports.append(str(context.get("message")))


def _chain(error: BaseException) -> list[BaseException]:
    """The error, what it was raised from, and the members of a group."""
    found: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or any(each is known for known in found):
            continue
        found.append(each)
        waiting += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
    return found


def tells(error: BaseException, errno: int) -> bool:
    """Whether an exception says what has failed."""
    return any(isinstance(each, OSError) and each.errno == errno for each in _chain(error))


NEVER = (SystemError, AssertionError, AttributeError, TypeError, NameError, RecursionError, ReferenceError, LookupError)


def judge(
    evidence: Evidence, call: str, kind: str, *, fired: bool, tolerated: tuple[type[BaseException], ...], most: int = 1
) -> list[str]:
    """Return what is not allowed. `tolerated`: exceptions that follow from others; `most`: so many are one fault's."""
    found = [
        f"an exception of a mistake: {error!r}"
        for error in evidence.errors
        if any(isinstance(each, NEVER) for each in _chain(error))
    ]
    if not fired or is_transient(call, kind):
        found += [f"damaged by what is transient: {each}" for each in evidence.damaged]
        found += [f"an error from what is transient: {error!r}" for error in evidence.errors]
        found += [f"a report of what is transient: {report}" for report in evidence.reports]
        return found
    if len(evidence.damaged) > most and evidence.raised is None:
        found.append(f"a neighbour is damaged too: {evidence.damaged}")
    if evidence.damaged and not evidence.errors and not evidence.reports:
        found.append(f"lost without an error: {evidence.damaged}")
    number = number_of(kind)
    if number is not None:
        known = {number, *SAME.get(number, ())}
        for error in evidence.errors:
            if not any(tells(error, each) for each in known) and not isinstance(error, tolerated):
                found.append(f"another error than the one that happened: {error!r}")
    return found


SAME: Mapping[int, tuple[int, ...]] = {errnos.EIO: (), errnos.ENOSYS: (errnos.EOPNOTSUPP,)}
