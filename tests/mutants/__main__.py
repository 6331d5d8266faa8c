"""Command line: apply mutants one by one and say which of them no test has seen.

Exit status 0 when every mutant was killed; 1 when one survived, does not build, or has a record that no longer fits.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.mutants import records
from tests.mutants.records import CARGO, Mutant, RecordError
from tests.mutants.workshop import ROOT, BuildError, Workshop

LIMIT_S = 20.0


@dataclass
class Verdict:
    """What became of one mutant."""

    mutant: Mutant
    outcome: str
    detail: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="names or patterns of mutants; all by default")
    parser.add_argument("--list", action="store_true", help="show the mutants and check that they can be applied")
    parser.add_argument("--python", action="store_true", help="only those that need no build")
    parser.add_argument("--verbose", action="store_true", help="show why tests failed")
    arguments = parser.parse_args()
    try:
        mutants = chosen(records.load(), arguments.names)
    except RecordError as error:
        print(f"FAIL {error}")
        return 1
    if unfit := [reason for mutant in mutants if (reason := misfit(mutant))]:
        print(*unfit, sep="\n")
        return 1
    if arguments.python:
        mutants = [mutant for mutant in mutants if not mutant.file.startswith("crates/")]
    if arguments.list:
        for mutant in mutants:
            print(f"{mutant.name:<44} {mutant.file}: {mutant.reason}")
        return 0
    return judge_all(mutants, verbose=arguments.verbose)


def misfit(mutant: Mutant) -> str:
    """Why a mutant cannot be applied any more; nothing if it can."""
    try:
        mutant.applied(ROOT)
    except RecordError as error:
        return f"FAIL {error}"
    return ""


def chosen(mutants: list[Mutant], patterns: list[str]) -> list[Mutant]:
    for pattern in patterns:
        if not any(fnmatchcase(mutant.name, pattern) for mutant in mutants):
            raise RecordError(f"no mutant is named {pattern}")
    return [m for m in mutants if not patterns or any(fnmatchcase(m.name, pattern) for pattern in patterns)]


def judge_all(mutants: list[Mutant], *, verbose: bool) -> int:
    workshop = Workshop()
    wrong = healthy(workshop, mutants)
    if wrong:
        print(f"FAIL without any mutant: {wrong}")
        return 1
    verdicts = []
    for mutant in mutants:
        started = time.monotonic()
        verdict = judge(workshop, mutant)
        verdicts.append(verdict)
        print(f"{verdict.outcome:<9} {time.monotonic() - started:5.0f} s  {mutant.name}", flush=True)
        if verdict.detail and (verbose or verdict.outcome != "killed"):
            print(verdict.detail)
    left = [verdict for verdict in verdicts if verdict.outcome != "killed"]
    for verdict in left:
        print(f"FAIL {verdict.outcome}: {verdict.mutant.name}: {verdict.mutant.reason}")
    print(f"mutants: {len(verdicts) - len(left)} killed of {len(verdicts)}")
    return 1 if left else 0


def healthy(workshop: Workshop, mutants: list[Mutant]) -> str:
    """Nothing if the tests pass while nothing is wrong: else they would kill anything."""
    tests = sorted({test for mutant in mutants for test in mutant.tests if not test.startswith(CARGO)})
    try:
        if any(mutant.is_native for mutant in mutants):
            workshop.build()
        else:
            workshop.take_module()
        for test in sorted({test for mutant in mutants for test in mutant.tests if test.startswith(CARGO)}):
            workshop.cargo("test", *test.removeprefix(CARGO).split())
    except BuildError as error:
        return str(error)
    status, said = workshop.pytest(tests, LIMIT_S) if tests else (0, "")
    return said if status else ""


def judge(workshop: Workshop, mutant: Mutant) -> Verdict:
    """Apply one mutant, run its tests, undo it."""
    workshop.change(mutant.file, mutant.applied(ROOT))
    try:
        try:
            if mutant.is_native:
                workshop.build()
            elif mutant.file.startswith("crates/"):
                # Built first: a compiler's error kills no mutant.
                workshop.cargo("test", "--no-run", "--package", f"oneloop-{mutant.file.split('/')[1]}")
        except BuildError as error:
            return Verdict(mutant, "unbuilt", str(error))
        for test in mutant.tests:
            said = failure(workshop, test)
            if said:
                return Verdict(mutant, "killed", said)
        return Verdict(mutant, "survived")
    finally:
        workshop.restore(mutant.file)


def failure(workshop: Workshop, test: str) -> str:
    """What a test says that fails; nothing if it passes."""
    if test.startswith(CARGO):
        try:
            workshop.cargo("test", *test.removeprefix(CARGO).split())
        except BuildError as error:
            return str(error)
        return ""
    status, said = workshop.pytest([test], LIMIT_S)
    if status in (4, 5):  # pytest's own: a name that does not exist, or that chooses nothing
        raise SystemExit(f"{test} names no test:\n{said}")
    return said if status else ""


if __name__ == "__main__":
    sys.exit(main())
