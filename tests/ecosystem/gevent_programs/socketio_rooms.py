"""Flask-SocketIO in gevent mode, and python-socketio's clients: acknowledgements, rooms, background tasks."""

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

import socket  # noqa: E402
import threading  # noqa: E402
from typing import Any  # noqa: E402

import gevent  # noqa: E402
import socketio  # noqa: E402
from flask import Flask  # noqa: E402
from flask_socketio import SocketIO, emit, join_room  # noqa: E402

CLIENTS = 10
TICKS = 5
app = Flask(__name__)
server = SocketIO(app, async_mode="gevent")


@server.on("join")  # type: ignore[untyped-decorator, unused-ignore]
def join(room: str) -> str:
    join_room(room)
    return f"joined {room}"


@server.on("tell")  # type: ignore[untyped-decorator, unused-ignore]
def tell(room: str) -> None:
    emit("told", room, to=room)


@server.on("start")  # type: ignore[untyped-decorator, unused-ignore]
def start() -> None:
    def tick() -> None:
        for number in range(TICKS):
            server.sleep(0.001)
            server.emit("tick", number)

    server.start_background_task(tick)


class Client(socketio.Client):  # type: ignore[misc, unused-ignore]
    """Keeps what it is sent."""

    def __init__(self, port: int, transport: str) -> None:
        super().__init__()
        self.got: list[tuple[str, Any]] = []
        for name in ("told", "tick"):
            self.on(name, lambda data, name=name: self.got.append((name, data)))
        self.connect(f"http://127.0.0.1:{port}", transports=[transport], wait_timeout=20)


def wait_until_it_accepts(port: int) -> None:
    with gevent.Timeout(20):
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            gevent.sleep(0.01)


with socket.create_server(("127.0.0.1", 0)) as probe:
    port = probe.getsockname()[1]
threading.Thread(target=server.run, args=(app, "127.0.0.1", port), daemon=True).start()
wait_until_it_accepts(port)
for transport in ("polling", "websocket"):
    clients = [Client(port, transport) for _ in range(CLIENTS)]
    assert {client.transport() for client in clients} == {transport}
    for number, client in enumerate(clients):
        room = f"{transport} {number % 2}"
        assert client.call("join", room, timeout=20) == f"joined {room}"
    clients[0].emit("tell", f"{transport} 1")
    clients[0].emit("start")
    with gevent.Timeout(20):
        while not all(len(client.got) == TICKS + number % 2 for number, client in enumerate(clients)):
            gevent.sleep(0.001)
    for number, client in enumerate(clients):
        assert [data for name, data in client.got if name == "tick"] == list(range(TICKS))
        assert [data for name, data in client.got if name == "told"] == [f"{transport} 1"] * (number % 2)
        client.disconnect()
    print(transport)
print(gevent.__name__)
