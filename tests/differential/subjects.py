"""Every subject with its actions; importing this file fills the table of verbs. The families of programs."""

from __future__ import annotations

from tests.differential import (
    datagrams,
    descriptors,
    pipes,
    reading,
    running,
    scheduling,
    servers,
    streams,
    tasks,
    threads,
    tls,
)
from tests.differential.author import Author, Family
from tests.differential.program import Body


def nothing(_author: Author) -> Body:
    return []


def virtual(_author: Author) -> Body:
    return [("virtual",)]


TICKS = {running.draw_run: 3.0, running.draw_settle: 0.4}

ALL = [
    Family(
        "scheduling",
        nothing,
        {
            **scheduling.SCHEDULING,
            scheduling.draw_later: 2.0,
            scheduling.draw_at: 2.0,
            scheduling.draw_far: 0.3,
            scheduling.draw_handler: 0.2,
            running.draw_stop: 0.3,
        },
        runs=TICKS,
    ),
    Family(
        "signals",
        nothing,
        {
            # No call_soon_threadsafe(): it wakes asyncio through the pipe of the signals, which are seen sooner then.
            scheduling.draw_soon: 5.0,
            scheduling.draw_signal: 3.0,
            scheduling.draw_set_var: 0.5,
            scheduling.draw_raise: 0.5,
            running.draw_stop: 0.3,
        },
        runs=TICKS,
    ),
    Family(
        "timers",
        virtual,
        {
            **scheduling.SCHEDULING,
            scheduling.draw_virtual_later: 4.0,
            scheduling.draw_virtual_at: 3.0,
            scheduling.draw_far: 0.2,
            running.draw_stop: 0.2,
        },
        runs={running.draw_run: 1.0, running.draw_run_for: 3.0},
    ),
    Family(
        "tasks",
        nothing,
        {
            **tasks.TASKS,
            scheduling.draw_soon: 1.5,
            scheduling.draw_later: 0.5,
            scheduling.draw_set_var: 0.7,
            scheduling.draw_raise: 0.4,
            tasks.draw_generator: 0.2,
            tasks.draw_run_until: 0.4,
        },
        task_draws=tasks.IN_TASKS,
        runs=TICKS,
    ),
    Family(
        "timeouts",
        virtual,
        {
            **tasks.TASKS,
            scheduling.draw_virtual_later: 2.0,
            scheduling.draw_virtual_at: 1.0,
            scheduling.draw_raise: 0.4,
        },
        task_draws={**tasks.IN_TASKS, tasks.draw_virtual_sleep: 4.0, tasks.draw_virtual_timeout: 2.0},
        runs={running.draw_run: 0.5, running.draw_run_for: 3.0},
    ),
    Family(
        "streams",
        streams.opening,
        {
            **streams.TRANSPORTS,
            scheduling.draw_soon: 1.5,
            scheduling.draw_set_var: 0.3,
            scheduling.draw_raise: 0.3,
            streams.draw_connect: 0.3,
            running.draw_stop: 0.1,
        },
        runs=TICKS,
    ),
    Family(
        "readers",
        descriptors.opening,
        {**descriptors.READERS, scheduling.draw_soon: 1.5, scheduling.draw_raise: 0.2, running.draw_stop: 0.1},
        runs=TICKS,
    ),
    Family(
        "sock calls",
        descriptors.sock_opening,
        descriptors.SOCK_CALLS,
        task_draws=descriptors.IN_SOCK_CALLS,
        runs=TICKS,
    ),
    Family(
        "dialogues",
        reading.opening,
        {**reading.DIALOGUES, **streams.TRANSPORTS, streams.draw_swap: 0.0},
        task_draws=reading.IN_DIALOGUES,
        runs=TICKS,
    ),
    Family(
        "pipes",
        pipes.opening,
        {
            **streams.TRANSPORTS,
            scheduling.draw_soon: 1.5,
            scheduling.draw_raise: 0.2,
            streams.draw_swap: 0.0,
            streams.draw_extra: 0.0,
            pipes.draw_pipe: 0.2,
        },
        runs=TICKS,
    ),
    Family(
        "datagrams",
        datagrams.opening,
        {**datagrams.DATAGRAMS, scheduling.draw_soon: 1.5, scheduling.draw_raise: 0.2, streams.draw_limits: 0.1},
        runs=TICKS,
    ),
    Family(
        "servers",
        servers.opening,
        {
            **streams.TRANSPORTS,
            **servers.SERVERS,
            scheduling.draw_soon: 1.5,
            scheduling.draw_raise: 0.2,
            streams.draw_extra: 0.3,
        },
        runs=TICKS,
    ),
    Family(
        "tls",
        tls.opening,
        {**streams.TRANSPORTS, scheduling.draw_soon: 1.5, scheduling.draw_raise: 0.2, streams.draw_swap: 0.0},
        runs=TICKS,
    ),
    Family(
        "threads",
        lambda author: streams.opening(author) + descriptors.opening(author),
        {
            **streams.TRANSPORTS,
            **descriptors.READERS,
            descriptors.draw_reader: 0.0,
            descriptors.draw_taking_reader: 4.0,
            scheduling.draw_soon: 3.0,
            scheduling.draw_threadsafe: 3.0,
            scheduling.draw_cancel: 1.0,
            threads.draw_elsewhere: 4.0,
            threads.draw_meanwhile: 3.0,
        },
        # A thread beside the loop and a chain of ticks would not agree twice.
        runs={running.draw_settle: 1.0},
    ),
]


def named(name: str) -> Family:
    """The family of this name."""
    return next(family for family in ALL if family.name == name)
