"""Command line: run the interpreter's asyncio tests, compare oneloop with stock asyncio, say what differs.

Exit status 0 when every test that stock asyncio passes here passes on oneloop too or is excused by name; 1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time

from tests.conformance import bootstrap, catalogue, runner
from tests.conformance.runner import LoopResults
from tests.suites.exceptions import VERSION, module_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("modules", nargs="*", help="modules of test.test_asyncio; all by default")
    parser.add_argument("--only", action="append", help="the name of a test; may be given several times")
    parser.add_argument("--loop", choices=(*bootstrap.LOOPS, "both"), default="both")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=45.0, help="seconds that one test may take")
    parser.add_argument("--verbose", action="store_true", help="print why each differing test failed")
    parser.add_argument(
        "--strict",
        action="store_true",
        default="ONELOOP_STRICT" in os.environ,
        help="entries of exceptions.toml that hold no more are errors",
    )
    arguments = parser.parse_args()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job
        signal.signal(signal.SIGINT, signal.default_int_handler)
    exceptions = catalogue.load()
    only = set(arguments.only) if arguments.only else None
    of_only = tuple(dict.fromkeys(module_of(name) for name in arguments.only or ()))
    modules = tuple(arguments.modules) or of_only or exceptions.all_modules()
    loops = bootstrap.LOOPS if arguments.loop == "both" else (arguments.loop,)
    results: dict[str, LoopResults] = {}

    def excused(name: str) -> bool:
        return exceptions.excuse(name) is not None

    def nothing(_: str) -> bool:
        return False

    began_s = time.monotonic()
    for loop in loops:
        started = time.monotonic()
        results[loop] = runner.run_loop(
            loop,
            modules,
            jobs=arguments.jobs,
            limit_s=arguments.limit,
            is_expected=excused if loop == "oneloop" else nothing,
            only=only,
        )
        print(f"# {loop} on Python {sys.version.split()[0]}: {time.monotonic() - started:.0f} s", flush=True)
    problems: list[str] = []
    stale = [line for each in results.values() for line in exceptions.names_nothing(each.known, modules)]
    print_table(results, modules)
    if "oneloop" in results:
        problems += judge(results["oneloop"], results.get("asyncio"), exceptions)
        stale += needless(results["oneloop"], exceptions)
    else:
        problems += [f"fails on stock asyncio: {name}" for name in failures(results["asyncio"])]
    print_details(results, verbose=arguments.verbose)
    problems += stale if arguments.strict else []
    for line in dict.fromkeys([] if arguments.strict else stale):
        print(f"WARNING exceptions.toml: {line}")
    for problem in dict.fromkeys(problems):
        print(f"FAIL {problem}")
    last = results[loops[-1]]
    sums = f"{last.count('passed')} passed, {len(problems)} failed, {last.count('skipped')} skipped"
    print(f"{sums} in {time.monotonic() - began_s:.1f}s")
    print(f"conformance, Python {VERSION}: " + ("FAILED" if problems else "passed"), flush=True)
    return 1 if problems else 0


def failures(results: LoopResults) -> list[str]:
    return sorted(name for name, result in results.outcomes.items() if result.outcome == "failed")


def judge(ours: LoopResults, stock: LoopResults | None, exceptions: catalogue.Catalogue) -> list[str]:
    """What is wrong with oneloop's results, as lines that name the test."""
    problems = []
    for name in sorted(set(ours.outcomes) | set(stock.outcomes if stock else ())):
        mine = ours.outcomes.get(name)
        theirs = stock.outcomes.get(name) if stock else None
        outcome = mine.outcome if mine else "missing"
        if exceptions.excuse(name) is not None:
            continue
        if mine is not None and mine.is_final:
            problems.append(f"dies by a signal on oneloop: {name}")
        elif outcome == "failed" and (theirs is None or theirs.outcome != "failed"):
            problems.append(f"fails on oneloop: {name}")
        elif outcome != "passed" and theirs is not None and theirs.outcome == "passed":
            problems.append(f"passes on stock asyncio, {outcome} on oneloop: {name}")
    return problems


def needless(ours: LoopResults, exceptions: catalogue.Catalogue) -> list[str]:
    """Excused tests that pass."""
    return [
        f"excused, but passes: {name} ({excuse})"
        for name, result in sorted(ours.outcomes.items())
        if result.outcome == "passed" and (excuse := exceptions.excuse(name)) is not None
    ]


def print_table(results: dict[str, LoopResults], modules: tuple[str, ...]) -> None:
    head = "".join(f"{loop + ' passed':>16}{'skipped':>9}{'failed':>8}" for loop in results)
    print(f"{'module':<26}{head}{'on a loop of ours':>20}")
    for module in (*modules, None):
        row = "".join(
            f"{r.count('passed', module):>16}{r.count('skipped', module):>9}{r.count('failed', module):>8}"
            for r in results.values()
        )
        ours = results["oneloop"].count("passed", module, ours=True) if "oneloop" in results else 0
        print(f"{module or 'all':<26}{row}{ours:>20}")


def print_details(results: dict[str, LoopResults], *, verbose: bool) -> None:
    for loop, loop_results in results.items():
        for name, result in sorted(loop_results.outcomes.items()):
            if result.is_retried:
                print(f"note: {loop}: {name} passed only when run again alone")
                if verbose:
                    print(result.detail)
            elif result.outcome == "failed":
                last = result.detail.strip().splitlines()[-1:] or ["no message"]
                print(f"note: {loop}: {name} failed: {last[0][:200]}")
                if verbose:
                    print(result.detail)


if __name__ == "__main__":
    sys.exit(main())
