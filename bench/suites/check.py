"""check: a test of the benchmarks. The ratio of uvloop under two names must be 1.00 within the printed spread.

Both sides: the same program on uvloop under two names.
Kept: as in `tcp` and `primitives`.
Thrown away: as there.
Window: as there.
"""

from __future__ import annotations

from bench.catalogue import Serve, missing_reason
from bench.model import Case, RivalMissingError, Sample, Settings
from bench.rivals.primitives import OPERATIONS
from bench.served import Load, measure_server
from bench.suites.options import ALIASES, Options
from bench.timed import measure_program, python_module

PAIR = ("uvloop", *ALIASES)


def _echo(rival: str, settings: Settings) -> Sample:
    return measure_server(rival, Serve("protocol"), Load(size=1024, connections=10), settings)


def _call_soon(rival: str, settings: Settings) -> Sample:
    reason = missing_reason(rival)
    if reason:
        raise RivalMissingError(reason)
    count = settings.scaled(OPERATIONS["call_soon"][1])
    return measure_program(
        python_module("primitives", "--loop", rival, "--operation", "call_soon", "--count", str(count)), settings
    )


def cases(options: Options) -> list[Case]:
    if options.only and not set(options.only) & set(PAIR):
        return []
    remark = "the same program under two names: the ratio must be 1.00 within its spread"
    echo = Case("check", "A/A echo, 1 KiB, 10 connections", {}, "server_cpu_ns", "CPU per message", PAIR, _echo, remark)
    soon = Case("check", "A/A call_soon chain", {}, "cpu_ns_per_op", "CPU per operation", PAIR, _call_soon, remark)
    return [echo] if options.quick else [echo, soon]
