"""Actions of tasks and futures: creating, awaiting, cancelling, grouping, bounding in time."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from tests.differential.author import Author
from tests.differential.program import Action, Body
from tests.differential.running import forever
from tests.differential.scheduling import context_of
from tests.differential.verb import Absent, verb
from tests.differential.watchdog import HangError
from tests.differential.world import SEEN, World, error_of


def rank_here(world: World) -> int:
    task = asyncio.current_task()
    return world.ranks.get(task, 0) if task is not None else 0


def target_of(world: World, label: str) -> Any:
    """A task or future to wait for. A task waits only for older ones, so that none ever wait for each other."""
    target = world.get(label)
    if world.ranks.get(target, 0) >= rank_here(world) > 0:
        raise Absent
    return target


def coroutine(world: World, label: str, body: Body) -> Any:
    world.tasks += 1
    # A group waits for its tasks: they must not wait for it, nor for anything younger than it.
    rank = world.ranks_of_labels[label] = rank_here(world) if "." in label else world.tasks

    async def main() -> str:
        world.ranks[asyncio.current_task()] = rank
        if world.depth == 0:
            # Not an eager task, which begins inside of another callback.
            world.step += 1
        world.resumed("start", label)
        await world.play_async(body)
        return label

    return main()


def keep(world: World, label: str, task: asyncio.Future[Any]) -> None:
    """Write down how a task or future ends, so that no exception of it is ever unretrieved by chance."""
    world.things[label] = task
    world.ranks[task] = world.ranks_of_labels.get(label, 0)

    def done(future: asyncio.Future[Any]) -> None:
        if future.cancelled():
            world.note("ended", label, "cancelled", SEEN.get())
        elif future.exception() is not None:
            world.note("ended", label, error_of(future.exception()), SEEN.get())  # type: ignore[arg-type]
        else:
            world.note("ended", label, SEEN.get())

    task.add_done_callback(done)


@verb
def task(world: World, label: str, context: str | None, body: Body) -> None:
    made = world.loop.create_task(coroutine(world, label, body), context=world.context(context), name=label)
    keep(world, label, made)


@verb
def eager(world: World, label: str, body: Body) -> None:
    """A task that begins at once, where Python has them and a loop runs."""
    if sys.version_info < (3, 12) or not world.loop.is_running():
        raise Absent
    keep(world, label, asyncio.Task(coroutine(world, label, body), loop=world.loop, name=label, eager_start=True))


@verb
def future(world: World, label: str) -> None:
    keep(world, label, world.loop.create_future())


@verb
def resolve(world: World, label: str, kind: str | None) -> Any:
    """Give a future a result, or an exception."""
    target = world.get(label)
    if kind is None:
        return target.set_result(label)
    return target.set_exception(world.error(kind))


@verb
def on_done(world: World, label: str, target: str, context: str | None, body: Body) -> None:
    callback = world.callback(label, body)
    world.get(target).add_done_callback(lambda _future: callback(), context=world.context(context))


@verb
def cancel_task(world: World, label: str, message: str | None) -> Any:
    return world.get(label).cancel(msg=message)


@verb
def uncancel(_world: World) -> Any:
    current = asyncio.current_task()
    return current.uncancel() if current is not None else None


@verb
def is_done(world: World, label: str) -> Any:
    return [world.get(label).done(), world.get(label).cancelled()]


@verb
def all_tasks(world: World) -> Any:
    return sorted(task.get_name() for task in asyncio.all_tasks(world.loop))


@verb
def run_until(world: World, label: str) -> Any:
    """run_until_complete() of a task that may well never end, so with a bound in ticks."""
    if world.loop.is_running():
        raise Absent
    target = world.get(label)
    if not isinstance(target, asyncio.Future):
        raise Absent
    handle = world.loop.call_later(0.02, world.loop.stop)
    try:
        return world.loop.run_until_complete(target)
    except HangError:
        raise
    except BaseException as exc:
        world.note("left", *error_of(exc))
        return None
    finally:
        handle.cancel()


@verb
def hooks_of_generators(world: World, label: str) -> None:
    """An async generator that is left in the middle; the loop must end it."""

    async def numbers() -> Any:
        try:
            while True:
                yield 1
        finally:
            world.note("generator")

    async def main() -> None:
        world.things[f"{label}.generator"] = generator = numbers()
        await generator.__anext__()

    keep(world, label, world.loop.create_task(main(), name=label))


@verb
async def sleep(_world: World, seconds: float) -> None:
    await asyncio.sleep(seconds)


@verb
async def wait_of(world: World, label: str) -> Any:
    return await target_of(world, label)


@verb
async def wait_for(world: World, label: str, timeout: float) -> Any:
    return await asyncio.wait_for(target_of(world, label), timeout)


@verb
async def shield(world: World, label: str) -> Any:
    return await asyncio.shield(target_of(world, label))


@verb
async def gather(world: World, labels: Body, returns: bool) -> Any:
    return await asyncio.gather(*(target_of(world, label) for (label,) in labels), return_exceptions=returns)


@verb
async def wait_any(world: World, labels: Body) -> Any:
    done, pending = await asyncio.wait([target_of(world, label) for (label,) in labels], return_when="FIRST_COMPLETED")
    return [len(done), len(pending)]


@verb
async def timeout(world: World, seconds: float, body: Body) -> None:
    async with asyncio.timeout(seconds):
        await world.play_async(body)


@verb
async def group(world: World, label: str, bodies: dict[str, Body], body: Body) -> None:
    async with asyncio.TaskGroup() as tasks:
        for name, inner in bodies.items():
            keep(world, f"{label}.{name}", tasks.create_task(coroutine(world, f"{label}.{name}", inner)))
            world.things[f"{label}.{name}"].set_name(f"{label}.{name}")
        await world.play_async(body)


@verb
async def guarded(world: World, label: str, body: Body, end: Body) -> None:
    """try, finally."""
    try:
        await world.play_async(body)
    finally:
        world.note("finally", label)
        await world.play_async(end)


@verb
async def caught(world: World, label: str, body: Body) -> None:
    """A task that swallows its cancellation."""
    try:
        await world.play_async(body)
    except asyncio.CancelledError as exc:
        world.note("caught", label, *error_of(exc))


@verb
async def put(world: World, label: str) -> Any:
    queue = world.things.setdefault("queue", asyncio.Queue(2))
    await queue.put(label)


@verb
async def take(world: World) -> Any:
    queue = world.things.setdefault("queue", asyncio.Queue(2))
    return await queue.get()


@verb
async def locked(world: World, label: str, body: Body) -> None:
    async with world.things.setdefault("lock", asyncio.Lock()):
        await world.play_async(body)


@verb
async def in_thread(world: World, label: str) -> Any:
    """A job in the executor."""
    world.threads_busy += 1
    try:
        return await world.loop.run_in_executor(None, str.upper, label)
    finally:
        world.threads_busy -= 1


@verb
def run_main(world: World, body: Body) -> None:
    """run_until_complete() of a coroutine."""
    if world.loop.is_running():
        raise Absent
    handle = world.loop.call_later(0.02, world.loop.stop)
    made = world.loop.create_task(coroutine(world, "main", body), name="main")
    made.add_done_callback(lambda _task: world.loop.stop())
    forever(world)
    handle.cancel()
    world.note("main", made.done())
    if made.done() and not made.cancelled():
        made.exception()


# -- drawing -----------------------------------------------------------------------------------------


def awaited(author: Author) -> str:
    return author.some(author.choice(["t", "t", "f"]))


def draw_task(author: Author) -> Action:
    if author.chance(0.2):
        return ("eager", author.new("t"), author.body(5, in_task=True))
    return ("task", author.new("t"), context_of(author), author.body(5, in_task=True))


def draw_future(author: Author) -> Action:
    return ("future", author.new("f"))


def draw_resolve(author: Author) -> Action:
    return ("resolve", author.some("f"), author.choice([None, None, None, "error", "os", "value"]))


def draw_on_done(author: Author) -> Action:
    return ("on_done", author.new("d"), awaited(author), context_of(author), author.body(2))


def draw_cancel_task(author: Author) -> Action:
    return ("cancel_task", awaited(author), author.choice([None, None, "why"]))


def draw_about(author: Author) -> Action:
    return author.choice([("uncancel",), ("is_done", awaited(author)), ("all_tasks",)])


def draw_generator(author: Author) -> Action:
    return ("hooks_of_generators", author.new("g"))


def draw_run_until(author: Author) -> Action:
    return ("run_until", awaited(author))


def draw_sleep(_author: Author) -> Action:
    return ("sleep", 0)


def draw_virtual_sleep(author: Author) -> Action:
    return ("sleep", author.choice([0, 0, 0.25, 0.5, 1, 2]))


def draw_wait(author: Author) -> Action:
    kind = author.below(6)
    if kind == 0:
        return ("shield", awaited(author))
    if kind == 1:
        return ("wait_for", awaited(author), author.choice([0, -1, 1000]))
    if kind == 2:
        return ("gather", [(awaited(author),), (awaited(author),)], author.chance(0.5))
    if kind == 3:
        return ("wait_any", [(awaited(author),), (awaited(author),)])
    return ("wait_of", awaited(author))


def draw_timeout(author: Author) -> Action:
    return ("timeout", author.choice([0, 0, -1, 1000]), author.body(3, in_task=True))


def draw_virtual_timeout(author: Author) -> Action:
    return ("timeout", author.choice([0, 0.25, 0.5, 1]), author.body(3, in_task=True))


def draw_group(author: Author) -> Action:
    label = author.new("g")
    # One task: a group keeps its tasks in a set, and cancels several in any order.
    bodies = {"a": author.body(3, in_task=True)}
    return ("group", label, bodies, author.body(2, in_task=True))


def draw_guarded(author: Author) -> Action:
    if author.chance(0.4):
        return ("caught", author.new("h"), author.body(3, in_task=True))
    return ("guarded", author.new("h"), author.body(3, in_task=True), author.body(2, in_task=True))


def draw_shared(author: Author) -> Action:
    return author.choice([("put", author.new("q")), ("take",), ("locked", "lock", author.body(2, in_task=True))])


TASKS = {draw_task: 5.0, draw_future: 1.5, draw_resolve: 2.0, draw_on_done: 1.0, draw_cancel_task: 2.0, draw_about: 0.5}
IN_TASKS = {draw_sleep: 4.0, draw_wait: 4.0, draw_timeout: 1.0, draw_group: 1.0, draw_guarded: 1.5, draw_shared: 1.5}
