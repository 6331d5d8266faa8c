"""systemd: the sockets that it passes (sd_listen_fds(3)), and notifications to it (sd_notify(3))."""

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
    """Return the listening sockets that systemd has passed to this process, with their names.

    The environment variables are removed, so that child processes do not use the sockets.

    Raises:
        OSError: a descriptor is not a socket.
        ValueError: a variable is wrong, or a socket is not a listening stream socket.
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
            raise ValueError(
                f"the descriptor {FIRST_FD + index} from systemd is not a listening stream socket: use ListenStream="
                " with Accept=no in the socket unit"
            )
        taken.append((names[index] if index < len(names) else "unknown", made))
    return taken


class Notifier:
    """Notifies the service manager of the service's state. Does nothing without the variable NOTIFY_SOCKET."""

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        # Removed, so that child processes do not send notifications.
        address = environment.pop("NOTIFY_SOCKET", "")
        pid = environment.pop("WATCHDOG_PID", str(os.getpid()))
        interval = environment.pop("WATCHDOG_USEC", "")
        self._socket: socket.socket | None = None
        self.watchdog_s: float | None = None
        """The interval at which `alive` has to be called: half of systemd's watchdog timeout. None: no watchdog."""
        if not address.startswith(("/", "@")):
            return
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        if interval.isdecimal() and int(interval) and pid == str(os.getpid()):
            self.watchdog_s = int(interval) / 2e6

    def ready(self, status: str) -> None:
        """Notify that the service is ready; also call it after `reloading`."""
        self._send(f"READY=1\nSTATUS={status}\nMAINPID={os.getpid()}")

    def reloading(self) -> None:
        """Notify that workers or certificates are being replaced."""
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send(f"RELOADING=1\nMONOTONIC_USEC={now_us}")

    def stopping(self) -> None:
        """Notify that the service is stopping."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """Send a watchdog notification: the service is not stuck."""
        self._send("WATCHDOG=1")

    def close(self) -> None:
        """Close the socket. Later notifications are not sent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, text: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(text.encode(), self._address)
        except OSError as error:
            log.warning("Cannot notify the service manager: %s", error)
