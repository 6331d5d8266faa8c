"""`python -m tests.differential`: many programs, and every failure shrunk and printed, ready to be pasted into a test.

With --minutes, round after round of all families, each in a process of its own, so that a crash ends no more than that.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field

from tests.differential import author, program, shrinking, subjects
from tests.differential.comparison import compare

# Longer than any program with its repetitions; then the interpreter itself hangs.
LIMIT_S = 60
SEEDS_PER_ROUND = 500


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    names = [family.name for family in subjects.ALL]
    parser.add_argument(
        "--family", action="append", choices=names, help="may be given several times; the default is all"
    )
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=SEEDS_PER_ROUND, help="how many seeds of each family")
    parser.add_argument("--minutes", type=float, help="go on with more seeds for so long")
    parser.add_argument("--without", default="", help="verbs to leave out, with commas between them")
    parser.add_argument("--replace", default="", help="words to replace in arguments: bare=wire,tcp=unix")
    parser.add_argument("--known", help="pass over failures of which every line that differs matches this pattern")
    parser.add_argument("--most", type=int, default=5, help="stop a family after this many failures")
    parser.add_argument("--print", action="store_true", help="print the programs of the seeds and play nothing")
    arguments = parser.parse_args()
    arguments.family = arguments.family or names
    if arguments.minutes is not None:
        return soak(arguments)
    gc.freeze()
    failed = 0
    for name in arguments.family:
        run = Run(subjects.named(name), arguments)
        run.all()
        print(run.summary(), flush=True)
        failed += run.failures
    return 1 if failed else 0


def soak(arguments: argparse.Namespace) -> int:
    """Rounds in processes of their own until the time is up."""
    end = time.monotonic() + arguments.minutes * 60
    start, failed = arguments.start, False
    while time.monotonic() < end:
        for name in arguments.family:
            command = [sys.executable, "-m", "tests.differential", "--family", name, "--start", str(start)]
            for option in ("seeds", "most", "without", "replace", "known"):
                value = getattr(arguments, option)
                if value:
                    command += [f"--{option}", str(value)]
            status = subprocess.run(command, check=False).returncode
            if status not in (0, 1):
                print(f"FAIL {name}: a process ended with status {status} at a seed from {start} on", flush=True)
            failed = failed or status != 0
            if time.monotonic() > end:
                break
        start += arguments.seeds
    print("differential: " + ("FAILED" if failed else "passed"))
    return 1 if failed else 0


@dataclass
class Run:
    """The seeds of one family."""

    family: author.Family
    arguments: argparse.Namespace
    played: int = 0
    failures: int = 0
    known: int = 0
    unfit: int = 0
    unsettled: list[int] = field(default_factory=list)
    took_s: float = 0.0

    def body(self, seed: int) -> program.Body:
        """The program of a seed, with what was asked to be left out or replaced."""
        unwanted = frozenset(filter(None, self.arguments.without.split(",")))
        names = dict(pair.split("=") for pair in self.arguments.replace.split(",") if pair)
        body: program.Body = program.replaced(program.without(author.write(self.family, seed), unwanted), names)
        return body

    def all(self) -> None:
        began = time.monotonic()
        for seed in range(self.arguments.start, self.arguments.start + self.arguments.seeds):
            if self.arguments.print:
                print(f"# {self.family.name} {seed}\n{program.literal(self.body(seed))}")
                continue
            faulthandler.dump_traceback_later(LIMIT_S, exit=True)
            self.one(seed)
            faulthandler.cancel_dump_traceback_later()
            self.played += 1
            if self.failures >= self.arguments.most:
                break
        self.took_s = time.monotonic() - began

    def one(self, seed: int) -> None:
        body = self.body(seed)
        verdict = compare(body)
        if verdict.what == "unfit":
            self.unfit += 1
        elif verdict.what == "unsettled":
            self.unsettled.append(seed)
        elif verdict.what == "different":
            if self.arguments.known and verdict.is_only(re.compile(self.arguments.known)):
                self.known += 1
                return
            self.failures += 1
            print(f"FAIL {self.family.name} {seed}: {program.count(body)} actions, shrunk to", flush=True)
            small = shrinking.shrink(body, lambda smaller: compare(smaller, runs=2).what == "different")
            print(f"{program.literal(small)}\n{compare(small).text()}\n", flush=True)

    def summary(self) -> str:
        counts = f"{self.failures} failures, {self.known} known, {self.unfit} unfit, {len(self.unsettled)} unsettled"
        return f"{self.family.name}: {self.played} programs in {self.took_s:.1f} s, {counts} {self.unsettled[:10]}"


if __name__ == "__main__":
    sys.exit(main())
