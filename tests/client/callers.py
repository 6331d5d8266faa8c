"""The same requests from a coroutine, a green thread and plain code."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import oneloop
from oneloop.http import AsyncClient, Client, Response, ServerSentEvent

T = TypeVar("T")
KINDS = ("coroutine", "green", "plain")


class Interrupted(BaseException):
    """What plain code is cancelled with: the handler of a signal raises it."""


class Caller:
    """A client of one kind with the methods of `Client`. Close it."""

    def __init__(self, kind: str, **settings: Any) -> None:
        self.kind = kind
        self._is_closed = False
        if kind == "plain":
            self.client: Any = Client(**settings)
            return
        self._loop = oneloop.new_event_loop()
        self.client = Client(**settings) if kind == "green" else AsyncClient(**settings)

    def _run(self, call: Callable[[], Any]) -> Any:
        if self.kind == "plain":
            return call()
        if self.kind == "green":
            return self._loop.run_until_complete(self._loop.run_green(call))

        async def awaited() -> Any:
            return await call()

        return self._loop.run_until_complete(awaited())

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.client, name)
        if not callable(method) or name in ("statistics", "build_request"):
            return method
        return lambda *args, **kwargs: self._run(lambda: method(*args, **kwargs))

    def pieces(self, method: str, url: str, how: str = "iter_bytes", **arguments: Any) -> tuple[Response, list[Any]]:
        """Stream a response; `how`: the iterator, without the `a` of the asynchronous one."""
        if self.kind != "coroutine":

            def read() -> tuple[Response, list[Any]]:
                with self.client.stream(method, url, **arguments) as response:
                    return response, list(getattr(response, how)())

            read_all: tuple[Response, list[Any]] = self._run(read)
            return read_all

        async def aread() -> tuple[Response, list[Any]]:
            async with self.client.stream(method, url, **arguments) as response:
                return response, [piece async for piece in getattr(response, "a" + how)()]

        return self._loop.run_until_complete(aread())

    def events(self, url: str) -> list[ServerSentEvent]:
        """Read all events of a stream."""
        if self.kind != "coroutine":

            def read() -> list[ServerSentEvent]:
                with self.client.sse(url) as source:
                    return list(source)

            events: list[ServerSentEvent] = self._run(read)
            return events

        async def aread() -> list[ServerSentEvent]:
            async with self.client.sse(url) as source:
                return [event async for event in source]

        return self._loop.run_until_complete(aread())

    def shake_hands(self, url: str, **arguments: Any) -> None:
        """Open a WebSocket, and close it."""
        if self.kind != "coroutine":

            def run() -> None:
                with self.client.websocket(url, **arguments):
                    pass

            self._run(run)
            return

        async def arun() -> None:
            async with self.client.websocket(url, **arguments):
                pass

        self._loop.run_until_complete(arun())

    def cancel_when(self, reached: threading.Event, method: str, *args: Any, **kwargs: Any) -> None:
        """Send a request, which waits, and cancel it."""
        call = getattr(self.client, method)
        if self.kind == "plain":
            self._interrupt_when(reached, lambda: call(*args, **kwargs))
            return
        if self.kind == "green":
            from oneloop.green import GreenletExit, sleep, spawn

            def main() -> None:
                thread = spawn(call, *args, **kwargs)
                while not reached.is_set():
                    sleep(0.002)
                sleep(0.02)
                thread.kill()
                assert isinstance(thread.value, GreenletExit), thread.value

            self._run(main)
            return

        async def amain() -> None:
            task = asyncio.ensure_future(call(*args, **kwargs))
            while not reached.is_set():
                await asyncio.sleep(0.002)
            await asyncio.sleep(0.02)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled(), task

        self._loop.run_until_complete(amain())

    @staticmethod
    def _interrupt_when(reached: threading.Event, call: Callable[[], Any]) -> None:
        def interrupt(*_: object) -> None:
            raise Interrupted

        def watch() -> None:
            reached.wait(60)
            threading.Event().wait(0.05)
            os.kill(os.getpid(), signal.SIGUSR1)

        before = signal.signal(signal.SIGUSR1, interrupt)
        thread = threading.Thread(target=watch)
        thread.start()
        try:
            call()
        except Interrupted:
            pass
        else:
            raise AssertionError("the request ended before it was interrupted")
        finally:
            thread.join()
            signal.signal(signal.SIGUSR1, before)

    def close_when(self, reached: threading.Event, method: str, *args: Any, **kwargs: Any) -> BaseException | None:
        """Send a request, which waits, and close the client. Returns the exception of the request."""
        call = getattr(self.client, method)
        if self.kind == "plain":

            def watch() -> None:
                reached.wait(60)
                threading.Event().wait(0.02)
                self.client.close()

            closer = threading.Thread(target=watch)
            closer.start()
            try:
                call(*args, **kwargs)
            except Exception as error:
                return error
            finally:
                closer.join()
            return None
        if self.kind == "green":
            from oneloop.green import sleep, spawn

            def main() -> BaseException | None:
                thread = spawn(call, *args, **kwargs)
                while not reached.is_set():
                    sleep(0.002)
                sleep(0.02)
                self.client.close()
                thread.join()
                exception: BaseException | None = thread.exception
                return exception

            found: BaseException | None = self._run(main)
            return found

        async def amain() -> BaseException | None:
            task = asyncio.ensure_future(call(*args, **kwargs))
            while not reached.is_set():
                await asyncio.sleep(0.002)
            await asyncio.sleep(0.02)
            await self.client.aclose()
            await asyncio.wait([task])
            error: BaseException | None = task.exception()
            return error

        ended: BaseException | None = self._loop.run_until_complete(amain())
        return ended

    def close(self) -> None:
        """Close the client, and its loop."""
        if self._is_closed:
            return
        self._is_closed = True
        if self.kind == "plain":
            self.client.close()
            return
        if self.kind == "green":
            self._run(self.client.close)
        else:
            self._loop.run_until_complete(self.client.aclose())
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()
