"""The talk's server without a framework, with epoll (the talk used select, which is limited to 1024 descriptors)."""

from __future__ import annotations

import select
import socket

from bench.rivals import endpoint
from bench.rivals.cpu_work import work

READ = 102_400


def main() -> None:
    where = endpoint.parse()
    heavy = where.form == "work"
    listener = endpoint.listen(where)
    poller = select.epoll()
    poller.register(listener, select.EPOLLIN)
    clients: dict[int, socket.socket] = {}
    endpoint.announce(listener)
    while True:
        for fd, _ in poller.poll():
            if fd == listener.fileno():
                client, _ = listener.accept()
                clients[client.fileno()] = client
                poller.register(client, select.EPOLLIN)
                continue
            data = clients[fd].recv(READ)
            if not data:
                poller.unregister(fd)
                clients.pop(fd).close()
                continue
            if heavy:
                work()
            clients[fd].sendall(data)


main()
