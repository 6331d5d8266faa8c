"""Where a program is played: a new loop, the program, its end, and what is left when the loop is closed."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import logging
import warnings
from collections.abc import Callable, Coroutine, Iterator

from tests import descriptors
from tests.differential import subjects
from tests.differential.program import Body
from tests.differential.running import settle
from tests.differential.watchdog import HangError, watched
from tests.differential.world import LogRecords, Trace, World, error_of

Factory = Callable[[], asyncio.AbstractEventLoop]

assert subjects.ALL


def perform(body: Body, factory: Factory) -> Trace:
    """Play a program on a new loop of this factory, in a new context, and return its trace."""
    return contextvars.Context().run(_perform, body, factory)


def _perform(body: Body, factory: Factory) -> Trace:
    gc.collect()
    before = descriptors.open_descriptors()
    world = None
    hang: HangError | None = None
    try:
        with watched(), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", RuntimeWarning)
            world = World(factory())
            with _logged(world):
                _play(world, body)
            trace = world.trace
            world.note("closed")
            with _logged(world):
                world.things.clear()
                world.contexts.clear()
                world.endings.clear()
                world.ranks.clear()
                gc.collect()
    except HangError as error:
        hang = error
    if hang is not None:
        trace = world.trace if world is not None else []
        trace.append((0, "hang", *error_of(hang)))
        _give_up(world)
    del world
    gc.collect()
    trace.append((0, "warned", *sorted({str(warning.message)[:60] for warning in warned})))
    trace.append((0, "descriptors left", *sorted(_kind(fd) for fd in descriptors.opened_since(before).values())))
    return trace


def _kind(target: str) -> str:
    return target.split(":")[0]


def _play(world: World, body: Body) -> None:
    try:
        world.play(body)
    except HangError:
        raise
    except BaseException as exc:
        # A callback's SystemExit, out of an eager task that was made outside of the loop.
        world.note("left", *error_of(exc))
    world.note("end")
    world.depth = 0
    _end(world)


def _end(world: World) -> None:
    """Close what the program has left open, as a program would; all of that is compared as well."""
    loop = world.loop
    if not loop.is_closed():
        world.play([("run", 3)])
    _end_things(world)
    if not loop.is_closed():
        _end_tasks(world)
        _run(world, loop.shutdown_asyncgens())
        _run(world, loop.shutdown_default_executor())
    loop.close()


def _end_things(world: World) -> None:
    while world.endings:
        try:
            world.endings.pop()()
        except Exception as exc:
            world.note("raised", "ending", *error_of(exc))


def _end_tasks(world: World) -> None:
    """Tasks may need some cancelling, and the last callbacks may open something again."""
    for _ in range(4):
        settle(world)
        left = sorted(asyncio.all_tasks(world.loop), key=lambda task: task.get_name())
        for task in left:
            task.cancel()
        if not left and not world.endings:
            return
        _end_things(world)


def _run(world: World, step: Coroutine[None, None, None]) -> None:
    try:
        world.loop.run_until_complete(step)
    except HangError:
        raise
    except BaseException as exc:
        world.note("left", *error_of(exc))


def _give_up(world: World | None) -> None:
    """After a hang: close what can be closed."""
    if world is None:
        return
    with contextlib.suppress(Exception, KeyboardInterrupt):
        for ending in reversed(world.endings):
            with contextlib.suppress(Exception):
                ending()
        world.loop.close()


@contextlib.contextmanager
def _logged(world: World) -> Iterator[None]:
    handler = LogRecords(world)
    logger = logging.getLogger("asyncio")
    logger.addHandler(handler)
    propagates, logger.propagate = logger.propagate, False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
