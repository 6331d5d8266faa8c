"""primitives: the loop's own operations, nanoseconds each; the floor is the same callbacks with no loop.

Both sides: one program on all loops (`bench.rivals.primitives`, `timer_primitives`), whose docstrings say what each
operation does. The floors do the same callbacks or coroutines without a loop.
Kept: what the docstring of the operation says; otherwise nothing.
Thrown away: handles, tasks and futures, as soon as they have run.
Window: the operations, until the loop has nothing left to do (`bench.rivals.stopwatch`).
"""

from __future__ import annotations

from bench.catalogue import FLOOR, missing_reason
from bench.model import Case, RivalMissingError, Sample, Settings
from bench.process import native
from bench.rivals.primitives import OPERATIONS
from bench.suites.options import ALL_LOOPS, Options
from bench.timed import measure_program, python_module

TITLES = {
    "call_soon": "call_soon chain",
    "call_later": "call_later with 100,000 pending",
    "call_later_make": "call_later: making 100,000",
    "cancel": "cancel of 100,000",
    "timeouts": "timeouts set and cancelled with 100,000 pending",
    "random_order": "10,000 call_at in random order",
    "fire": "100,000 timers of different deadlines fire",
    "sleep_zero": "sleep(0) switch",
    "create_task": "create_task and await",
    "future_wakeup": "future wake-up",
    "queue": "queue ping-pong",
    "call_soon_threadsafe": "call_soon_threadsafe flood",
    "executor": "executor round trip",
    "make_close": "make, run once and close a loop",
}
FLOORS = {
    "call_soon": "the floor: the same callbacks, a Python deque, no loop",
    "call_later": "the floor: timers that are due at once; a heap, a clock and closures in Rust, no Python",
    "sleep_zero": "the floor: the same coroutines, driven by send, no loop and no tasks",
    "create_task": "the floor: the same coroutines, driven by send, no loop and no tasks",
}
#: These use several threads, so wall time is measured. All others run in one thread; their CPU time does not depend on
#: other work on the machine.
THREADED = frozenset({"call_soon_threadsafe", "executor"})
QUICK = ("call_soon",)
MAKE_CLOSE_COUNT = 1000


def _case(options: Options, operation: str, count: int) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        times = settings.scaled(count)
        args = ["--operation", operation, "--count", str(times)]
        if rival == FLOOR and operation == "call_later":
            return measure_program([native("floor"), "timers", "--count", str(times)], settings)
        if rival == FLOOR:
            return measure_program(python_module("primitives_floor", *args), settings)
        reason = missing_reason(rival)
        if reason:
            raise RivalMissingError(reason)
        argv = python_module("primitives", "--loop", rival, "--seconds", str(settings.duration_s), *args)
        return measure_program(argv, settings)

    loops = ALL_LOOPS
    rivals = (FLOOR, *loops) if operation in FLOORS else loops
    return Case(
        suite="primitives",
        name=TITLES[operation],
        params={"operation": operation, "count": count},
        metric="ns_per_op" if operation in THREADED else "cpu_ns_per_op",
        unit="time per operation" if operation in THREADED else "CPU time per operation",
        rivals=options.pick_rivals(rivals),
        measure=measure,
        remark=FLOORS.get(operation, ""),
    )


def cases(options: Options) -> list[Case]:
    counts = {name: count for name, (_, count) in OPERATIONS.items()}
    counts["make_close"] = MAKE_CLOSE_COUNT
    chosen = QUICK if options.quick else tuple(counts)
    return [_case(options, name, counts[name]) for name in chosen]
