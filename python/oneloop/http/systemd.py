"""systemd: the sockets that it passes (sd_listen_fds(3)), and what it is told (sd_notify(3))."""

from __future__ import annotations

import logging
import os
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableMapping

__all__ = ["Notifier", "inherited_sockets"]

log = logging.getLogger("oneloop.error")

# SD_LISTEN_FDS_START
FIRST_FD = 3


def inherited_sockets(environment: MutableMapping[str, str] = os.environ) -> list[tuple[str, socket.socket]]:
    """Take the listening sockets that were passed to this process, with their names.

    The variables are removed, so that no child takes the sockets for its own.

    Raises:
        OSError: a descriptor is no socket.
        ValueError: a variable is wrong, or a socket does not listen for streams.
    """
    pid = environment.pop("LISTEN_PID", "")
    count = environment.pop("LISTEN_FDS", "")
    names = environment.pop("LISTEN_FDNAMES", "").split(":")
    if not pid or not count or int(pid) != os.getpid():
        return []
    taken = []
    for index in range(int(count)):
        made = socket.socket(fileno=FIRST_FD + index)
        made.set_inheritable(False)
        if made.type != socket.SOCK_STREAM or not made.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise ValueError(f"descriptor {FIRST_FD + index} is not a listening stream socket")
        taken.append((names[index] if index < len(names) else "unknown", made))
    return taken


class Notifier:
    """Tells the service manager how the service is; does nothing where none has asked (NOTIFY_SOCKET)."""

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        # Removed, so that no child speaks for the service.
        address = environment.pop("NOTIFY_SOCKET", "")
        pid = environment.pop("WATCHDOG_PID", str(os.getpid()))
        interval = environment.pop("WATCHDOG_USEC", "")
        self._socket: socket.socket | None = None
        self.watchdog_s: float | None = None
        """How often `alive` has to be called: half of the time after which the service counts as dead."""
        if not address.startswith(("/", "@")):
            return
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        if interval.isdecimal() and int(interval) and pid == str(os.getpid()):
            self.watchdog_s = int(interval) / 2e6

    def ready(self, status: str) -> None:
        """Say that the service serves; also after `reloading`."""
        self._send(f"READY=1\nSTATUS={status}\nMAINPID={os.getpid()}")

    def reloading(self) -> None:
        """Say that workers or certificates are being replaced."""
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send(f"RELOADING=1\nMONOTONIC_USEC={now_us}")

    def stopping(self) -> None:
        """Say that the service ends."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """Say that the service is not stuck."""
        self._send("WATCHDOG=1")

    def close(self) -> None:
        """Close the socket; nothing is sent any more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, text: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(text.encode(), self._address)
        except OSError as error:
            log.warning("The service manager cannot be told: %s", error)
