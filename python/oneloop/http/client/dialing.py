"""`dial`: a connected socket to the first of several addresses that takes the connection (RFC 8305)."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import TYPE_CHECKING, Any

from oneloop.waiting import wait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oneloop.http.client.resolving import Address
    from oneloop.loop import Loop

__all__ = ["HAPPY_EYEBALLS_DELAY_S", "begin", "dial"]

HAPPY_EYEBALLS_DELAY_S = 0.25
"""So long one address has for itself before the next one is tried beside it."""


def begin(address: Address, local_address: str | None) -> tuple[socket.socket, bool]:
    """Begin to connect. Returns the socket, and whether it is connected already.

    Raises:
        OSError: it cannot be.
    """
    family, where = address
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        if local_address is not None:
            sock.bind((local_address, 0))
        try:
            sock.connect(where)
        except (BlockingIOError, InterruptedError):
            return sock, _is_connected(sock, where)
        except OSError as error:
            raise OSError(error.errno, f"Connect call failed {where}") from None
    except BaseException:
        sock.close()
        raise
    return sock, True


def _is_connected(sock: socket.socket, where: Any) -> bool:
    """Whether a connection is made already. On the same machine it mostly is when the kernel has begun with it.

    Raises:
        OSError: it has failed.
    """
    number = sock.connect_ex(where)
    if number in (errno.EALREADY, errno.EINPROGRESS, errno.EINTR):
        return False
    if number and number != errno.EISCONN:
        raise OSError(number, f"Connect call failed {where}")
    return True


async def _try(loop: Loop, address: Address, local_address: str | None) -> socket.socket:
    sock, is_connected = begin(address, local_address)
    try:
        if not is_connected:
            await loop._wait_writable(sock)
            raise_failure(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


def raise_failure(sock: socket.socket, address: Address) -> None:
    """Raise the error of a connection that could not be made."""
    number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if number:
        raise OSError(number, f"Connect call failed {address[1]}")


async def dial(loop: Loop, addresses: Sequence[Address], local_address: str | None = None) -> socket.socket:
    """Connect to one of the addresses.

    Args:
        loop: the loop.
        addresses: the best one first.
        local_address: the address to connect from.

    Raises:
        OSError: none of them took the connection.
    """
    if len(addresses) == 1:
        return await _try(loop, addresses[0], local_address)
    rest = list(addresses)
    attempts: set[asyncio.Task[socket.socket]] = set()
    done: set[asyncio.Task[socket.socket]] = set()
    won: list[socket.socket] = []
    errors: list[OSError] = []
    try:
        while rest or attempts:
            if rest:
                attempts.add(loop.create_task(_try(loop, rest.pop(0), local_address)))
            done, attempts = await wait(
                attempts, timeout=HAPPY_EYEBALLS_DELAY_S if rest else None, return_when=asyncio.FIRST_COMPLETED
            )
            won = [attempt.result() for attempt in done if attempt.exception() is None]
            errors += [error for attempt in done if isinstance(error := attempt.exception(), OSError)]
            for late in won[1:]:
                late.close()
            if won:
                return won[0]
        raise _all_failed(errors)
    finally:
        for attempt in attempts:
            attempt.cancel()
            attempt.add_done_callback(_drop)
        # The traceback of what is raised has this frame.
        del done, won, errors


def _all_failed(errors: list[OSError]) -> OSError:
    if len({str(error) for error in errors}) == 1:
        return errors[0]
    return OSError("Multiple exceptions: " + ", ".join(map(str, errors)))


def _drop(attempt: asyncio.Task[socket.socket]) -> None:
    """An attempt that came too late."""
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()
