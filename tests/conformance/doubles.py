"""oneloop's stand-ins for the loops that CPython's asyncio tests define themselves.

`test_tasks`, `test_futures` and others run on `utils.TestLoop`: a `BaseEventLoop` whose time is moved by a generator of
the test. Left alone they would assert nothing about oneloop. Here oneloop's virtual clock moves the time, and the
generator checks the deadlines that the test asked for. How far it would have moved the clock is not needed: the clock
goes to the next deadline when nothing else is ready.

Knows the loops only; `bootstrap.py` says where each takes the place of what.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import Any, ClassVar, Self

import oneloop
from oneloop import testing

Advances = Generator[float | None, float, None]


class CountedLoop(oneloop.Loop):
    """A loop of oneloop's; the class knows how many there have been, so that a test can be seen to have used one."""

    made = 0

    def __init__(self, *, virtual_time: bool = False) -> None:
        super().__init__(virtual_time=virtual_time)
        CountedLoop.made += 1

    def _run_once(self) -> None:
        """One tick, for the tests that call the private method of that name."""
        self.stop()
        self.run_forever()


class TestLoop(CountedLoop, testing._VirtualTimeLoop):
    """`utils.TestLoop` on oneloop: checks each deadline against the test's generator.

    `adopt` gives it the readers and writers of that class, and the assertions about them.
    """

    # The class of that name in `test.test_asyncio.utils`.
    stock: ClassVar[type[Any]]

    def __new__(cls, *_args: object) -> Self:
        return super().__new__(cls, virtual_time=True)

    def __init__(self, gen: Callable[[], Advances] | None = None) -> None:
        super().__init__(virtual_time=True)
        self._check_on_close = gen is not None
        self._gen = (gen or _no_timers)()
        next(self._gen)
        self._soon: list[Any] = []
        model = self.stock()
        for name in ("readers", "writers", "remove_reader_count", "remove_writer_count", "_transports", "_selector"):
            setattr(self, name, getattr(model, name))

    @property
    def _ready(self) -> list[Any]:
        """What waits for its turn, for the tests that run the loop until it is empty."""
        self._soon = [handle for handle in self._soon if handle._callback is not None]
        return self._soon

    @_ready.setter
    def _ready(self, _queue: object) -> None:
        """Set by BaseEventLoop's constructor."""

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        handle = super().call_soon(callback, *args, context=context)
        # In debug mode it is asyncio's own, which does not show whether it has run.
        if not self.get_debug():
            self._soon.append(handle)
        return handle

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        handle = super().call_later(delay, callback, *args, context=context)
        self._ask(handle.when())
        return handle

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        handle = super().call_at(when, callback, *args, context=context)
        self._ask(when)
        return handle

    def _ask(self, when: float) -> None:
        if self._check_on_close:
            self._gen.send(when)

    def advance_time(self, advance: float) -> None:
        """Nothing: virtual time moves by itself, and no test may have it stand still."""

    def close(self) -> None:
        super().close()
        if self._check_on_close:
            try:
                self._gen.send(0)
            except StopIteration:
                return
            raise AssertionError("Time generator is not finished")


def _no_timers() -> Advances:
    yield None


def adopt(stock: type[Any]) -> type[TestLoop]:
    """Make `TestLoop` the stand-in for the loop that this interpreter's tests define."""
    TestLoop.stock = stock
    of_the_loop = {"time", "_run_once", "_process_events", "_write_to_self", *vars(TestLoop)}
    for name, function in vars(stock).items():
        if inspect.isfunction(function) and name not in of_the_loop:
            setattr(TestLoop, name, function)
    return TestLoop
