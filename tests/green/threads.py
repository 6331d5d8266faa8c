"""Calls in OS threads, for the tests of thread pools and executors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from oneloop import green


class Gate:
    """Holds calls in OS threads until it is opened."""

    def __init__(self) -> None:
        self._is_open = threading.Event()
        self.entered: list[Any] = []

    def open(self) -> None:
        self._is_open.set()

    def __call__(self, value: Any = None) -> Any:
        self.entered.append(value)
        self._is_open.wait(20)
        return value


def square(number: int) -> int:
    return number * number


def fail(number: int) -> int:
    if number == 1:
        raise ValueError(number)
    return number


def until(condition: Callable[[], object]) -> None:
    """Wait until another thread makes the condition true."""
    while not condition():
        green.sleep(0.001)
