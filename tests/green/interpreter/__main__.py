"""`python -m tests.green.interpreter [-j N] [module ...]`: runs the modules plain and patched, and compares."""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.green.interpreter.modules import MODULES, known, regressions
from tests.green.interpreter.run import Outcome, run_module


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.green.interpreter", description=__doc__)
    parser.add_argument("modules", nargs="*", default=MODULES)
    parser.add_argument("-j", type=int, default=2, help="so many children at a time")
    parser.add_argument("--out", type=Path, help="a file for the outcomes, as JSON")
    parser.add_argument("-v", action="store_true", help="show tracebacks")
    options = parser.parse_args()
    report: dict[str, dict[str, Outcome]] = {}
    with ThreadPoolExecutor(options.j) as pool:
        runs = [
            (module, is_patched, pool.submit(run_module, module, patched=is_patched))
            for module in options.modules
            for is_patched in (False, True)
        ]
        for module, is_patched, future in runs:
            report.setdefault(module, {})["patched" if is_patched else "plain"] = future.result()
            if is_patched:
                _show(module, report[module], options.v)
    failing = {module: regressions(each["plain"], each["patched"]) for module, each in report.items()}
    total = sum(len(each["plain"].states) for each in report.values())
    count = sum(map(len, failing.values()))
    print(f"{total} tests, {count} pass plain and not patched")
    if options.out:
        options.out.write_text(json.dumps({m: {k: vars(o) for k, o in each.items()} for m, each in report.items()}))
    unknown = [test for module, tests in failing.items() for test in tests if test not in known()]
    for test in unknown:
        print("not listed in known.toml:", test)
    sys.exit(bool(unknown))


def _show(module: str, each: dict[str, Outcome], is_verbose: bool) -> None:
    plain, patched = each["plain"], each["patched"]
    found = regressions(plain, patched)
    took = f"plain {plain.seconds} s, patched {patched.seconds} s"
    print(f"{module}: {len(plain.states)} tests, {len(found)} regress; {took}", flush=True)
    for test in found:
        print(f"  {patched.states.get(test, 'missing')} {test}")
        if is_verbose:
            print("\n".join("    " + line for line in patched.details.get(test, "").splitlines()[-14:]))


if __name__ == "__main__":
    main()
