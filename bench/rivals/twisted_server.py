# ruff: noqa: N802 - twisted's names
"""twisted's echo servers: a Protocol on the epoll reactor."""

# mypy: ignore-errors
# Without its plugin, mypy reads zope interfaces as classes whose methods lack self.
from __future__ import annotations

from pathlib import Path

from twisted.internet import epollreactor
from twisted.internet.error import ConnectionLost
from twisted.internet.interfaces import ITransport
from twisted.internet.protocol import DatagramProtocol, Factory, Protocol, connectionDone
from twisted.python.failure import Failure

epollreactor.install()

from twisted.internet import reactor  # noqa: E402 - the reactor is chosen by the import above

from bench.rivals import endpoint  # noqa: E402


class Echo(Protocol):
    transport: ITransport

    def connectionMade(self) -> None:
        if hasattr(self.transport, "setTcpNoDelay"):
            self.transport.setTcpNoDelay(True)

    def dataReceived(self, data: bytes) -> None:
        self.transport.write(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        reason.trap(ConnectionLost, connectionDone.type)


class EchoOnce(Echo):
    def dataReceived(self, data: bytes) -> None:
        self.transport.write(data)
        self.transport.loseConnection()


class EchoEach(Echo):
    size = 64
    rest = b""

    def dataReceived(self, data: bytes) -> None:
        data = self.rest + data
        whole = len(data) // self.size * self.size
        for at in range(0, whole, self.size):
            self.transport.write(data[at : at + self.size])
        self.rest = data[whole:]


class EchoDatagrams(DatagramProtocol):
    def datagramReceived(self, datagram: bytes, addr: tuple[str, int]) -> None:
        self.transport.write(datagram, addr)


def main() -> None:
    where = endpoint.parse()
    EchoEach.size = where.size
    if where.form == "udp":
        port = reactor.listenUDP(0, EchoDatagrams(), "127.0.0.1", maxPacketSize=65_536)
        endpoint.announce_port(port.getHost().port)
        reactor.run()
        return
    kinds = {"accept": EchoOnce, "pipeline": EchoEach}
    factory = Factory.forProtocol(kinds.get(where.form, Echo))
    if where.family == "unix":
        reactor.listenUNIX(where.path, factory, backlog=endpoint.BACKLOG)
        endpoint.announce_port(0)
    elif where.tls:
        from twisted.internet import ssl  # needs pyOpenSSL; the other forms do not

        pem = Path(where.tls).read_bytes()
        options = ssl.PrivateCertificate.loadPEM(pem).options()
        port = reactor.listenSSL(0, factory, options, endpoint.BACKLOG, "127.0.0.1")
        endpoint.announce_port(port.getHost().port)
    else:
        port = reactor.listenTCP(0, factory, endpoint.BACKLOG, "127.0.0.1")
        endpoint.announce_port(port.getHost().port)
    reactor.run()


main()
