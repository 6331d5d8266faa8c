"""Runs cases in interleaved rounds and keeps all finished measurements.

The order of each round is another one, so that none is always measured after the same one (`order`). A rival that fails
is not measured again in that case; the others continue. Ctrl-C ends the run, and the measurements until then are the
result. Independent of how a case measures and how results are shown.

With `Settings.again`, one rival of each case is measured a second time in each round, in a row of its own: how far its
ratio to itself is from 1.00 is the noise of the row's measurement (an A/A test). Half of the round lies between them,
more than between most rivals, so that what the machine does meanwhile is part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bench.catalogue import SUBJECT
from bench.model import Case, Result, RivalFailedError, RivalMissingError, Row, Sample, Settings

#: Called after every measurement: case, round (from 0), rival, its row.
Observer = Callable[[Case, int, str, Row], None]


#: Behind the name of the rival that is measured twice.
AGAIN = " (again)"
#: For `Settings.again`: of each case its baseline, or its first rival if that does not take part.
EACH_BASELINE = "baseline"


def _measure_into(row: Row, case: Case, settings: Settings) -> None:
    try:
        sample: Sample | None = case.measure(row.rival.removesuffix(AGAIN), settings)
    except RivalMissingError as missing:
        row.status, row.reason, sample = "missing", str(missing), None
    except RivalFailedError as failure:
        row.status, row.reason, sample = "failed", str(failure), None
    except Exception as error:  # Keep the results of a long run, whatever the error is.
        reason = f"the bench itself failed: {type(error).__name__}: {error}"
        row.status, row.reason, sample = "failed", reason, None
    row.samples.append(sample)


def order(count: int, number: int) -> list[int]:
    """The order of `count` rows in a round: a Williams design.

    Over all rounds of the design (as many as there are rows, or twice as many if that is odd) each row is measured
    equally often directly after each other one. In a mere rotation each would always follow the same one.
    """
    row = [(place // 2 if place % 2 == 0 else count - 1 - place // 2) for place in range(count)]
    turned = [(one + number) % count for one in row]
    return turned[::-1] if count % 2 and number % 2 else turned


def round_order(names: Sequence[str], number: int) -> list[int]:
    """The order of the rows in a round: `order`, and what is measured again half of the round away from itself."""
    again = next((index for index, name in enumerate(names) if name.endswith(AGAIN)), None)
    once = [index for index in range(len(names)) if index != again]
    found = [once[place] for place in order(len(once), number)]
    if again is not None:
        first = found.index(names.index(names[again].removesuffix(AGAIN)))
        half = max(1, len(once) // 2)
        found.insert(first + half if first < half else first - half, again)
    return found


def run_case(case: Case, settings: Settings, observe: Observer, result: Result) -> None:
    """Fills `result` round by round, so that an interruption keeps the finished measurements."""
    for number in range(settings.rounds):
        for row in [result.rows[index] for index in round_order([row.rival for row in result.rows], number)]:
            if row.status != "ok":
                continue
            _measure_into(row, case, settings)
            observe(case, number, row.rival, row)
        result.rounds_done = number + 1


def measured_twice(case: Case, again: str) -> str:
    """The rival of the case that is measured twice; empty if `again` does not take part."""
    if again != EACH_BASELINE:
        return again if again in case.rivals else ""
    if case.baseline in case.rivals:
        return case.baseline
    rivals = [rival for rival in case.rivals if not rival.startswith(("floor", SUBJECT))]
    return rivals[0] if rivals else ""


def row_names(case: Case, settings: Settings) -> list[str]:
    """The rivals, and that which `settings.again` names a second time."""
    again = measured_twice(case, settings.again)
    return [*case.rivals, *([f"{again}{AGAIN}"] if again else [])]


def run_cases(
    cases: Iterable[Case], settings: Settings, observe: Observer, finished: Callable[[Result], None]
) -> tuple[list[Result], bool]:
    """Runs the cases. Returns the results and whether the run was interrupted."""
    results: list[Result] = []
    for case in cases:
        result = Result(case, [Row(rival) for rival in row_names(case, settings)])
        try:
            run_case(case, settings, observe, result)
        except KeyboardInterrupt:
            if any(sample for row in result.rows for sample in row.samples):
                results.append(result)
                finished(result)
            return results, True
        results.append(result)
        finished(result)
    return results, False


def count_measurements(cases: Sequence[Case], settings: Settings) -> int:
    """The number of measurements if no rival fails."""
    return sum(len(row_names(case, settings)) for case in cases) * settings.rounds
