"""Peers that know what they may expect: plain blocking sockets in threads, which no fault concerns."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from tests.faults.evidence import Evidence, ViolationError

TIMEOUT_S = 10.0


class Peer(threading.Thread):
    """Runs a function in a thread; `finish` raises what it raised."""

    def __init__(self, work: Callable[[], None], done: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.work, self.done = work, done
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.error = error
        finally:
            try:
                self.done()
            except OSError:
                self.done()  # the fault was in the call that wakes the loop

    def finish(self) -> None:
        """Wait for the end."""
        self.join(1.5 * TIMEOUT_S)
        if self.is_alive():
            raise ViolationError("the peer waits for ever")
        if self.error is not None:
            raise self.error


def receive_all(sock: socket.socket, size: int) -> tuple[bytes, str]:
    """Receive up to so many bytes, and say how it ended: "", "end" or the error's name."""
    received = bytearray()
    while len(received) < size:
        try:
            part = sock.recv(min(1 << 16, size - len(received)))
        except TimeoutError:
            raise ViolationError(f"nothing comes after {len(received)} of {size} bytes") from None
        except OSError as error:
            return bytes(received), type(error).__name__
        if not part:
            return bytes(received), "end"
        received += part
    return bytes(received), ""


def send_all(sock: socket.socket, data: bytes) -> str:
    """Send, and say how it failed or "" if it did not."""
    try:
        sock.sendall(data)
    except TimeoutError:
        raise ViolationError("nobody receives") from None
    except OSError as error:
        return type(error).__name__
    return ""


def exchange(name: str, sock: socket.socket, data: bytes, evidence: Evidence) -> None:
    """Send data in two parts to a server that echoes, and receive it."""
    half = len(data) // 2
    ends = send_all(sock, data[:half]) or send_all(sock, data[half:])
    received, end = receive_all(sock, len(data))
    if not data.startswith(received):
        raise ViolationError(f"{name}: other bytes than were sent")
    if received != data:
        evidence.damaged.append(f"{name}: {len(received)} of {len(data)} bytes, then {end or ends}")
