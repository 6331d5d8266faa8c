"""Raw clients of a WSGI server in a process of its own, and what it answers, taken apart as a strict client would."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests import programs

TIMEOUT_S = 60


class Answer(NamedTuple):
    status: str
    fields: list[tuple[str, str]]
    body: bytes
    is_cut: bool = False

    def field(self, name: str) -> str | None:
        values = [value for known, value in self.fields if known == name]
        assert len(values) <= 1, self.fields
        return values[0] if values else None

    def json(self) -> Any:
        return json.loads(self.body)


class Served:
    """A server process."""

    def __init__(self, port: int, errors: Path, uds: str | None) -> None:
        self.port = port
        self._errors = errors
        self._uds = uds

    def log(self) -> str:
        """What it has written to stderr."""
        return self._errors.read_text()

    def connect(self) -> socket.socket:
        if self._uds is not None:
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(TIMEOUT_S)
            sock.connect(self._uds)
            return sock
        return socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S)

    def exchange(self, *pieces: bytes) -> bytes:
        """What comes until the server closes the connection."""
        with self.connect() as sock:
            for piece in pieces:
                sock.sendall(piece)
            return read_all(sock)

    def get(self, path: str, *fields: str, method: str = "GET", version: str = "1.1") -> Answer:
        """One request, after which the connection ends."""
        data = self.exchange(head(path, "Connection: close", *fields, method=method, version=version))
        responses = taken_apart(data, method)
        assert len(responses) == 1, responses
        return responses[0]

    def post(self, path: str, body: bytes, *fields: str) -> Answer:
        length = f"Content-Length: {len(body)}"
        data = self.exchange(head(path, "Connection: close", length, *fields, method="POST"), body)
        responses = taken_apart(data)
        assert len(responses) == 1, responses
        return responses[0]

    def wait(self, name: str) -> None:
        """Until the application has told of this."""
        assert self.get(f"/waited?{name.replace(' ', '%20')}").json() is True, name


def head(path: str, *fields: str, method: str = "GET", version: str = "1.1") -> bytes:
    lines = [f"{method} {path} HTTP/{version}", "Host: test.example", *fields]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def read_all(sock: socket.socket) -> bytes:
    data = bytearray()
    try:
        while more := sock.recv(1 << 20):
            data += more
    except ConnectionResetError:
        data += b"<reset>"
    return bytes(data)


def read_until(sock: socket.socket, end: bytes) -> bytes:
    data = b""
    while not data.endswith(end):
        more = sock.recv(65_536)
        assert more, data
        data += more
    return data


def taken_apart(data: bytes, method: str = "GET") -> list[Answer]:
    """Answers, one after the other; the last one may be cut."""
    responses = []
    while data:
        top, end, data = data.partition(b"\r\n\r\n")
        assert end, top
        line, *rest = top.decode("latin-1").split("\r\n")
        version, status = line.split(" ", 1)
        assert version == "HTTP/1.1", line
        pairs = [(name, value) for name, _, value in (one.partition(": ") for one in rest)]
        fields = dict(pairs)
        if status[:3] in ("204", "304", "100") or method == "HEAD":
            responses.append(Answer(status, pairs, b""))
            continue
        is_cut = False
        if "transfer-encoding" in fields:
            assert "content-length" not in fields, fields
            body, data, is_cut = _unchunked(data)
        elif "content-length" in fields:
            length = int(fields["content-length"])
            body, data = data[:length], data[length:]
            is_cut = len(body) < length
        else:
            assert fields.get("connection") == "close", fields
            body, data = data, b""
            is_cut = body.endswith(b"<reset>")
        responses.append(Answer(status, pairs, body, is_cut))
    return responses


def _unchunked(data: bytes) -> tuple[bytes, bytes, bool]:
    pieces: list[bytes] = []
    while True:
        line, end, data = data.partition(b"\r\n")
        if not end:
            return b"".join(pieces), b"", True
        length = int(line, 16)
        piece, data = data[:length], data[length:]
        if len(piece) < length:
            return b"".join([*pieces, piece]), b"", True
        assert data[:2] == b"\r\n", data[:20]
        data = data[2:]
        if not length:
            return b"".join(pieces), data, False
        pieces.append(piece)


@contextlib.contextmanager
def served(mode: str, **options: Any) -> Iterator[Served]:
    """A server process, which must end as it should when its stdin does."""
    with tempfile.TemporaryDirectory() as folder:
        errors = Path(folder) / "stderr"
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-m", "tests.http.wsgi_server", mode, json.dumps(options)],
                cwd=programs.ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, errors.read_text()
            yield Served(int(line), errors, options.get("uds"))
            process.stdin.close()
            assert process.wait(TIMEOUT_S) == 0, errors.read_text()
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
