"""oneloop's green threads serving as gevent's do: a green thread for each connection, code that looks blocking."""

from __future__ import annotations

from bench.rivals import endpoint
from bench.rivals.cpu_work import work
from oneloop import green
from oneloop.green import socket

READ = 102_400


def echo(client: socket.socket, heavy: bool) -> None:
    with client:
        while data := client.recv(READ):
            if heavy:
                work()
            client.sendall(data)


def main() -> None:
    where = endpoint.parse()
    bound = endpoint.listen(where)
    endpoint.announce(bound)
    listener = socket.socket(bound.family, bound.type, bound.proto, fileno=bound.detach())
    while True:
        client, _ = listener.accept()
        green.spawn(echo, client, where.form == "work")


if __name__ == "__main__":
    main()
