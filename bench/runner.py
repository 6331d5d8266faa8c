"""Runs cases in interleaved rounds (A B C A B C …) and keeps all finished measurements.

A rival that fails is not measured again in that case; the others continue. Ctrl-C ends the run, and the measurements
until then are the result. Independent of how a case measures and how results are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bench.model import Case, Result, RivalFailedError, RivalMissingError, Row, Sample, Settings

#: Called after every measurement: case, round (from 0), rival, its row.
Observer = Callable[[Case, int, str, Row], None]


def _measure_into(row: Row, case: Case, settings: Settings) -> None:
    try:
        sample: Sample | None = case.measure(row.rival, settings)
    except RivalMissingError as missing:
        row.status, row.reason, sample = "missing", str(missing), None
    except RivalFailedError as failure:
        row.status, row.reason, sample = "failed", str(failure), None
    except Exception as error:  # Keep the results of a long run, whatever the error is.
        reason = f"the bench itself failed: {type(error).__name__}: {error}"
        row.status, row.reason, sample = "failed", reason, None
    row.samples.append(sample)


def run_case(case: Case, settings: Settings, observe: Observer, result: Result) -> None:
    """Fills `result` round by round, so that an interruption keeps the finished measurements."""
    for number in range(settings.rounds):
        for row in result.rows:
            if row.status != "ok":
                continue
            _measure_into(row, case, settings)
            observe(case, number, row.rival, row)
        result.rounds_done = number + 1


def run_cases(
    cases: Iterable[Case], settings: Settings, observe: Observer, finished: Callable[[Result], None]
) -> tuple[list[Result], bool]:
    """Runs the cases. Returns the results and whether the run was interrupted."""
    results: list[Result] = []
    for case in cases:
        result = Result(case, [Row(rival) for rival in case.rivals])
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
    return sum(len(case.rivals) for case in cases) * settings.rounds
