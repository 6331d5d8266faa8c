"""`make fuzz MINUTES=5`: runs every target in turn, together for so many minutes, and says how many inputs there were.

Each begins with its corpus in tests/fuzz/corpora and with what earlier runs have kept in .build/fuzz/kept. An input
that does damage is in .build/fuzz/found, with the command that repeats it. The exit status is 1 then.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.fuzz import python_targets

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / ".build" / "fuzz"
CORPORA = Path(__file__).parent / "corpora"
NATIVE = ("request", "response", "chunks", "proxy", "websocket", "http2")
LONGEST_BYTES = 4000
_COUNT = re.compile(r"stat::number_of_executed_units:\s+(\d+)")


def command_of(target: str) -> list[str]:
    """Return how the target's program is started."""
    if target in NATIVE:
        return [str(BUILD / "bin" / target)]
    return [sys.executable, "-m", "tests.fuzz.python_targets", target]


def run(target: str, limit_s: int) -> tuple[int, str]:
    """Run one target; the number of inputs, and what it says if one has done damage."""
    kept, found = BUILD / "kept" / target, BUILD / "found" / target
    kept.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    command = [
        *command_of(target),
        f"-max_total_time={limit_s}",
        f"-max_len={LONGEST_BYTES}",
        "-timeout=10",
        "-rss_limit_mb=2500",
        "-print_final_stats=1",
        f"-artifact_prefix={found}/",
        str(kept),
        str(CORPORA / target),
    ]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, check=False)
    said = done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")
    count = _COUNT.search(said)
    return int(count.group(1)) if count else 0, "" if done.returncode == 0 else said[-6000:]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", help="all by default")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--python", action="store_true", help="only those that need no build")
    arguments = parser.parse_args()
    known = [*(() if arguments.python else NATIVE), *python_targets.TARGETS]
    if unknown := set(arguments.targets) - set(known):
        parser.error(f"there is no target {min(unknown)}; there are {', '.join(known)}")
    targets = arguments.targets or known
    limit_s = max(1, round(arguments.minutes * 60 / len(targets)))
    damaged = 0
    for target in targets:
        count, said = run(target, limit_s)
        print(f"{target:<14} {count:>12,} inputs {'ok' if not said else 'DAMAGE'}", flush=True)
        if said:
            damaged += 1
            print(said)
            print(f"repeat it: {' '.join(command_of(target))} .build/fuzz/found/{target}/NAME")
    print(f"{len(targets)} targets, {damaged} damaged")
    return 1 if damaged else 0


if __name__ == "__main__":
    sys.exit(main())
