"""`python -m tests.differential`: many programs, and every failure shrunk and printed, ready to be pasted into a test.

uv-less and simple on purpose: one process plays program after program; run two for two cores.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import re
import sys
import time

from tests.differential import author, program, shrinking, subjects
from tests.differential.comparison import compare


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--family", action="append", choices=[family.name for family in subjects.ALL])
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds of each family")
    parser.add_argument("--minutes", type=float, help="stop after this time; the default is to stop after the seeds")
    parser.add_argument("--without", default="", help="verbs to leave out, with commas between them")
    parser.add_argument("--replace", default="", help="words to replace in arguments: bare=wire,tcp=unix")
    parser.add_argument("--known", help="pass over failures of which every line that differs matches this pattern")
    parser.add_argument("--most", type=int, default=5, help="stop a family after this many failures")
    parser.add_argument("--print", action="store_true", help="print the programs of the seeds and play nothing")
    arguments = parser.parse_args()
    gc.freeze()
    failed = 0
    for family in subjects.ALL:
        if arguments.family is None or family.name in arguments.family:
            failed += Run(family, arguments).run()
    return 1 if failed else 0


class Run:
    """The seeds of one family."""

    def __init__(self, family: author.Family, arguments: argparse.Namespace) -> None:
        self.family = family
        self.arguments = arguments
        self.unwanted = frozenset(filter(None, arguments.without.split(",")))
        self.names = dict(pair.split("=") for pair in arguments.replace.split(",") if pair)
        self.failures = 0
        self.known = re.compile(arguments.known) if arguments.known else None
        self.known_failures = 0
        self.unfit = 0
        self.unsettled: list[int] = []

    def body(self, seed: int) -> program.Body:
        body: program.Body = program.without(author.write(self.family, seed), self.unwanted)
        replaced: program.Body = program.replaced(body, self.names)
        return replaced

    def run(self) -> int:
        began = time.monotonic()
        seeds = range(self.arguments.start, self.arguments.start + self.arguments.seeds)
        played = 0
        for seed in seeds:
            if self.arguments.print:
                print(f"# {self.family.name} {seed}\n{program.literal(self.body(seed))}")
                continue
            if self.arguments.minutes is not None and time.monotonic() - began > self.arguments.minutes * 60:
                break
            self.one(seed)
            played += 1
            if self.failures >= self.arguments.most:
                break
        took = time.monotonic() - began
        print(f"{self.family.name}: {played} programs in {took:.1f} s, {self.failures} failures, {self.known_failures} known, {self.unfit} unfit, "
              f"{len(self.unsettled)} unsettled {self.unsettled[:10]}", flush=True)  # fmt: skip
        return self.failures

    def one(self, seed: int) -> None:
        faulthandler.dump_traceback_later(60, exit=True)
        body = self.body(seed)
        verdict = compare(body)
        if verdict.what == "unfit":
            self.unfit += 1
        elif verdict.what == "unsettled":
            self.unsettled.append(seed)
        elif verdict.what == "different":
            if self.known is not None and verdict.is_only(self.known):
                self.known_failures += 1
                faulthandler.cancel_dump_traceback_later()
                return
            self.failures += 1
            print(f"FAIL {self.family.name} {seed}: shrinking {program.count(body)} actions", flush=True)
            faulthandler.cancel_dump_traceback_later()
            small = shrinking.shrink(body, lambda smaller: compare(smaller, runs=2).what == "different")
            print(f"{program.literal(small)}\n{compare(small).text()}\n", flush=True)
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    sys.exit(main())
