"""gevent-websocket on pywsgi: echoes at once, a page beside them, and its own server with a chat."""

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

import urllib.request  # noqa: E402
from typing import Any  # noqa: E402

import gevent  # noqa: E402
import websocket  # noqa: E402
from gevent.pywsgi import WSGIServer  # noqa: E402
from geventwebsocket import Resource, WebSocketApplication, WebSocketServer  # noqa: E402
from geventwebsocket.handler import WebSocketHandler  # noqa: E402

MANY = 30
closed: list[object] = []


def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    connection = environ.get("wsgi.websocket")
    if connection is None:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"a page"]
    while (message := connection.receive()) is not None:
        connection.send(message)
    return []


class Chat(WebSocketApplication):  # type: ignore[misc] # without types
    def on_message(self, message: str | None) -> None:
        if message is not None:
            for client in self.ws.handler.server.clients.values():
                client.ws.send(message)

    def on_close(self, reason: object) -> None:
        closed.append(reason)


def connect(server: WSGIServer, path: str = "/") -> websocket.WebSocket:
    return websocket.create_connection(f"ws://127.0.0.1:{server.server_port}{path}", timeout=20)


def echo(server: WSGIServer, number: int) -> None:
    connection = connect(server)
    connection.send(f"hello {number}")
    assert connection.recv() == f"hello {number}"
    connection.send_binary(b"b" * 200_000)
    assert connection.recv() == b"b" * 200_000
    connection.close()


with_pages = WSGIServer(("127.0.0.1", 0), app, handler_class=WebSocketHandler, log=None)
with_pages.start()
gevent.joinall([gevent.spawn(echo, with_pages, number) for number in range(MANY)], raise_error=True)
assert urllib.request.urlopen(f"http://127.0.0.1:{with_pages.server_port}/").read() == b"a page"
with_pages.stop()
print("echoed")

chat = WebSocketServer(("127.0.0.1", 0), Resource([("/chat", Chat)]))
chat.start()
clients = [connect(chat, "/chat") for _ in range(MANY)]
clients[0].send("to all")
assert [client.recv() for client in clients] == ["to all"] * MANY
for client in clients:
    client.close()
with gevent.Timeout(20):
    while len(closed) < MANY:
        gevent.sleep(0.001)
chat.stop()
print("chatted")
print(gevent.__name__)
