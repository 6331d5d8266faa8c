"""The world of one program on one loop: it plays actions and writes the trace.

The same code on every loop; nothing here asks which one it is. The trace is a list of tuples of plain values, the
first the depth of calls (a protocol that is called back from inside of `abort()` stands one deeper), the second what
happened. Addresses and descriptor numbers are left out of all texts.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import re
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from tests.differential import allowed
from tests.differential.program import Action, Body
from tests.differential.verb import COROUTINES, VERBS, Absent
from tests.differential.watchdog import HangError

Trace = list[tuple[Any, ...]]

# A program that goes on for ever is cut off here, at the same place on every loop.
MOST_ACTIONS = 1500
MOST_DEPTH = 12

SEEN: contextvars.ContextVar[str] = contextvars.ContextVar("SEEN", default="-")

RUN = re.compile(rb"(.)\1*", re.DOTALL)

SCRUBBED = [
    (re.compile(r"<[^<>]*( at |fd=)[^<>]*>"), "<…>"),
    (re.compile(r"0x[0-9a-f]+"), "0x"),
    (re.compile(r"\b(fd|descriptor|fileno)([ =:]+)-?\d+"), r"\1\2#"),
    (re.compile(r" at /[^ ]*:\d+"), ""),
    (re.compile(r"'(?!NoneType)[^']*' object has no"), "object has no"),
    (re.compile(r"when=[\d.]+"), "when=#"),
]


def scrub(text: str) -> str:
    """A text without addresses, numbers of descriptors and places in files."""
    for _ in range(3):
        for pattern, replacement in SCRUBBED:
            text = pattern.sub(replacement, text)
    return text


def error_of(exc: BaseException) -> tuple[Any, ...]:
    """Type and text of an exception, and those of a group's members."""
    if isinstance(exc, BaseExceptionGroup):
        return (type(exc).__name__, exc.message, *(error_of(inner) for inner in exc.exceptions))
    if allowed.TEXTS_OF_TYPE_ERRORS and type(exc) in (TypeError, NotImplementedError):
        return ("TypeError",)
    return (type(exc).__name__, scrub(str(exc)))


class PlannedError(Exception):
    """What a program raises on purpose."""


class PlannedExit(BaseException):
    """The same, for those who catch Exception only."""


PLANNED: dict[str, type[BaseException]] = {
    "error": PlannedError,
    "value": ValueError,
    "os": ConnectionResetError,
    "blocking": BlockingIOError,
    "cancelled": asyncio.CancelledError,
    "exit": SystemExit,
    "interrupt": KeyboardInterrupt,
    "base": PlannedExit,
}


class Callback:
    """A body that can be called; called and shown alike on every loop."""

    def __init__(self, world: World, label: str, body: Body) -> None:
        self.world = world
        self.label = label
        self.body = body

    def __call__(self, *args: object) -> None:
        self.world.enter(self.label, self.body, *args)

    def __repr__(self) -> str:
        return f"<{self.label}>"


class Local(threading.local):
    """What each thread has of its own."""

    depth = 0
    is_aside = False


class Steps:
    """Awaits a coroutine, and counts a step of the world whenever it goes on after a suspension."""

    def __init__(self, world: World, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.world = world
        self.coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        try:
            waited_for = self.coroutine.send(None)
            while True:
                try:
                    sent = yield waited_for
                except GeneratorExit:
                    self.coroutine.close()
                    raise
                except BaseException as exc:
                    self.world.step += 1
                    waited_for = self.coroutine.throw(exc)
                else:
                    self.world.step += 1
                    waited_for = self.coroutine.send(sent)
        except StopIteration as end:
            return end.value


class World:
    """One loop, the objects that a program has made on it, and the trace."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.trace: Trace = []
        self.things: dict[str, Any] = {}
        self.contexts: dict[str, contextvars.Context] = {}
        self.base = loop.time()
        self.local = Local()
        # What another thread writes down while the loop runs: its place between the loop's own entries is chance.
        self.side: Trace = []
        self.is_running = threading.Event()
        self.played = 0
        # Counts callbacks and steps of tasks: what two actions with the same number do is done in one callback.
        self.step = 0
        self.kills = 0
        # What is done when the program has ended, last first.
        self.endings: list[Callable[[], None]] = []
        self.threads_busy = 0
        # Tasks in the order of their making.
        self.tasks = 0
        self.ranks_of_labels: dict[str, int] = {}
        self.ranks: dict[Any, int] = {}
        loop.set_exception_handler(self.report)

    # -- the trace ---------------------------------------------------------------------------------

    def note(self, what: str, *details: object) -> None:
        trace = self.side if self.local.is_aside else self.trace
        trace.append((self.local.depth, what, *details))

    def take_side(self) -> None:
        """Put what other threads have written down behind all the rest."""
        self.trace.extend(self.side)
        self.side.clear()

    @property
    def depth(self) -> int:
        return self.local.depth

    @depth.setter
    def depth(self, depth: int) -> None:
        self.local.depth = depth

    def report(self, _loop: object, context: dict[str, Any]) -> None:
        exc = context.get("exception")
        message, keys = context["message"], sorted(context)
        if allowed.REPORTS_OF_CALLBACKS and message.startswith("Exception in callback"):
            message, keys = "Exception in callback", ["exception", "message"]
        self.note("report", scrub(message), error_of(exc) if exc is not None else None, keys)

    # -- objects by label ----------------------------------------------------------------------------

    def get(self, label: str) -> Any:
        try:
            return self.things[label]
        except KeyError:
            raise Absent(label) from None

    def context(self, name: str | None) -> contextvars.Context | None:
        if name is None:
            return None
        if name not in self.contexts:
            self.contexts[name] = contextvars.copy_context()
            self.contexts[name].run(SEEN.set, name)
        return self.contexts[name]

    def callback(self, label: str, body: Body) -> Callback:
        return Callback(self, label, body)

    def error(self, kind: str) -> BaseException:
        return PLANNED[kind](f"planned {kind}")

    # -- playing -------------------------------------------------------------------------------------

    def spin(self) -> None:
        """Compute for as long as the loop may leave out a poll."""
        if allowed.BURSTS:
            end = time.perf_counter() + allowed.SPIN_S
            while time.perf_counter() < end:
                pass

    def enter(self, label: str, body: Body, *args: object) -> None:
        """A callback begins: write it down and play its body."""
        self.note("call", label, *(plain(argument) for argument in args), SEEN.get())
        if self.depth == 0:
            self.step += 1
            self.spin()
        if self.depth >= MOST_DEPTH:
            return
        self.depth += 1
        try:
            self.play(body)
        finally:
            self.depth -= 1

    def play(self, body: Body) -> None:
        for action in body:
            if not self.counts(action):
                return
            if action[0] == "raise":
                raise self.error(action[1])
            if action[0] in VERBS:
                self.do(action)

    def counts(self, action: Action) -> bool:
        self.played += 1
        return self.played <= MOST_ACTIONS

    def do(self, action: Action) -> None:
        """One action; what it returns or raises is written down."""
        name, *args = action
        try:
            result = VERBS[name](self, *args)
        except Absent:
            return
        except HangError:
            raise
        except (Exception, asyncio.CancelledError) as exc:
            self.note("raised", name, label_of(args), *error_of(exc))
        else:
            if result is not None:
                self.note("done", name, label_of(args), plain(result))

    async def play_async(self, body: Body) -> None:
        """The same inside of a task; cancellations go through."""
        for action in body:
            if not self.counts(action):
                return
            name, *args = action
            if name == "raise":
                raise self.error(args[0])
            if name in VERBS:
                self.depth += 1
                try:
                    self.do(action)
                finally:
                    self.depth -= 1
            elif name in COROUTINES:
                await self.do_async(name, args)

    async def do_async(self, name: str, args: list[Any]) -> None:
        label = label_of(args)
        try:
            result = await Steps(self, COROUTINES[name](self, *args))
        except Absent:
            return
        except HangError:
            raise
        except asyncio.CancelledError as exc:
            self.resumed("cancelled", name, label, *error_of(exc))
            raise
        except Exception as exc:
            self.resumed("raised", name, label, *error_of(exc))
        else:
            self.resumed("done", name, label, plain(result))

    def resumed(self, what: str, *details: object) -> None:
        """A task begins or goes on."""
        self.note(what, *details, SEEN.get())
        self.spin()


def label_of(args: list[Any]) -> str:
    return args[0] if args and isinstance(args[0], str) else ""


def plain(value: object) -> object:
    """A value as the trace shows it."""
    if isinstance(value, BaseException):
        return error_of(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return shown(bytes(value))
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, tuple | list):
        return tuple(plain(item) for item in value)
    return f"<{type(value).__name__}>"


def shown(data: bytes) -> str:
    """Bytes as runs of equal ones: `A*300 B*5`."""
    return " ".join(f"{match[1].decode('latin-1')}*{len(match[0])}" for match in RUN.finditer(data))


class LogRecords(logging.Handler):
    """asyncio's own warnings go into the trace."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self.world = world

    def emit(self, record: logging.LogRecord) -> None:
        first_line = record.getMessage().split("\n")[0]
        self.world.note("log", record.levelname, scrub(first_line))
