"""scale: starting processes from a small and from a 256 MiB parent; resolving names.

Both sides: start a process and wait for its status, one after the other, with the usual call of each library; or
resolve a name and throw the result away. The floor calls posix_spawn and getaddrinfo.
Kept: the memory of the large parent, which is written to once.
Thrown away: each process and each result.
Window: wall time of the calls, repeated for at least `--duration`, and what the loop has put off; it includes the work
of the child.
"""

from __future__ import annotations

from bench.catalogue import FLOOR, missing_reason
from bench.model import Case, RivalMissingError, Sample, Settings
from bench.process import ROOT, native
from bench.rivals.loops import MODULES as LOOPS
from bench.suites.options import ALL_LOOPS, Options
from bench.timed import measure_program, python_module

RIVALS = (FLOOR, *ALL_LOOPS, "gevent", "trio", "node")
SPAWNS = 200
LOOKUPS = 2000


def _argv(rival: str, args: list[str]) -> list[str]:
    reason = missing_reason(rival)
    if reason:
        raise RivalMissingError(reason)
    if rival in LOOPS:
        return python_module("asyncio_spawn", "--loop", rival, *args)
    if rival == "node":
        return ["node", str(ROOT / "bench" / "rivals" / "node_spawn.js"), *args]
    return python_module(f"{rival}_spawn", *args)


def _counted(count: int, settings: Settings) -> list[str]:
    """How much work a batch is, and how long the batches take together."""
    return ["--count", str(settings.scaled(count)), "--seconds", str(settings.duration_s)]


def _spawn_case(options: Options, parent_mib: int) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        args = [*_counted(SPAWNS, settings), "--parent-mib", str(parent_mib)]
        if rival == FLOOR:
            return measure_program([native("floor"), "spawn", *args], settings)
        return measure_program(_argv(rival, args), settings)

    size = f"{parent_mib} MiB" if parent_mib else "small"
    return Case(
        suite="scale",
        name=f"subprocess from a {size} parent",
        params={"parent_mib": parent_mib},
        metric="ns_per_op",
        unit="time to start /bin/true and see it end",
        rivals=options.pick_rivals(RIVALS),
        measure=measure,
        remark="the floor is posix_spawn",
    )


def _resolve_case(options: Options, host: str) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        args = [*_counted(LOOKUPS, settings), "--host", host]
        if rival == FLOOR:
            return measure_program([native("floor"), "resolve", *args], settings)
        return measure_program(_argv(rival, args), settings)

    return Case(
        suite="scale",
        name=f"getaddrinfo of {host}",
        params={"host": host},
        metric="ns_per_op",
        unit="time per look-up",
        rivals=options.pick_rivals(RIVALS),
        measure=measure,
        remark="the floor is libc's getaddrinfo, called directly",
    )


def cases(options: Options) -> list[Case]:
    if options.quick:
        return [_spawn_case(options, 0)]
    return [
        _spawn_case(options, 0),
        _spawn_case(options, 256),
        _resolve_case(options, "127.0.0.1"),
        _resolve_case(options, "localhost"),
    ]
