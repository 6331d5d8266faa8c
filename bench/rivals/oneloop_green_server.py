"""oneloop's green threads, used like gevent's: StreamServer, a handler per connection, code that looks blocking."""

from __future__ import annotations

from bench.rivals import endpoint
from bench.rivals.cpu_work import work
from oneloop.green import socket
from oneloop.green.server import StreamServer

READ = 102_400


def echo(client: socket.socket, address: object) -> None:
    endpoint.no_delay(client)
    while data := client.recv(READ):
        client.sendall(data)


def echo_work(client: socket.socket, address: object) -> None:
    endpoint.no_delay(client)
    while data := client.recv(READ):
        work()
        client.sendall(data)


def main() -> None:
    where = endpoint.parse()
    listener = endpoint.listen(where)
    port = endpoint.port_of(listener)
    bound = socket.socket(listener.family, listener.type, listener.proto, fileno=listener.detach())
    server = StreamServer(bound, echo_work if where.form == "work" else echo)
    server.start()
    endpoint.announce_port(port)
    server.serve_forever()


if __name__ == "__main__":
    main()
