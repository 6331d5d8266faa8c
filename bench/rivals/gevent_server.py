"""gevent's echo servers: StreamServer with a handler per connection, DatagramServer."""

# mypy: disable-error-code="import-untyped,import-not-found"
# Gevent has no stubs.
from __future__ import annotations

from gevent.server import DatagramServer, StreamServer
from gevent.socket import socket as GreenSocket  # noqa: N812 - a class, whatever its name
from gevent.ssl import SSLContext

from bench.rivals import endpoint
from bench.rivals.cpu_work import work

READ = 102_400


def echo(client: GreenSocket, address: object) -> None:
    endpoint.no_delay(client)
    while data := client.recv(READ):
        client.sendall(data)


def echo_work(client: GreenSocket, address: object) -> None:
    endpoint.no_delay(client)
    while data := client.recv(READ):
        work()
        client.sendall(data)


def echo_once(client: GreenSocket, address: object) -> None:
    endpoint.no_delay(client)
    client.sendall(client.recv(READ))


def echo_each(size: int, client: GreenSocket) -> None:
    endpoint.no_delay(client)
    rest = b""
    while data := client.recv(READ):
        data = rest + data
        whole = len(data) // size * size
        for at in range(0, whole, size):
            client.sendall(data[at : at + size])
        rest = data[whole:]


class EchoDatagrams(DatagramServer):  # type: ignore[misc]
    def handle(self, data: bytes, address: tuple[str, int]) -> None:
        self.socket.sendto(data, address)


def main() -> None:
    where = endpoint.parse()
    listener = endpoint.listen(where)
    port = endpoint.port_of(listener)
    green = GreenSocket(fileno=listener.detach())
    if where.form == "udp":
        server = EchoDatagrams(green)
    else:
        handlers = {"accept": echo_once, "work": echo_work, "pipeline": lambda c, _: echo_each(where.size, c)}
        handler = handlers.get(where.form, echo)
        context = endpoint.tls_context(where, SSLContext)
        tls = {"ssl_context": context} if context else {}
        server = StreamServer(green, handler, **tls)
    server.start()
    endpoint.announce_port(port)
    server.serve_forever()


main()
