"""zmq.green: many that ask at once, a poller, a queue that is full, and others that run meanwhile."""

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

import gevent  # noqa: E402
import zmq.green as zmq  # noqa: E402

MANY = 50
context = zmq.Context()


def serve(server: zmq.Socket[bytes]) -> None:
    """Answers when all have asked, the last one first."""
    poller = zmq.Poller()
    poller.register(server, zmq.POLLIN)
    asked: list[list[bytes]] = []
    while len(asked) < MANY:
        if poller.poll(10_000):
            asked.append(server.recv_multipart())
    for question in reversed(asked):
        server.send_multipart(question)


def ask(port: int, number: int) -> int:
    with context.socket(zmq.DEALER) as client:
        client.connect(f"tcp://127.0.0.1:{port}")
        client.send(str(number).encode())
        return int(client.recv())


with context.socket(zmq.ROUTER) as server:
    port = server.bind_to_random_port("tcp://127.0.0.1")
    serving = gevent.spawn(serve, server)
    asking = [gevent.spawn(ask, port, number) for number in range(MANY)]
    assert [one.get() for one in asking] == list(range(MANY))
    serving.join()
print("asked")

with context.socket(zmq.PUSH) as push, context.socket(zmq.PULL) as pull:
    push.sndhwm = pull.rcvhwm = 5
    pull.connect(f"tcp://127.0.0.1:{push.bind_to_random_port('tcp://127.0.0.1')}")
    pushing = gevent.spawn(lambda: [push.send(str(number).encode()) for number in range(1000)])
    assert [int(pull.recv()) for _ in range(1000)] == list(range(1000))
    pushing.join()
    beats: list[int] = []

    def beat() -> None:
        while True:
            beats.append(1)
            gevent.sleep(0.001)

    beating = gevent.spawn(beat)
    assert not pull.poll(50)
    assert len(beats) > 3
    with gevent.Timeout(0.01, False):
        pull.recv()
        raise AssertionError("nobody sends")
    beating.kill()
print("pushed")

context.term()
print(gevent.__name__)
