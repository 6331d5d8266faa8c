"""Runs cases in interleaved rounds (A B C A B C …) and keeps what is finished, whatever happens.

A rival that fails is not asked again in that case; the others go on. Ctrl-C ends the run, and what was measured until
then is the result. Knows neither how a case measures nor how results are shown.
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
    except Exception as error:  # three hours of results are worth more than a tidy end
        reason = f"the bench itself failed: {type(error).__name__}: {error}"
        row.status, row.reason, sample = "failed", reason, None
    row.samples.append(sample)


def run_case(case: Case, settings: Settings, observe: Observer, result: Result) -> None:
    """Fills result round by round, so that an interruption leaves what was measured."""
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
    """Returns the results and whether the run was interrupted."""
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
    """How many there will be if nobody fails."""
    return sum(len(case.rivals) for case in cases) * settings.rounds
