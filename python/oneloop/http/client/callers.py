"""How coroutines, green threads and plain code wait for the same coroutines of the client.

The code of a request is written once, as coroutines whose only awaited objects are the native core's. For a coroutine
they are awaited as they are. A green thread runs them step by step and parks on what they yield, a `Waiter`. Plain code
runs the client's own loop whenever they yield, until the native core stops it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from _thread import allocate_lock as _allocate_lock  # the original ones, even if patching replaces them later
from _thread import get_ident
from asyncio.events import _get_running_loop, _set_running_loop
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakSet, finalize, ref

from oneloop._native import ClientTurns, LoopCore
from oneloop.http.client.forks import forget_in_child, keep_of_parent
from oneloop.http.client.pools import CLOSING_TICKS
from oneloop.interrupts import is_main_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from oneloop.loop import Loop

__all__ = ["Caller", "Callers", "CoroutineCaller", "GreenCaller", "PlainCaller", "caller_of_here", "watch_end"]

T = TypeVar("T")


class Caller:
    """How code waits. `number` is what the native core calls it."""

    number: int
    is_synchronous = True
    """Whether the program that it serves has no coroutines."""
    loop: Loop

    def run(self, steps: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the client to its end."""
        raise NotImplementedError

    def run_task(self, steps: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine that awaits futures, such as those of files, to its end."""
        raise NotImplementedError

    async def result_of(self, make: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Wait for what a function returns, which may await futures."""
        return self.run_task(_awaited(make, *args))

    def let_end(self) -> None:
        """Let a connection that was just given up be closed, if nothing else does."""

    async def sleep(self, time_s: float) -> None:
        """Wait for some time."""
        raise NotImplementedError


async def _awaited(make: Callable[..., Awaitable[T]], *args: Any) -> T:
    # Called within the task: functions of files look for the running loop.
    return await make(*args)


class CoroutineCaller(Caller):
    """Coroutines of a oneloop loop, which await."""

    number = 0
    is_synchronous = False

    def __init__(self, loop: Loop) -> None:
        self.loop = loop

    async def result_of(self, make: Callable[..., Awaitable[T]], *args: Any) -> T:
        return await make(*args)

    async def sleep(self, time_s: float) -> None:
        await asyncio.sleep(time_s)


class GreenCaller(Caller):
    """Green threads of a hub."""

    number = 1

    def __init__(self, loop: Loop) -> None:
        self.loop = loop

    def run(self, steps: Coroutine[Any, Any, T]) -> T:
        try:
            waiter = steps.send(None)
            while True:
                try:
                    waiter.get()
                except BaseException as error:  # noqa: BLE001 - it is raised in the coroutine
                    waiter = steps.throw(error)
                else:
                    waiter = steps.send(None)
        except StopIteration as end:
            result: T = end.value
            return result

    def run_task(self, steps: Coroutine[Any, Any, T]) -> T:
        from oneloop.green.bridge import await_
        from oneloop.green.steps import wait_here

        return wait_here(await_, steps)

    async def sleep(self, time_s: float) -> None:
        from oneloop.green import sleep

        sleep(time_s)


class PlainCaller(Caller):
    """Code without a loop: one loop for each thread and client, which runs while a thread waits for what is on it."""

    number = 2

    def __init__(self) -> None:
        from oneloop.loop import Loop

        self.loop = Loop()
        # Debug mode refuses calls of other threads.
        self.loop.set_debug(False)
        self._prepare()
        self._turns = ClientTurns(self.loop)
        self._process = os.getpid()
        # What a callback has raised. The loop must not know the caller, which ends with its thread.
        self._raised: list[BaseException] = []
        self.loop.set_exception_handler(partial(_take_exception, self._raised))
        # See `watch_end`.
        self.end: finalize[Any, Any] | None = None

    def run(self, steps: Coroutine[Any, Any, T]) -> T:
        try:
            return self._run(steps)
        except BaseException:
            # A signal handler may have raised between two steps.
            steps.close()
            try:
                self.let_end()
            except Exception as error:  # noqa: BLE001 - only one can be raised
                _log(self.loop, error)
            raise

    def _run(self, steps: Coroutine[Any, Any, T]) -> T:
        turns = self._turns
        try:
            seen = turns.runs
            steps.send(None)
            while True:
                try:
                    self._wait(seen)
                except BaseException as error:  # noqa: BLE001 - it is raised in the coroutine
                    seen = turns.runs
                    steps.throw(error)
                else:
                    seen = turns.runs
                    steps.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        except RuntimeError as error:
            if not self.loop.is_closed():
                raise
            # By another thread, between two steps.
            raise RuntimeError("Cannot send a request, as the client has been closed.") from error

    def run_task(self, steps: Coroutine[Any, Any, T]) -> T:
        try:
            task = self.loop.create_task(steps)
        except BaseException:
            steps.close()
            raise
        task.add_done_callback(lambda _: self.loop.stop())
        try:
            self._wait_for(task)
        except BaseException:
            # It must not go on when the loop runs for something else.
            task.cancel()
            self._wait_for(task)
            if not task.cancelled():
                task.exception()
            raise
        return task.result()

    def _wait_for(self, task: asyncio.Task[Any]) -> None:
        while True:
            seen = self._turns.runs
            if task.done():
                return
            self._wait(seen)

    def _wait(self, seen: int) -> None:
        """Wait until the loop has been run more often than `seen`: until somebody's wait may be over."""
        while not self._turns.lead(self._run_loop, seen):
            place = _allocate_lock()
            place.acquire()
            if self._turns.follow(place, seen):
                place.acquire()

    def let_end(self) -> None:
        # The program may be busy with something else for long, and the server would wait for it. Whoever runs the loop
        # closes it; and a forked child has only a copy of the connection.
        loop = self.loop
        if self._process != os.getpid() or loop.is_closed() or loop.is_running():
            return
        try:
            for _ in range(CLOSING_TICKS):
                loop.call_soon(loop.stop)
                self._turns.lead(self._run_loop, self._turns.runs)
        except RuntimeError:
            if not loop.is_closed():
                raise

    def _run_loop(self) -> None:
        """Run the loop until it is stopped: `run_forever` without what only other programs need."""
        try:
            if self._prepared_in != get_ident() or (self._is_in_main and self.loop._noted_wakeup_fd < 0):
                self._prepare()
            self._turns.run()
        except BaseException:
            # Only one can be raised.
            while self._raised:
                _log(self.loop, self._raised.pop())
            raise
        if self._raised:
            raise self._raised.pop()

    def _prepare(self) -> None:
        """Let signals wake the loop if it runs in the main thread, and only there."""
        self._is_in_main = is_main_thread()
        self.loop._prepare_for_signals()
        self._prepared_in = get_ident()

    async def sleep(self, time_s: float) -> None:
        time.sleep(time_s)

    def finish(self) -> None:
        """Let what was closed end, and close the loop, unless another thread runs it: that one closes it at its end."""
        while not self.loop.is_closed() and not self.loop.is_running():
            if not self._turns.lead(self._close_loop, self._turns.runs):
                return

    def _close_loop(self) -> None:
        for _ in range(CLOSING_TICKS):
            self.loop.call_soon(self.loop.stop)
            self._run_loop()
        self.loop.close()


def _take_exception(raised: list[BaseException], loop: Any, context: dict[str, Any]) -> None:
    """Keep the exception of a callback for who waits: it may be that of a signal handler, which may run anywhere."""
    error = context.get("exception")
    # What is no Exception is nobody's mistake, wherever it is raised: a transport reports it without the handle.
    is_raised = isinstance(error, BaseException) and ("handle" in context or not isinstance(error, Exception))
    if not is_raised or raised:
        # Only one can be raised.
        loop.default_exception_handler(context)
        return
    raised.append(error)  # type: ignore[arg-type]
    loop.stop()


def _log(loop: Loop, error: BaseException) -> None:
    loop.default_exception_handler({"message": "Exception in a callback, beside another one", "exception": error})


def watch_end(caller: PlainCaller, forget: Callable[[Loop], None]) -> None:
    """Close the loop of a caller when its thread has ended and nobody reads its responses any more.

    Args:
        caller: the caller.
        forget: closes the connections on its loop.
    """
    if caller.end is None:
        # With a callback it is dead when the collector calls `_end`. CPython 3.15 clears other references later.
        there = ref(caller, _nothing)
        caller.end = finalize(
            caller, _end, there, os.getpid(), is_main_thread(), caller.loop, caller._turns, partial(forget, caller.loop)
        )


# Held while loops of plain code are ended, by `Callers.finish` or by the end of a thread. The latter may run in any
# thread, whenever the garbage collector finds the caller. A forked child renews it: a thread that is not there may hold
# it.
_ending = threading.RLock()
os.register_at_fork(after_in_child=_ending._at_fork_reinit)  # type: ignore[attr-defined]


def _nothing(_: object) -> None:
    """Called when a caller is gone."""


def _end(
    caller: ref[PlainCaller],
    process: int,
    is_main: bool,
    loop: Loop,
    turns: ClientTurns,
    forget: Callable[[], None],
) -> None:
    if process != os.getpid():
        # A thread that a fork has not copied, and whose locals are freed before the child's hooks are called. Its
        # connections are the parent's: TLS would end them.
        keep_of_parent((loop, forget))
        return
    if caller() is not None and not is_main:
        # The process ends. Only daemon threads are left beside the main one, and they may be within a request.
        return
    with _ending:
        while not loop.is_closed() and not loop.is_running():
            # Or a daemon thread reads a response of the main one.
            if not turns.lead(partial(_close, loop, forget), turns.runs):
                return


def _close(loop: Loop, forget: Callable[[], None]) -> None:
    """Close a loop of plain code that nobody runs, with its connections."""
    forget()
    outer = _get_running_loop()
    try:
        _set_running_loop(None)
        for _ in range(CLOSING_TICKS):
            loop.call_soon(loop.stop)
            loop.run_forever()
    finally:
        _set_running_loop(outer)
    loop.close()


class Callers:
    """The callers of a synchronous client."""

    def __init__(self) -> None:
        self._here = threading.local()
        self._plain: WeakSet[PlainCaller] = WeakSet()
        self._is_final = False
        forget_in_child(self)

    def _forget_parents(self) -> Any:
        """In a forked child: the loops and connections are the parent's."""
        kept = [self._here, list(self._plain)]
        for caller in self._plain:
            if caller.end is not None:
                caller.end.detach()
        self._here = threading.local()
        self._plain = WeakSet()
        return kept

    def here(self) -> Caller:
        """Return how the calling code waits."""
        hubs = sys.modules.get("oneloop.green.hub")
        hub: Any = None if hubs is None else hubs.hub_to_wait_on()
        if hub is not None:
            caller = getattr(self._here, "green", None)
            if caller is None or caller.loop is not hub.asyncio_loop:
                caller = self._here.green = GreenCaller(hub.asyncio_loop)
            return caller
        caller = getattr(self._here, "plain", None)
        if caller is None or caller.loop.is_closed():
            if self._is_final:
                raise RuntimeError("Cannot send a request, as the client has been closed.")
            caller = self._here.plain = PlainCaller()
            self._plain.add(caller)
        return caller

    def finish(self, close: Callable[[], object], *, is_final: bool = False) -> None:
        """Close the connections and let them end: close the loops of plain code, and let that of green threads run.

        Args:
            close: closes the connections.
            is_final: there are no more requests.
        """
        self._is_final = is_final
        with _ending:
            # As long as they are held here, their loops are not ended while their connections are closed.
            kept = list(self._plain)
            close()
            for caller in kept:
                caller.finish()
        green = getattr(self._here, "green", None)
        if green is None or green.loop.is_closed():
            return
        from oneloop.green.hub import sleep
        from oneloop.green.steps import may_block

        if not may_block():
            return
        for _ in range(CLOSING_TICKS):
            sleep(0)


def caller_of_here() -> CoroutineCaller:
    """Return the caller for the running coroutine.

    Raises:
        RuntimeError: no loop runs here, or another than oneloop's.
    """
    loop: Any = asyncio.get_running_loop()
    if not isinstance(loop, LoopCore):
        raise RuntimeError(
            f"oneloop.http.AsyncClient needs oneloop's event loop, not {type(loop).__module__}.{type(loop).__name__}: "
            "start the program with `oneloop.run(main())` or `oneloop run program.py`"
        )
    return CoroutineCaller(cast("Loop", loop))
