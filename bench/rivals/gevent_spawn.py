"""Starting processes and resolving names with gevent, measured in the program."""

# mypy: disable-error-code="import-untyped,import-not-found"
# Gevent has no stubs.
from __future__ import annotations

import argparse
import time

import gevent.socket
import gevent.subprocess

from bench.rivals.report_line import hand_over


def spawn(count: int) -> float:
    begin = time.perf_counter_ns()
    for _ in range(count):
        if gevent.subprocess.Popen(["/bin/true"]).wait() != 0:
            raise SystemExit("/bin/true failed")
    return (time.perf_counter_ns() - begin) / count


def resolve(host: str, count: int) -> float:
    gevent.socket.getaddrinfo(host, 80)
    begin = time.perf_counter_ns()
    for _ in range(count):
        gevent.socket.getaddrinfo(host, 80)
    return (time.perf_counter_ns() - begin) / count


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--parent-mib", type=int, default=0)
    parser.add_argument("--host", default="")
    asked = parser.parse_args()
    ballast = bytearray(b"1") * (asked.parent_mib << 20)
    if asked.host:
        hand_over({"ns_per_op": resolve(asked.host, asked.count), "ops": asked.count})
    else:
        spawn(2)
        hand_over({"ns_per_op": spawn(asked.count), "ops": asked.count})
