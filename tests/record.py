"""`python -m tests.record`: runs everything, for hours, and writes the sums to tests/record.json.

`python -m tests.record --age` prints how old that record is. This is the tier `make test-all`; each step is a target of
the Makefile, and one that fails does not keep the others from running. A step is recorded when it has ended, with the
commit that it ran on, so that the whole can be run in parts: `python -m tests.record models sanitizer`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

from release.build import VERSIONS

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "tests/record.json"
ENVIRONMENT = {"ONELOOP_TEST_ENGINES": "ring,aio,threads", "ONELOOP_STRICT": "1"}
"""All file engines; an entry of exceptions.toml that holds no more is an error."""

Step = tuple[str, list[str]]


class Entry(TypedDict):
    """What the record says of a step: when it began, what it ran on, its exit status, its last line of sums."""

    date: str
    commit: str
    status: int
    sums: str
    time_s: int


def steps() -> list[Step]:
    """What is run, by name."""
    return [
        # With all cases of Autobahn, once.
        ("tests, Python 3.13", ["env", "ONELOOP_AUTOBAHN=1", "make", "test", "PY=3.13"]),
        *(
            (f"core tests, Python {other}", ["make", "core-test", f"PY={other}"])
            for other in VERSIONS
            if other != "3.13"
        ),
        *((f"gevent's tests, Python {version}", ["make", "gevent-suite", f"PY={version}"]) for version in VERSIONS),
        ("an ordinary user", ["scripts/ordinary-user.sh", "make setup", "make test"]),
        ("programs of others on the control", ["make", "control-test"]),
        ("models", ["make", "models"]),
        ("failing system calls", ["make", "faults"]),
        ("failing allocations", ["make", "nomemory", "ARGS=--every 10"]),
        ("address sanitizer", ["make", "asan"]),
        ("thread sanitizer", ["make", "tsan"]),
        ("stress", ["make", "soak"]),
    ]


def state() -> str:
    """Return the commit that is checked out, with `-dirty` behind it if anything but the record differs from it."""
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()
    others = ["git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!tests/record.json"]
    return commit + "-dirty" * bool(subprocess.check_output(others, cwd=ROOT, text=True))


def run(step: Step) -> Entry:
    """Run a step, showing its output, and return what the record says of it."""
    name, command = step
    print(f"=== {name}", flush=True)
    commit = state()
    date = datetime.now(UTC).isoformat(timespec="seconds")
    began_s = time.monotonic()
    said = ""
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **ENVIRONMENT},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if re.search(r"\d+ passed", line):
                said = line.strip()
    took_s = round(time.monotonic() - began_s)
    return {"date": date, "commit": commit, "status": process.returncode, "sums": said, "time_s": took_s}


def read() -> dict[str, Entry]:
    """Return what is recorded, by step."""
    recorded: dict[str, Entry] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return recorded


def age() -> str:
    """Return what the record says of all steps, and how old it is, for people."""
    recorded = read()
    names = [name for name, _ in steps()]
    known = {name: recorded[name] for name in names if name in recorded}
    if not known:
        return "make test-all: no record yet"
    oldest = min(known.values(), key=lambda entry: entry["date"])
    days = (datetime.now(UTC) - datetime.fromisoformat(oldest["date"])).days
    failed = [name for name, entry in known.items() if entry["status"]]
    missing = [name for name in names if name not in known]
    said = [f"make test-all: {len(known) - len(failed)} of {len(names)} steps passed"]
    said += [f"failed: {', '.join(failed)}"] * bool(failed)
    said += [f"not run: {', '.join(missing)}"] * bool(missing)
    return "; ".join(said) + f"; the oldest at {oldest['commit'][:12]}, {days} days ago"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.record", description=__doc__)
    parser.add_argument("--age", action="store_true", help="only print the age of the record")
    parser.add_argument("names", nargs="*", help="only steps whose name contains one of these")
    options = parser.parse_args(arguments)
    if options.age:
        print(age())
        return 0
    chosen = [step for step in steps() if not options.names or any(name in step[0] for name in options.names)]
    if not chosen:
        parser.error(f"no step has such a name; the steps are: {', '.join(name for name, _ in steps())}")
    failed = False
    for step in chosen:
        entry = run(step)
        failed |= bool(entry["status"])
        # Steps that are no more are not kept.
        recorded = {**read(), step[0]: entry}
        kept = {name: recorded[name] for name, _ in steps() if name in recorded}
        FILE.write_text(json.dumps(kept, indent=1) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
