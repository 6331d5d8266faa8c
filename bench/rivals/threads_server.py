"""The blocking server: a thread for each connection, for comparison with green threads."""

from __future__ import annotations

import socket
import threading

from bench.rivals import endpoint
from bench.rivals.cpu_work import work

READ = 102_400


def echo(client: socket.socket, heavy: bool) -> None:
    with client:
        while data := client.recv(READ):
            if heavy:
                work()
            client.sendall(data)


def main() -> None:
    where = endpoint.parse()
    # Small stacks, as in a program with thousands of threads.
    threading.stack_size(256 * 1024)
    listener = endpoint.listen(where)
    listener.setblocking(True)
    endpoint.announce(listener)
    while True:
        client, _ = listener.accept()
        args = (client, where.form == "work")
        threading.Thread(target=echo, args=args, daemon=True).start()


if __name__ == "__main__":
    main()
