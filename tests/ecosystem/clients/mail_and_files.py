"""smtplib and ftplib, on servers of the program's, whose threads wait for each other."""

from __future__ import annotations

import ftplib
import io
import smtplib
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.ecosystem.clients.parts import at_once, part, raises, run

MANY = 30


class Server(socketserver.ThreadingTCPServer):
    request_queue_size = 2 * MANY
    allow_reuse_address = True


@contextmanager
def serving(handler: type[socketserver.StreamRequestHandler]) -> Iterator[int]:
    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


@part
def mail_is_sent() -> None:
    together = threading.Barrier(MANY)
    received: list[bytes] = []

    class Mail(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            for line in self.rfile:
                if line.upper().startswith(b"DATA"):
                    self.wfile.write(b"354 go on\r\n")
                    message = []
                    while (line := self.rfile.readline()) != b".\r\n":
                        message.append(line)
                    received.append(b"".join(message))
                    together.wait()
                if line.upper().startswith(b"QUIT"):
                    self.wfile.write(b"221 bye\r\n")
                    return
                self.wfile.write(b"250 yes\r\n")

    def send(number: int) -> None:
        with smtplib.SMTP("localhost", port, timeout=60) as client:
            client.sendmail("from@example.com", ["to@example.com"], f"Subject: {number}\r\n\r\n" + "text\r\n" * 1000)

    with serving(Mail) as port:
        at_once(MANY, send)
    assert len(set(received)) == MANY


@part
def a_mail_server_that_goes_away() -> None:
    class Short(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            self.rfile.readline()

    class Silent(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()

    with serving(Short) as port:
        at_once(10, lambda _: raises(smtplib.SMTPServerDisconnected, lambda: send_nothing(port)))
    with serving(Silent) as port:
        # How smtplib tells that a time limit has passed.
        late = smtplib.SMTPServerDisconnected
        at_once(10, lambda _: raises(late, lambda: smtplib.SMTP("localhost", port, timeout=0.5)))


def send_nothing(port: int) -> None:
    client = smtplib.SMTP("localhost", port)
    try:
        client.ehlo()
    finally:
        client.close()


@part
def files_are_fetched_and_sent() -> None:
    """Each transfer has a connection of its own, made by the client."""
    together = threading.Barrier(MANY)
    content = bytes(range(256)) * 500
    stored: list[bytes] = []

    class Files(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            listener = None
            for line in self.rfile:
                command = line.split()[0].upper()
                if command == b"EPSV" or command == b"PASV":
                    listener = socket.create_server(("127.0.0.1", 0))
                    port = listener.getsockname()[1]
                    where = f"127,0,0,1,{port >> 8},{port & 255}".encode()
                    self.wfile.write(b"227 at (%b)\r\n" % where)
                elif command in (b"RETR", b"STOR"):
                    assert listener is not None
                    self.wfile.write(b"150 now\r\n")
                    with listener, listener.accept()[0] as transfer:
                        together.wait()
                        if command == b"RETR":
                            transfer.sendall(content)
                        else:
                            with transfer.makefile("rb") as file:
                                stored.append(file.read())
                    self.wfile.write(b"226 done\r\n")
                elif command == b"QUIT":
                    self.wfile.write(b"221 bye\r\n")
                    return
                else:
                    self.wfile.write(b"200 yes\r\n" if command != b"USER" else b"230 in\r\n")

    def transfer(number: int) -> None:
        with ftplib.FTP() as client:
            client.connect("127.0.0.1", port, timeout=60)
            client.login()
            fetched = io.BytesIO()
            client.retrbinary("RETR file", fetched.write)
            assert fetched.getvalue() == content
            client.storbinary("STOR file", io.BytesIO(content))

    with serving(Files) as port:
        at_once(MANY, transfer)
    assert stored == [content] * MANY


if __name__ == "__main__":
    run()
