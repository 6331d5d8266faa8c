"""`send_body`: a request's body, part by part."""

from __future__ import annotations

import asyncio
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from oneloop.http.client.errors import LocalProtocolError, TotalTimeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oneloop._native import ClientExchange
    from oneloop.http.client.callers import Caller
    from oneloop.http.client.requests import Request

__all__ = ["CHUNKS", "framed", "send_body"]

CONTINUE_TIME_S = 1.0
"""How long to wait for `100 Continue` (RFC 9110 section 10.1.1: not for ever)."""
CHUNKS = -1
"""What `framed_head` says of a body in chunks."""


def framed(request: Request, body: bytes, length: int | None) -> bytes:
    """Return a whole body, if it is as long as the request's fields say.

    Args:
        request: the request.
        body: its body.
        length: what `framed_head` says of it.

    Raises:
        LocalProtocolError: the body is not as long as the request says.
    """
    if length != CHUNKS and len(body) != (length or 0):
        raise _wrong_length(request, is_more=len(body) > (length or 0))
    return body


def _wrong_length(request: Request, *, is_more: bool) -> LocalProtocolError:
    what = "much" if is_more else "little"
    return LocalProtocolError(f"Too {what} data for declared Content-Length", request=request)


async def send_body(
    caller: Caller,
    exchange: ClientExchange,
    request: Request,
    body: bytes | Callable[[], Any],
    length: int | None,
    deadline_s: float | None,
) -> None:
    """Send a body, unless the server responds before it has all of it.

    Args:
        caller: who waits.
        exchange: the exchange of the request, whose head was sent.
        request: the request.
        body: what to send; or a function that returns the next part, or an awaitable of it; b"" at the end.
        length: what `framed_head` says of it.
        deadline_s: when the time of the whole request is over, on the loop's clock.

    Raises:
        LocalProtocolError: the body is not as long as the request says.
        TotalTimeout: the program does not give the next part in time.
    """
    if "expect" in request.headers:
        # The time begins when the head is sent.
        if not await exchange.drained():
            return
        timer = caller.loop.call_later(CONTINUE_TIME_S, exchange.stop_waiting)
        try:
            if not await exchange.welcome():
                return
        finally:
            timer.cancel()
    if isinstance(body, bytes):
        exchange.send(body)
        exchange.sent()
        return
    try:
        await _send_parts(exchange, request, body, length, deadline_s)
    finally:
        await request.stream.finish()  # type: ignore[union-attr]


async def _send_parts(
    exchange: ClientExchange,
    request: Request,
    read: Callable[[], Any],
    length: int | None,
    deadline_s: float | None,
) -> None:
    left = length or 0
    while await exchange.room():
        made = read()
        piece: bytes = await _in_time(made, deadline_s) if isawaitable(made) else made
        if length != CHUNKS:
            left -= len(piece)
            if left < 0 or (left and not piece):
                raise _wrong_length(request, is_more=left < 0)
        if not piece:
            exchange.sent()
            return
        exchange.send(bytes(piece))


async def _in_time(part: Awaitable[bytes], deadline_s: float | None) -> bytes:
    if deadline_s is None:
        return await part
    limit = asyncio.timeout_at(deadline_s)
    try:
        async with limit:
            return await part
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise TotalTimeout("the request took longer than its total timeout") from error
