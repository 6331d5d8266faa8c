"""Actions of plain scheduling: callbacks, timers, handles, contexts, exceptions, signals."""

from __future__ import annotations

import os
import signal
from typing import Any

from tests.differential.author import Author
from tests.differential.program import Action, Body
from tests.differential.verb import verb
from tests.differential.world import SEEN, World

# More at once would fill the pipe through which signals come.
MOST_KILLS = 50


@verb
def soon(world: World, label: str, context: str | None, body: Body) -> None:
    world.things[label] = world.loop.call_soon(world.callback(label, body), context=world.context(context))


@verb
def threadsafe(world: World, label: str, context: str | None, body: Body) -> None:
    callback = world.callback(label, body)
    world.things[label] = world.loop.call_soon_threadsafe(callback, context=world.context(context))


@verb
def later(world: World, label: str, delay: float, context: str | None, body: Body) -> None:
    callback = world.callback(label, body)
    world.things[label] = world.loop.call_later(delay, callback, context=world.context(context))


@verb
def at(world: World, label: str, offset: float, context: str | None, body: Body) -> None:
    """A deadline counted from the loop's making."""
    callback = world.callback(label, body)
    world.things[label] = world.loop.call_at(world.base + offset, callback, context=world.context(context))


@verb
def wrong(world: World, kind: str) -> None:
    """Calls that are refused."""
    loop: Any = world.loop
    calls: dict[str, Any] = {
        "no callback": lambda: loop.call_soon(None),
        "no arguments": loop.call_soon,
        "no delay": lambda: loop.call_later(None, print),
        "no deadline": lambda: loop.call_at(None, print),
        "context": lambda: loop.call_soon(print, context=7),
        "run": lambda: loop.run_until_complete(loop.create_future()) if loop.is_running() else None,
        "close": lambda: loop.close() if loop.is_running() else None,
        "coroutine": lambda: loop.run_until_complete(7),
        "text": lambda: loop.call_later("soon", print),
        "handler": lambda: loop.set_exception_handler(7),
    }
    handle = calls[kind]()
    if handle is not None:
        handle.cancel()


@verb
def cancel(world: World, label: str) -> Any:
    return world.get(label).cancel()


@verb
def cancelled(world: World, label: str) -> Any:
    return world.get(label).cancelled()


@verb
def set_var(_world: World, value: str) -> None:
    SEEN.set(value)


@verb
def states(world: World) -> Any:
    return [world.loop.is_running(), world.loop.is_closed()]


@verb
def spend(world: World, steps: int) -> None:
    """Compute for a while."""
    for _ in range(steps):
        world.spin()


@verb
def on_signal(world: World, label: str, body: Body) -> None:
    world.loop.add_signal_handler(signal.SIGUSR1, world.callback(label, body))
    if "signal" not in world.things:
        world.things["signal"] = True
        world.endings.append(lambda: _forget(world))


def _forget(world: World) -> None:
    if not world.loop.is_closed():
        world.loop.remove_signal_handler(signal.SIGUSR1)


@verb
def no_signal(world: World) -> Any:
    return world.loop.remove_signal_handler(signal.SIGUSR1)


@verb
def kill(world: World) -> None:
    """A signal for this process; left out where nothing would take it."""
    world.kills += 1
    if world.kills < MOST_KILLS and signal.getsignal(signal.SIGUSR1) not in (signal.SIG_DFL, signal.SIG_IGN):
        os.kill(os.getpid(), signal.SIGUSR1)


@verb
def handler(world: World, kind: str) -> None:
    """Another exception handler: one that fails itself, or the default one, which writes to the log."""
    if kind == "fails":

        def fails(loop: Any, context: dict[str, Any]) -> None:
            world.report(loop, context)
            raise world.error("value")

        world.loop.set_exception_handler(fails)
    else:
        world.loop.set_exception_handler(world.report)


# -- drawing -----------------------------------------------------------------------------------------


def context_of(author: Author) -> str | None:
    return author.choice([None, None, None, "x", "y"])


def draw_soon(author: Author) -> Action:
    return ("soon", author.new("c"), context_of(author), author.body())


def draw_threadsafe(author: Author) -> Action:
    return ("threadsafe", author.new("c"), context_of(author), author.body())


def draw_leaf(author: Author) -> Action:
    return (author.choice(["soon", "threadsafe"]), author.new("c"), context_of(author), [])


def draw_later(author: Author) -> Action:
    return ("later", author.new("c"), author.choice([0, 0, 0.0, -1, -0.5]), context_of(author), author.body())


def draw_at(author: Author) -> Action:
    return ("at", author.new("c"), author.choice([-3, -2, -2, -1, -1, 0]), context_of(author), author.body())


def draw_far(author: Author) -> Action:
    return ("later", author.new("c"), 1000, None, [])


def draw_virtual_later(author: Author) -> Action:
    delay = author.choice([0, 0, 1, 1, 2, 0.5, 0.25, 3, -1])
    return ("later", author.new("c"), delay, context_of(author), author.body())


def draw_virtual_at(author: Author) -> Action:
    deadline = author.choice([-1, 0, 1, 1, 1.5, 2, 2, 3, 4])
    return ("at", author.new("c"), deadline, context_of(author), author.body())


def draw_wrong(author: Author) -> Action:
    kinds = ["no callback", "no arguments", "no delay", "no deadline", "context", "run", "close", "coroutine", "text"]
    return ("wrong", author.choice([*kinds, "handler"]))


def draw_cancel(author: Author) -> Action:
    return ("cancel", author.some("c"))


def draw_cancelled(author: Author) -> Action:
    return ("cancelled", author.some("c"))


def draw_set_var(author: Author) -> Action:
    return ("set_var", author.choice(["p", "q", "r"]))


def draw_states(_author: Author) -> Action:
    return ("states",)


def draw_raise(author: Author) -> Action:
    kinds = ["error", "value", "os", "cancelled", "base"]
    return ("raise", author.choice(kinds) if author.chance(0.85) else author.choice(["exit", "interrupt"]))


def draw_signal(author: Author) -> Action:
    if author.chance(0.5):
        return ("kill",)
    return ("on_signal", author.new("s"), author.body()) if author.chance(0.8) else ("no_signal",)


def draw_handler(author: Author) -> Action:
    return ("handler", author.choice(["fails", "usual"]))


SCHEDULING = {
    draw_soon: 5.0,
    draw_threadsafe: 1.0,
    draw_cancel: 2.0,
    draw_cancelled: 0.5,
    draw_set_var: 1.0,
    draw_states: 0.3,
    draw_raise: 0.7,
    draw_wrong: 0.4,
}
