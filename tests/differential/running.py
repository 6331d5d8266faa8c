"""How long the loop runs: for some ticks, until nothing happens any more, for some time, until a task is done."""

from __future__ import annotations

from tests.differential.author import Author
from tests.differential.program import Action
from tests.differential.verb import verb
from tests.differential.watchdog import HangError
from tests.differential.world import World, error_of

# `settle` waits for two windows of this length in a row in which nothing is written down.
QUIET_S = 0.0007
MOST_WINDOWS = 300


class Heartbeat:
    """A chain of callbacks, one per tick; counts the ticks in the trace and stops the loop after some."""

    def __init__(self, world: World, ticks: int) -> None:
        self.world = world
        self.left = ticks
        self.handle = world.loop.call_soon(self.beat)

    def beat(self) -> None:
        self.world.note("tick")
        self.world.step += 1
        self.world.spin()
        self.left -= 1
        if self.left <= 0:
            self.world.loop.stop()
        else:
            self.handle = self.world.loop.call_soon(self.beat)


class Quiet:
    """Stops the loop when nothing has been written down for a while."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.windows = 0
        self.quiet = 0
        self.seen = len(world.trace)
        self.handle = world.loop.call_later(QUIET_S, self.look)

    def look(self) -> None:
        self.windows += 1
        still = len(self.world.trace) == self.seen and not self.world.threads_busy
        self.quiet = self.quiet + 1 if still else 0
        self.seen = len(self.world.trace)
        if self.quiet >= 2 or self.windows >= MOST_WINDOWS:
            self.world.loop.stop()
        else:
            self.handle = self.world.loop.call_later(QUIET_S, self.look)


def forever(world: World) -> None:
    """run_forever(); whatever leaves it is written down."""
    depth, world.depth = world.depth, 0
    world.is_running.set()
    try:
        world.loop.run_forever()
    except HangError:
        raise
    except BaseException as exc:
        world.note("left", *error_of(exc))
    finally:
        world.depth = depth
        world.is_running.clear()
    world.step += 1


@verb
def run(world: World, ticks: int) -> None:
    """Run the loop for some ticks."""
    heartbeat = Heartbeat(world, ticks)
    forever(world)
    heartbeat.handle.cancel()
    world.note("stopped")


@verb
def settle(world: World) -> None:
    """Run the loop until nothing happens any more."""
    quiet = Quiet(world)
    forever(world)
    quiet.handle.cancel()
    world.take_side()
    world.note("settled")


@verb
def run_for(world: World, seconds: float) -> None:
    """Run the loop for some time, which should be virtual."""
    handle = world.loop.call_later(seconds, world.loop.stop)
    forever(world)
    handle.cancel()
    world.note("stopped")


@verb
def virtual(world: World) -> None:
    """The first action of a program in virtual time, which makes its loop another one. The clock leaves its zero."""
    world.loop.call_later(10, world.loop.stop)
    world.loop.run_forever()
    world.base = world.loop.time()


@verb
def stop(world: World) -> None:
    world.loop.stop()


def draw_run(author: Author) -> Action:
    return ("run", author.choice([1, 2, 3, 5, 8]))


def draw_settle(_author: Author) -> Action:
    return ("settle",)


def draw_stop(_author: Author) -> Action:
    return ("stop",)


def draw_run_for(author: Author) -> Action:
    return ("run_for", author.choice([0.125, 1, 2.25, 5]))
