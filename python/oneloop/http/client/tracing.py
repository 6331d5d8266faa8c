"""`Trace`: tells a program, and its log, the steps of a request, as httpcore's extension `trace` does.

Requests that nobody follows have no trace, and pay nothing for it.
"""

from __future__ import annotations

import logging
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["Phase", "Trace", "loggers_of"]


def loggers_of(package: str) -> dict[str, logging.Logger]:
    """Return the loggers of a package by the prefixes of their events."""
    return {name: logging.getLogger(f"{package}.{name}") for name in ("connection", "http11", "http2")}


class Trace:
    """Tells the steps of one request.

    Args:
        told: the program's function, or coroutine function for requests of coroutines; None: only the log.
        loggers: from `loggers_of`.
        is_async: the request is one of a coroutine.
    """

    def __init__(
        self, told: Callable[[str, dict[str, Any]], Any] | None, loggers: dict[str, logging.Logger], *, is_async: bool
    ) -> None:
        self._told = told
        self._loggers = loggers
        self._is_async = is_async

    def phase(self, prefix: str, name: str, info: dict[str, Any] | None = None) -> Phase:
        """Return a context for `async with`, which tells the start and the end of a step."""
        return Phase(self, prefix, name, info or {})

    async def tell(self, prefix: str, name: str, info: dict[str, Any]) -> None:
        """Tell one event.

        Raises:
            TypeError: the program's function is a coroutine function, or is none, where it should not.
        """
        if self._told is not None:
            result = self._told(f"{prefix}.{name}", info)
            if isawaitable(result) is not self._is_async:
                if self._is_async:
                    raise TypeError("the callback of the `trace` extension must be a coroutine function here")
                raise TypeError("the callback of the `trace` extension must not be a coroutine function here")
            if self._is_async:
                await result
        logger = self._loggers[prefix]
        if logger.isEnabledFor(logging.DEBUG):
            shown = [f"{key}={value!r}" for key, value in info.items() if key != "return_value" or value is not None]
            logger.debug(" ".join([name, *shown]))


class Phase:
    """One step; its user sets `result`."""

    def __init__(self, trace: Trace, prefix: str, name: str, info: dict[str, Any]) -> None:
        self._trace, self._prefix, self._name, self._info = trace, prefix, name, info
        self.result: Any = None

    async def __aenter__(self) -> Self:
        await self._trace.tell(self._prefix, f"{self._name}.started", self._info)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            await self._trace.tell(self._prefix, f"{self._name}.complete", {"return_value": self.result})
        else:
            await self._trace.tell(self._prefix, f"{self._name}.failed", {"exception": error})
