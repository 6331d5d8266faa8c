"""Questions to stats sockets: `ask` waits for one answer, `Question` is an answer that may come later.

A process that is stopped, or whose extension module holds the GIL, accepts the connection and does not answer. Its
question stays open, and the kernel says which process it is.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import socket
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneloop.cli import screen

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FORMAT", "Question", "SilentError", "TopError", "ask", "wait"]

FORMAT = 1
LIMIT_S = 5.0
"""The timeout for an answer. A process takes longer only if it is stopped or an extension module holds the GIL."""
ANSWER_MAX_BYTES = 64 << 20
_PEER = struct.Struct("iII")
"""struct ucred: process, user, group (unix(7))."""


class TopError(Exception):
    """There is nothing to show. The message says why, and what to do."""


class SilentError(TopError):
    """The process is there and does not answer."""


class Question:
    """A request for a snapshot, from its connection to its answer.

    Args:
        path: the stats socket.

    Raises:
        TopError: no process listens there, or it belongs to another user.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.asked_s = time.monotonic()
        self._received = bytearray()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(LIMIT_S)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise TopError(_why(path, error)) from None
        self._socket.setblocking(False)
        peer = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        self.pid: int = _PEER.unpack(peer)[0]

    def fileno(self) -> int:
        """Return the descriptor of the connection."""
        return self._socket.fileno()

    def close(self) -> None:
        """Give up the question."""
        self._socket.close()

    def receive(self) -> dict[str, Any] | None:
        """Return the snapshot, or None if its end has not arrived yet.

        Raises:
            TopError: the connection broke, or the answer is not a snapshot.
        """
        try:
            while chunk := self._socket.recv(65536):
                self._received += chunk
                if len(self._received) > ANSWER_MAX_BYTES:
                    raise OSError(errno.EMSGSIZE, "the answer is too long")
        except BlockingIOError:
            return None
        except OSError as error:
            raise TopError(_why(self.path, error)) from None
        return _read(self.path, self._received)

    def silence(self) -> dict[str, Any]:
        """Return what is shown of a process that has not answered: what the kernel knows of it."""
        words: list[str] = []
        parent = 0
        known = Path(f"/proc/{self.pid}")
        with contextlib.suppress(OSError):
            words = [os.fsdecode(word) for word in (known / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")]
            # proc_pid_stat(5): the state and the parent stand after the name, which may contain anything.
            parent = int((known / "stat").read_bytes().rpartition(b")")[2].split()[1])
        silent_s = time.monotonic() - self.asked_s
        return {"pid": self.pid, "parent": parent, "argv": words, "silent_s": silent_s, "loops": []}


def wait(questions: Iterable[Question], timeout_s: float) -> dict[Question, dict[str, Any] | TopError]:
    """Wait until all questions are answered, or until the timeout.

    Returns:
        The snapshot or the error of each question that is answered. These questions are closed.
    """
    found: dict[Question, dict[str, Any] | TopError] = {}
    until_s = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        for question in questions:
            selector.register(question, selectors.EVENT_READ, question)
        while selector.get_map():
            ready = selector.select(max(0.0, until_s - time.monotonic()))
            for key, _ in ready:
                question = key.data
                try:
                    answer: dict[str, Any] | TopError | None = question.receive()
                except TopError as error:
                    answer = error
                if answer is not None:
                    found[question] = answer
                    selector.unregister(question)
                    question.close()
            if time.monotonic() >= until_s:
                break
    return found


def ask(path: str) -> dict[str, Any]:
    """Request a snapshot from the process that listens at a path.

    Args:
        path: the stats socket.

    Returns:
        The snapshot.

    Raises:
        SilentError: the process has not answered in `LIMIT_S` seconds.
        TopError: no process listens there, or the answer is not a snapshot.
    """
    question = Question(path)
    answer = wait([question], LIMIT_S).get(question)
    if answer is None:
        question.close()
        raise SilentError(
            f"{screen.printable(path)}: process {question.pid} has not answered for {LIMIT_S:g} s."
            " It is stopped, or an extension module holds the GIL"
        )
    if isinstance(answer, TopError):
        raise answer
    return answer


def _why(path: str, error: OSError) -> str:
    shown = screen.printable(path)
    match error:  # pyright: ignore[reportMatchNotExhaustive]
        case TimeoutError() | BlockingIOError():
            return f"{shown} does not accept connections: its process is stopped, or holds the GIL"
        case FileNotFoundError() | ConnectionResetError():
            return f"the program at {shown} has ended"
        case ConnectionRefusedError():
            if not _is_socket(path):
                return f"{shown} is not a socket"
            return f"the program at {shown} has ended"
        case PermissionError():
            return f"{shown} belongs to another user; only its owner may watch the program"
    return f"{shown}: {error.strerror}"


def _is_socket(path: str) -> bool:
    # What has been removed since was one.
    return Path(path).is_socket() or not Path(path).exists()


def _read(path: str, received: bytearray) -> dict[str, Any]:
    shown = screen.printable(path)
    if not received:
        raise TopError(f"{shown} does not answer: the program belongs to another user, or it is ending")
    try:
        answer: dict[str, Any] = json.loads(received)
        version = answer["format"]
    except (ValueError, TypeError, KeyError):
        raise TopError(f"{shown} is not a stats socket of oneloop") from None
    if version != FORMAT:
        raise TopError(
            f"{shown} answers in format {version!r}, but this oneloop top reads only format {FORMAT}."
            " Use the program's version of oneloop"
        )
    return answer
