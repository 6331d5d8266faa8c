"""`python -m tests.record`: runs everything, for hours, and writes the sums to tests/record.json.

`python -m tests.record --age` prints how old that record is. This is the tier `make test-all`; each step is a target of
the Makefile, and one that fails does not keep the others from running.
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

from release.build import VERSIONS

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "tests/record.json"
ENVIRONMENT = {"ONELOOP_TEST_ENGINES": "ring,aio,threads", "ONELOOP_STRICT": "1", "ONELOOP_AUTOBAHN": "1"}
"""All file engines; an entry of exceptions.toml that holds no more is an error; all cases of Autobahn."""

Step = tuple[str, list[str]]


def steps() -> list[Step]:
    """What is run, by name."""
    return [
        ("tests, Python 3.13", ["make", "test", "PY=3.13"]),
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


def run(step: Step) -> dict[str, object]:
    """Run a step, showing its output, and return what the record says of it."""
    name, command = step
    print(f"=== {name}", flush=True)
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
    return {"step": name, "status": process.returncode, "sums": said, "time_s": round(time.monotonic() - began_s)}


def age() -> str:
    """Return how old the record is, for people."""
    if not FILE.exists():
        return "make test-all: no record yet"
    record = json.loads(FILE.read_text())
    days = (datetime.now(UTC) - datetime.fromisoformat(record["date"])).days
    failed = [step["step"] for step in record["steps"] if step["status"]]
    word = "failed in " + ", ".join(failed) if failed else "passed"
    return f"make test-all: {word} at {record['commit'][:12]}, {days} days ago"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.record", description=__doc__)
    parser.add_argument("--age", action="store_true", help="only print the age of the record")
    parser.add_argument("names", nargs="*", help="only steps whose name contains one of these; writes no record")
    arguments = parser.parse_args()
    if arguments.age:
        print(age())
        return 0
    chosen = [step for step in steps() if not arguments.names or any(name in step[0] for name in arguments.names)]
    done = [run(step) for step in chosen]
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()
    if not arguments.names:
        record = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit, "steps": done}
        FILE.write_text(json.dumps(record, indent=1) + "\n")
    return max(1 if step["status"] else 0 for step in done)


if __name__ == "__main__":
    sys.exit(main())
