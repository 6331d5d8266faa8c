"""Green threads: an echo server of `oneloop.green`'s sockets, and plain code patched by nothing as its peer."""

from __future__ import annotations

import functools
import os

from oneloop import green
from oneloop.green import socket as green_socket
from tests.faults.evidence import Evidence
from tests.faults.runs import Scenario
from tests.faults.scenarios.peers import Peer
from tests.faults.scenarios.tcp import SIZES, clients


def _echo(evidence: Evidence, sock: green_socket.socket) -> None:
    try:
        with sock:
            while data := sock.recv(8192):
                sock.sendall(data)
    except OSError as error:
        evidence.errors.append(error)


def _serve(evidence: Evidence) -> None:
    listener = green_socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    peer = Peer(functools.partial(clients, evidence, listener.family, listener.getsockname()), lambda: None)
    peer.start()
    threads, socks = [], []
    try:
        for _ in SIZES:
            sock, _ = listener.accept()
            socks.append(sock)
            threads.append(green.spawn(_echo, evidence, sock))
        green.joinall(threads, raise_error=True)
    finally:
        for sock in [listener, *socks]:
            sock.close()
        peer.finish()
        green.get_hub().destroy(destroy_loop=True)


def _queues(evidence: Evidence) -> None:
    """Green threads that wait for each other, for time and for a thread of the pool."""
    from oneloop.green.queue import Queue

    queue: Queue[int] = Queue(2)
    received: list[int] = []

    def produce() -> None:
        for number in range(20):
            queue.put(number)
            if number % 7 == 0:
                green.sleep(0.001)

    def consume() -> None:
        received.extend(queue.get() for _ in range(20))

    try:
        green.joinall([green.spawn(produce), green.spawn(consume)], raise_error=True)
        pool = green.get_hub().threadpool
        received.append(len(pool.apply(os.urandom, (20,))))
    finally:
        green.get_hub().destroy(destroy_loop=True)
    if received != list(range(21)):
        evidence.damaged.append(f"received {received}")


SCENARIOS = (Scenario("green sockets", _serve), Scenario("green queues", _queues))
