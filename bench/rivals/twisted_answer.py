# ruff: noqa: N802 - twisted's names
"""The server of `first_answer` on twisted's epoll reactor."""

# mypy: ignore-errors
# Without its plugin, mypy reads zope interfaces as classes whose methods lack self.
from __future__ import annotations

import os
import socket

from twisted.internet import epollreactor
from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.protocol import Factory, Protocol
from zope.interface import implementer

epollreactor.install()

from twisted.internet import reactor  # noqa: E402 - the reactor is chosen by the import above

from bench.rivals.cpu_work import AFTER_ANSWER_S, compute_for  # noqa: E402


def serve(servers: list[socket.socket], result: int, answer: bytes) -> bytes:
    """Runs the server until the client has sent its figures, and returns them."""

    class Handler(Protocol):
        """Answers, then computes."""

        def dataReceived(self, data: bytes) -> None:
            self.transport.write(answer)
            compute_for(AFTER_ANSWER_S)

    @implementer(IReadDescriptor)
    class Result:
        data = b""

        def fileno(self) -> int:
            return result

        def logPrefix(self) -> str:
            return "result"

        def connectionLost(self, reason: object) -> None:
            pass

        def doRead(self) -> None:
            self.data = os.read(result, 16)
            reactor.removeReader(self)
            reactor.stop()

    found = Result()
    factory = Factory.forProtocol(Handler)
    for server in servers:
        # It has a descriptor of its own.
        reactor.adoptStreamConnection(server.fileno(), socket.AF_UNIX, factory)
        server.close()
    reactor.addReader(found)
    reactor.run(installSignalHandlers=False)
    return found.data
