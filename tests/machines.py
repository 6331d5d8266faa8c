"""`python -m tests.machines KIND TEST…`: runs tests as on another machine. A test may judge only what oneloop did.

The kinds are no-ipv6, no-io-uring, small-tmp (64 MiB), busy (eight processes compute), and those of `preloaded`:
stepped-clock, fast-clock and pauses. Namespaces need the superuser; scripts/ordinary-user.sh is one more kind.

With a fast clock, programs of others that measure their patience by the time of the day run out of it: paramiko,
MariaDB's and PostgreSQL's drivers, gunicorn, wrk, slowhttptest, Jupyter.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.seccomp import forbid

PRELOADED = Path(__file__).with_name("preloaded")
NO_IPV6 = "ip link set lo up && sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1"
SMALL_TMP = "mount -t tmpfs -o size=64m tmpfs /tmp"
BUSY = 8
KINDS = ("no-ipv6", "no-io-uring", "small-tmp", "stepped-clock", "fast-clock", "pauses", "busy")


def _in_namespace(flag: str, prepare: str, command: list[str]) -> list[str]:
    return ["unshare", flag, "sh", "-c", f'{prepare} && exec "$@"', "sh", *command]


@contextmanager
def _preloaded(kind: str) -> Iterator[dict[str, str]]:
    name = kind.replace("-", "_")
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/{name}.so"
        source = str(PRELOADED / f"{name}.c")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        yield {"LD_PRELOAD": library, "FAST_CLOCK_BASE": str(int(time.time()))}


@contextmanager
def _busy() -> Iterator[dict[str, str]]:
    computing = [subprocess.Popen(["nice", sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
    try:
        yield {}
    finally:
        for process in computing:
            process.kill()
            process.wait()


def run(kind: str, command: list[str]) -> int:
    """Run a command as on such a machine, and return its exit status."""
    environment = dict(os.environ)
    match kind:
        case "no-ipv6":
            return subprocess.run(_in_namespace("-n", NO_IPV6, command), check=False).returncode
        case "small-tmp":
            return subprocess.run(_in_namespace("-m", SMALL_TMP, command), check=False).returncode
        case "no-io-uring":
            forbid("io_uring_setup", "io_uring_enter", "io_uring_register")
            return subprocess.run(command, check=False).returncode
        case "stepped-clock" | "fast-clock" | "pauses":
            with _preloaded(kind) as more:
                return subprocess.run(command, check=False, env=environment | more).returncode
        case _:
            with _busy() as more:
                return subprocess.run(command, check=False, env=environment | more).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.machines", description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("tests", nargs=argparse.REMAINDER, help="as for pytest")
    arguments = parser.parse_args()
    return run(arguments.kind, [sys.executable, "-X", "faulthandler", "-m", "pytest", "-q", "-ra", *arguments.tests])


if __name__ == "__main__":
    sys.exit(main())
