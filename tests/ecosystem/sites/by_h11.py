"""The site on h11 in threads: PORT, and the time that connections are kept."""

from __future__ import annotations

import hashlib
import socket
import sys
import threading
from contextlib import suppress

import h11

from tests.ecosystem.sites.app import REFUSAL, answer, told


def next_event(connection: h11.Connection, sock: socket.socket) -> object:
    while True:
        event = connection.next_event()
        if event is not h11.NEED_DATA:
            return event
        if connection.they_are_waiting_for_100_continue:
            sock.sendall(connection.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
        connection.receive_data(sock.recv(1 << 18))


def served(connection: h11.Connection, sock: socket.socket, port: int) -> bool:
    """Answer one request. Returns whether another may follow."""
    request = next_event(connection, sock)
    if not isinstance(request, h11.Request):
        return False
    path, method = request.target.decode(), request.method.decode()
    own: list[tuple[str, str]]
    if path == "/early":
        status, own, body = 413, [("Connection", "close")], REFUSAL
    elif path == "/echo":
        length, digest = 0, hashlib.sha256()
        while isinstance(event := next_event(connection, sock), h11.Data):
            length += len(event.data)
            digest.update(event.data)
        status, own, body = 200, [], told(length, digest.hexdigest())
    else:
        status, own, body = answer(path, {name.decode(): value.decode() for name, value in request.headers})
    own = [*own, ("X-Port", str(port)), *([] if status == 304 else [("Content-Length", str(len(body)))])]
    sock.sendall(connection.send(h11.Response(status_code=status, headers=own)) or b"")
    if method != "HEAD" and body:
        sock.sendall(connection.send(h11.Data(data=body)) or b"")
    sock.sendall(connection.send(h11.EndOfMessage()) or b"")
    if connection.our_state is not h11.DONE:
        # The client may still send: a reset would take the answer from it.
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(1 << 18):
            pass
        return False
    while connection.their_state is h11.SEND_BODY:
        next_event(connection, sock)
    connection.start_next_cycle()
    return True


def serve(sock: socket.socket, port: int, kept_s: float) -> None:
    with sock, suppress(OSError, h11.ProtocolError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = h11.Connection(h11.SERVER)
        sock.settimeout(kept_s)
        while served(connection, sock, port):
            pass


def main() -> None:
    with socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=256) as listener:
        while True:
            sock, (_, port) = listener.accept()
            threading.Thread(target=serve, args=(sock, port, float(sys.argv[2])), daemon=True).start()


if __name__ == "__main__":
    main()
