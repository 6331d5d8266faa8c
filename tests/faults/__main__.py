"""`python -m tests.faults [SCENARIO…]`: runs every fault of every system call of the scenarios, and says what it found.

The extension must be built with the feature `faults` (scripts/build-faults.sh; `make faults` does all of it).
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections import Counter

from tests.faults import runs
from tests.faults.runs import Case, Counts, Scenario, Seen
from tests.faults.scenarios import MODULES


def explore(scenario: Scenario, options: argparse.Namespace) -> tuple[Counter[str], list[tuple[str, Seen]]]:
    """Run a scenario without and with faults. Return the sums of outcomes and what is not allowed."""
    warm = runs.perform(scenario, None, None)
    if warm.found:
        return Counter(), [("without a fault", warm)]
    [(_, usual)] = runs.children(scenario, [None], None, 1)
    if usual.found:
        return Counter(), [("without a fault, in a child", usual)]
    cases = _cases(usual.counts, options)
    sums: Counter[str] = Counter()
    violations: list[tuple[str, Seen]] = []
    for case, seen in runs.children(scenario, list(cases), usual.counts, options.jobs):
        how = "not reached" if not seen.fired else "right" if seen.outcome == "right" else "an error"
        sums["forbidden" if seen.found else how] += 1
        if seen.found:
            violations.append((str(case), seen))
        if options.verbose:
            print(f"  {case}: {seen.outcome}", flush=True)
    return sums, violations


def _cases(counts: Counts, options: argparse.Namespace) -> list[Case]:
    if options.case:
        call, kind, first = options.case.rsplit(":", 2)
        return [Case(call, kind, int(first))]
    calls = frozenset(options.call) if options.call else None
    cases = runs.cases_of(counts, most=options.most, wrong=options.wrong, calls=calls)
    return cases[:: options.every]


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="parts of names; all by default")
    parser.add_argument("--most", type=int, default=40, help="of the calls of one function, so many fail")
    parser.add_argument("--every", type=int, default=1, help="run each n-th case only")
    parser.add_argument("--call", action="append", help="only these calls")
    parser.add_argument("--case", help="one case: CALL:KIND:NUMBER")
    parser.add_argument("--wrong", action="store_true", help="also EBADF and EINVAL")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", "-v", action="store_true")
    options = parser.parse_args()
    total: Counter[str] = Counter()
    for module in MODULES:
        for scenario in importlib.import_module(f"tests.faults.scenarios.{module}").SCENARIOS:
            if options.scenarios and not any(part in scenario.name for part in options.scenarios):
                continue
            began_s = time.monotonic()
            sums, violations = explore(scenario, options)
            total += sums
            words = ", ".join(f"{count} {how}" for how, count in sorted(sums.items()))
            print(f"{scenario.name}: {sums.total()} runs in {time.monotonic() - began_s:.1f} s: {words}", flush=True)
            for name, seen in violations:
                print(f"  FORBIDDEN: {name}: {seen.outcome}")
                for each in seen.found:
                    print("    " + each.rstrip().replace("\n", "\n      "), flush=True)
            total["forbidden"] += not sums and len(violations)
    print(f"{total.total()} runs: " + ", ".join(f"{count} {how}" for how, count in sorted(total.items())))
    return int(total["forbidden"] > 0)


if __name__ == "__main__":
    sys.exit(main())
