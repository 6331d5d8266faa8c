"""`create_connection`: the running Python version's own code, without its faults where an attempt fails.

Happy eyeballs (RFC 8305, `happy_eyeballs_delay`) do not use `asyncio.staggered`, which has had these:

- gh-124309 (in CPython 3.12.1 and 3.13.0, mended in 3.14.0): AssertionError with an eager task factory.
- gh-128479 (mended in 3.14.0): attempts that lost go on after the end, and exceptions are raised in no task.
- gh-135836 (mended in 3.14.0): IndexError if no attempt has left an OSError.
- gh-124858 (mended in 3.14.0): the exceptions and the frames are in reference cycles.

gh-153133 (mended in 3.14.8): a socket that the loop has made stays open if no transport can be made of it.

This file must not know what is done with a connection.
"""

from __future__ import annotations

import asyncio
import collections
import socket
from asyncio import base_events
from typing import TYPE_CHECKING, Any

from oneloop.waiting import clear_frame, wait

if TYPE_CHECKING:
    from collections.abc import Callable

_Stock: Any = asyncio.BaseEventLoop


class ConnectingMixin:
    """`create_connection` of `oneloop.Loop`, and its hooks."""

    __slots__ = ()

    async def create_connection(
        self: Any,
        protocol_factory: Callable[[], Any],
        host: Any = None,
        port: Any = None,
        *,
        happy_eyeballs_delay: float | None = None,
        interleave: int | None = None,
        **kwargs: Any,
    ) -> tuple[asyncio.Transport, Any]:
        """Connect to a host, or make a transport of the socket `sock`; see `asyncio.loop.create_connection`."""
        connecting = self
        if happy_eyeballs_delay is not None:
            connecting = _Race(self, happy_eyeballs_delay, 1 if interleave is None else interleave)
            # It has interleaved them.
            interleave = None
        try:
            made: tuple[asyncio.Transport, Any] = await _Stock.create_connection(
                connecting, protocol_factory, host, port, interleave=interleave, **kwargs
            )
            return made
        finally:
            # The traceback of an exception has this frame.
            del connecting, protocol_factory, kwargs

    async def _connect_sock(self: Any, *args: Any, **kwargs: Any) -> socket.socket:
        try:
            sock: socket.socket = await super()._connect_sock(*args, **kwargs)  # type: ignore[misc]
        finally:
            # The arguments hold the exceptions of this attempt, whose tracebacks hold this frame: break the cycle.
            del args, kwargs
        return sock

    async def _create_connection_transport(
        self: Any, sock: socket.socket, protocol_factory: Callable[[], Any], *args: Any, **kwargs: Any
    ) -> Any:
        number: Any = sock.fileno()
        if isinstance(number, int) and number != -1:  # no stand-in of a test, and not closed
            # Its transport keeps it: CPython closes it from 3.14.8 on when there can be no second one.
            self._ensure_fd_no_transport(number)
        try:
            return await super()._create_connection_transport(  # type: ignore[misc]
                sock, self._closing_at_failure(sock, protocol_factory), *args, **kwargs
            )
        except BaseException as exc:
            clear_frame(exc, _Stock._create_connection_transport)
            raise

    def _closing_at_failure(self: Any, sock: socket.socket, make: Callable[..., Any]) -> Callable[..., Any]:
        """Call `make`. If it raises, close the socket, as CPython does from 3.14.8 on."""

        def made(*args: Any, **kwargs: Any) -> Any:
            try:
                return make(*args, **kwargs)
            except BaseException:
                sock.close()
                raise

        return made


class _Race:
    """The loop, as `BaseEventLoop.create_connection` sees it: its first attempt tries all addresses."""

    def __init__(self, loop: Any, delay_s: float, interleave: int) -> None:
        self._loop = loop
        self._delay_s = delay_s
        self._interleave = interleave
        self._addresses: list[Any] | None = None
        self._has_raced = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def _ensure_resolved(self, address: Any, **options: Any) -> Any:
        options["loop"] = self._loop
        found = await self._loop._ensure_resolved(address, **options)
        if self._addresses is None:
            # The first is the host, the second the local address.
            if self._interleave:
                found = base_events._interleave_addrinfos(found, self._interleave)  # type: ignore[attr-defined]
            self._addresses = found
        return found

    async def _connect_sock(self, exceptions: list[Any], _: Any, local_addresses: Any = None) -> socket.socket:
        try:
            if not self._has_raced:
                self._has_raced = True
                sock = await self._race(exceptions, local_addresses)
                if sock is not None:
                    return sock
                if not any(exceptions):
                    # All attempts were cancelled, but not this task. CPython 3.14 has this error too.
                    exceptions.append([TimeoutError("create_connection failed")])
            # The caller goes on with the next address, and then raises what it finds in `exceptions`.
            raise OSError("the race has tried this address")
        finally:
            del exceptions

    async def _race(self, exceptions: list[Any], local_addresses: Any) -> socket.socket | None:
        """Start an attempt each time the last one has failed or the delay is over. Return the first socket."""
        loop, waiting = self._loop, collections.deque(self._addresses or ())
        running: set[asyncio.Task[socket.socket]] = set()
        sock = error = failure = done = last = None
        starts_at = loop.time()
        try:
            while sock is None and (waiting or running):
                if waiting and (last is None or loop.time() >= starts_at):
                    last = loop.create_task(loop._connect_sock(exceptions, waiting.popleft(), local_addresses))
                    running.add(last)
                    starts_at = loop.time() + self._delay_s
                done, _ = await wait(
                    running,
                    timeout=max(0.0, starts_at - loop.time()) if waiting else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                running -= done
                if last in done:
                    last = None
                # asyncio too goes on with the other addresses, whatever an attempt has raised.
                sock, failure = _first(done)
                error = failure if error is None else error
            if sock is None and error is not None and not any(exceptions):
                # As in asyncio, failures to connect are raised before others.
                raise error
            return sock
        finally:
            # The tracebacks have this frame.
            done = last = error = failure = exceptions = None  # type: ignore[assignment]
            try:
                await _end(running)
            except BaseException:
                if sock is not None:
                    sock.close()
                raise


def _first(done: set[asyncio.Task[socket.socket]]) -> tuple[socket.socket | None, BaseException | None]:
    """Return a socket, and close others. Otherwise return an error that is no failure to connect, if there is one."""
    sock = error = None
    for task in done:
        if task.cancelled():
            continue
        failure = task.exception()
        if failure is not None:
            error = error if isinstance(failure, OSError) else failure
        elif sock is None:
            sock = task.result()
        else:
            task.result().close()
    return sock, error


async def _end(running: set[asyncio.Task[socket.socket]]) -> None:
    """Cancel the attempts that have not won, and wait for their ends."""
    for task in running:
        task.add_done_callback(_drop)
        task.cancel()
    if running:
        await wait(running)


def _drop(task: asyncio.Task[socket.socket]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()
