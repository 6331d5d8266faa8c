"""pika's blocking connections, and amqp as Celery uses it, on RabbitMQ. Argument: the port."""

from __future__ import annotations

import sys
import threading
from typing import Any

import amqp
import pika

from tests.ecosystem.clients.parts import at_once, part, run

PORT = int(sys.argv[1])
MANY = 20


def connect() -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", PORT))


@part
def each_waits_for_what_the_next_one_sends() -> None:
    """All wait at once: the first message comes when the last one has begun to wait."""
    waiting = threading.Barrier(MANY)

    def one(number: int) -> bytes:
        connection = connect()
        channel = connection.channel()
        channel.queue_declare(f"chain {number}", exclusive=True)
        waiting.wait()
        if number == MANY - 1:
            channel.basic_publish("", "chain 0", b"")
        for method, _, body in channel.consume(f"chain {number}", inactivity_timeout=20):
            assert method is not None, f"{number} has got nothing"
            channel.basic_publish("", f"chain {(number + 1) % MANY}", body + b".")
            channel.basic_ack(method.delivery_tag)
            break
        connection.close()
        return bytes(body)

    assert at_once(MANY, one) == [b"." * number for number in range(MANY)]


@part
def timers_and_calls_from_other_threads() -> None:
    connection = connect()
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    got: list[bytes] = []

    def received(channel: Any, method: Any, _: object, body: bytes) -> None:
        got.append(body)
        if len(got) == MANY:
            channel.stop_consuming()

    def publish(number: int) -> None:
        connection.add_callback_threadsafe(lambda: channel.basic_publish("", queue, str(number).encode()))

    channel.basic_consume(queue, received, auto_ack=True)
    connection.call_later(0.01, lambda: threading.Thread(target=at_once, args=(MANY, publish)).start())
    channel.start_consuming()
    assert sorted(map(int, got)) == list(range(MANY))
    connection.close()


@part
def amqp_waits_too() -> None:
    def one(number: int) -> list[str]:
        got: list[str] = []
        with amqp.Connection(f"127.0.0.1:{PORT}") as connection, connection.channel() as channel:
            channel.queue_declare(f"amqp {number}")
            channel.basic_consume(f"amqp {number}", no_ack=True, callback=lambda message: got.append(message.body))
            channel.basic_publish(amqp.Message(f"for {number}"), routing_key=f"amqp {number}")
            while not got:
                connection.drain_events(timeout=20)
        return got

    assert at_once(MANY, one) == [[f"for {number}"] for number in range(MANY)]


if __name__ == "__main__":
    run()
