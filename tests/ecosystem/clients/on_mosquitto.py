"""paho-mqtt, with its network loop in a thread and without, on mosquitto. Argument: the port."""

from __future__ import annotations

import sys
import threading
from typing import Any

from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from tests.ecosystem.clients.parts import at_once, part, run

PORT = int(sys.argv[1])
MANY = 20
LIMIT_S = 60


class Client(mqtt.Client):
    """Subscribed to its topic when it has been made."""

    def __init__(self, topic: str) -> None:
        super().__init__(CallbackAPIVersion.VERSION2)
        self.got: list[bytes] = []
        self.has_all = threading.Event()
        self.is_subscribed = threading.Event()
        self.on_message = self._keep
        self.on_subscribe = lambda *_: self.is_subscribed.set()
        self.on_connect = lambda *_: self._begin(topic)
        self.connect("127.0.0.1", PORT)

    def _begin(self, topic: str) -> None:
        self.subscribe(topic, qos=1)

    def _keep(self, _client: object, _data: object, message: Any) -> None:
        self.got.append(message.payload)
        if len(self.got) == MANY:
            self.has_all.set()


@part
def loops_in_threads() -> None:
    def one(_: int) -> list[int]:
        client = Client("numbers")
        client.loop_start()
        assert client.is_subscribed.wait(LIMIT_S)
        ready.wait(LIMIT_S)
        if ready_once.acquire(blocking=False):
            for number in range(MANY):
                client.publish("numbers", str(number), qos=1).wait_for_publish(LIMIT_S)
        assert client.has_all.wait(LIMIT_S)
        client.disconnect()
        client.loop_stop()
        return list(map(int, client.got))

    ready, ready_once = threading.Barrier(MANY), threading.Semaphore(1)
    assert at_once(MANY, one) == [list(range(MANY))] * MANY


@part
def loops_of_the_program() -> None:
    """`loop_forever` of all at once, until the last message."""

    def one(number: int) -> int:
        client = Client(f"own {number}")
        sending = threading.Thread(target=send, args=(client, number))
        sending.start()
        client.loop_forever()
        sending.join()
        return len(client.got)

    def send(client: Client, number: int) -> None:
        assert client.is_subscribed.wait(LIMIT_S)
        for _ in range(MANY):
            client.publish(f"own {number}", b"m", qos=2)
        assert client.has_all.wait(LIMIT_S)
        client.disconnect()

    assert at_once(MANY, one) == [MANY] * MANY


if __name__ == "__main__":
    run()
