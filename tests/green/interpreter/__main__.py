"""`python -m tests.green.interpreter [-j N] [module ...]`: runs the modules plain and patched, and compares."""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import test

from tests.green.interpreter.modules import MODULES, compared, known, regressions
from tests.green.interpreter.run import Outcome


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.green.interpreter", description=__doc__)
    parser.add_argument("modules", nargs="*", default=MODULES)
    parser.add_argument("-j", type=int, default=2, help="so many children at a time")
    parser.add_argument("--out", type=Path, help="a file for the outcomes, as JSON")
    parser.add_argument("-v", action="store_true", help="show tracebacks")
    options = parser.parse_args()
    report: dict[str, tuple[Outcome, Outcome]] = {}
    with ThreadPoolExecutor(options.j) as pool:
        # Start the longest modules first.
        runs = {pool.submit(compared, module): module for module in sorted(options.modules, key=_length, reverse=True)}
        for done in as_completed(runs):
            report[runs[done]] = done.result()
            _show(runs[done], *done.result(), options.v)
    if options.out:
        options.out.write_text(json.dumps({module: list(map(vars, each)) for module, each in report.items()}))
    sys.exit(_sum_up(report))


def _length(module: str) -> int:
    path = Path(test.__path__[0]) / module.replace(".", "/")
    return path.with_suffix(".py").stat().st_size if path.with_suffix(".py").exists() else 0


def _sum_up(report: dict[str, tuple[Outcome, Outcome]]) -> bool:
    """Print the results. Return whether there are failures that are not listed."""
    failing = {
        name: patched.states.get(name, "missing")
        for plain, patched in report.values()
        for name in regressions(plain, patched)
    }
    run = {name for plain, _ in report.values() for name in plain.states}
    passed = sum(state == "passed" for plain, _ in report.values() for state in plain.states.values())
    hung = sum(state == "hung" for state in failing.values())
    print(f"{len(run)} tests, {passed} pass plain; {len(failing)} of these do not pass patched, {hung} by hanging")
    for name in sorted(run & known(for_certain=True).keys() - failing.keys()):
        print("listed, and not failing:", name)
    unknown = sorted(failing.keys() - known().keys())
    for name in unknown:
        print(f"not listed in known.toml: {name} ({failing[name]})")
    return bool(unknown)


def _show(module: str, plain: Outcome, patched: Outcome, is_verbose: bool) -> None:
    found = regressions(plain, patched)
    took = f"plain {plain.seconds} s, patched {patched.seconds} s"
    print(f"{module}: {len(plain.states)} tests, {len(found)} regress; {took}", flush=True)
    for name in found:
        print(f"  {patched.states.get(name, 'missing')} {name}")
        if is_verbose:
            print("\n".join("    " + line for line in patched.details.get(name, "").splitlines()[-14:]))


if __name__ == "__main__":
    main()
