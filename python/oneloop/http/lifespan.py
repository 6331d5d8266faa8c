"""`Lifespan`: sends an ASGI application the startup and shutdown events (ASGI lifespan protocol, spec version 2.0)."""

from __future__ import annotations

import asyncio
import enum
import logging
from typing import TYPE_CHECKING, Any, Literal

from oneloop.waiting import wait

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Lifespan", "LifespanError"]

log = logging.getLogger("oneloop.error")


class LifespanError(Exception):
    """The application's startup failed. The message contains the application's reason."""


class _State(enum.Enum):
    """The state of the application. Transitions go only forward.

    NEW → STARTING → SERVING → STOPPING → ENDED, and from each state to ENDED.
    """

    NEW = 0
    STARTING = 1
    SERVING = 2
    STOPPING = 3
    ENDED = 4


_FAILURES = (("lifespan.startup.failed", _State.STARTING), ("lifespan.shutdown.failed", _State.STOPPING))


class Lifespan:
    """The application's lifespan task, and its `state`.

    Args:
        app: the ASGI application.
        mode: with "auto", an exception at startup means that the application does not support the protocol; with "on"
            it is an error; with "off" the protocol is not used.
    """

    def __init__(self, app: Callable[..., Any], mode: Literal["auto", "on", "off"] = "auto") -> None:
        self.state: dict[str, Any] = {}
        self._app = app
        self._mode = mode
        self._place = _State.NEW
        self._failure: str | None = None
        self._error: BaseException | None = None
        self._events: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        self._answered = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Wait until the application is ready.

        Raises:
            LifespanError: the application's startup failed.
        """
        if self._mode == "off":
            return
        log.info("Waiting for application startup.")
        self._place = _State.STARTING
        self._events.put_nowait({"type": "lifespan.startup"})
        self._task = asyncio.get_running_loop().create_task(self._run())
        try:
            await self._answered.wait()
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        if self._failure is not None:
            log.error("%s", self._failure)
            raise LifespanError(f"Application startup failed: {self._failure}")
        if self._error is not None:
            if self._mode == "on":
                log.error("Exception in 'lifespan' protocol", exc_info=self._error)
                raise LifespanError(f"Application startup failed: {self._error!r}") from self._error
            log.info("ASGI 'lifespan' protocol appears unsupported.")
            log.debug("The application raised this exception at startup", exc_info=self._error)
            return
        log.info("Application startup complete.")

    async def stop(self) -> None:
        """Wait until the application has ended. Errors are logged, not raised."""
        if self._task is None:
            return
        if self._place is _State.ENDED:
            await self._collect()
            return
        log.info("Waiting for application shutdown.")
        self._place = _State.STOPPING
        self._answered.clear()
        self._events.put_nowait({"type": "lifespan.shutdown"})
        await self._answered.wait()
        if self._failure is not None or self._error is not None:
            log.error("Application shutdown failed. %s", self._failure or "", exc_info=self._error)
        else:
            log.info("Application shutdown complete.")
        await self._collect()

    def abandon(self) -> None:
        """Cancel the application's task without sending the shutdown event."""
        if self._task is not None:
            self._place = _State.ENDED
            self._task.cancel()

    async def _collect(self) -> None:
        assert self._task is not None
        # After its last message, the application has the loop's next iterations to end; then it is cancelled.
        for _ in range(3):
            if not self._task.done():
                await asyncio.sleep(0)
        self._task.cancel()
        await wait([self._task])

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        try:
            await self._app(scope, self._receive, self._send)
        except asyncio.CancelledError as error:
            self._error = error
            raise
        except BaseException as error:
            # An application that has sent "startup.failed" can also raise the exception: report it only once.
            if self._failure is None:
                self._error = error
                if self._place is _State.SERVING:
                    log.error("The application's lifespan ended with an exception", exc_info=error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._place = _State.ENDED
            self._answered.set()

    async def _receive(self) -> dict[str, str]:
        return await self._events.get()

    async def _send(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "lifespan.startup.complete" and self._place is _State.STARTING:
            self._place = _State.SERVING
        elif (kind, self._place) in _FAILURES:
            self._failure = message.get("message") or "The application gave no reason."
        elif kind != "lifespan.shutdown.complete" or self._place is not _State.STOPPING:
            raise RuntimeError(
                f"the application sent {kind!r} while its lifespan state was {self._place.name.lower()!r}: see the ASGI"
                " lifespan specification for the allowed order"
            )
        self._answered.set()
