"""Runs `oneloop serve` as a process of its own, reads its logs as they come, and talks to it over sockets."""

from __future__ import annotations

import http.client
import os
import re
import select
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 60.0

APPS = '''
import asyncio, os, resource, signal, threading

LIFESPAN = {"startup": "lifespan.startup.complete", "shutdown": "lifespan.shutdown.complete"}


async def app(scope, receive, send):
    """Answers with its pid and the path; `/wait` waits for the file `go`."""
    if scope["type"] == "lifespan":
        for _ in range(2):
            kind = (await receive())["type"].partition(".")[2]
            if kind == "shutdown" and KEPT == ["stuck"]:
                threading.Event().wait()
            await send({"type": LIFESPAN[kind]})
        print("lifespan ended", flush=True)
        return
    path = scope["path"]
    if path == "/wait":
        open("waiting", "w").close()
        while not os.path.exists("go"):
            await asyncio.sleep(0.01)
    if path == "/forever":
        open("waiting", "w").close()
        await asyncio.Event().wait()
    if path == "/die":
        os.kill(os.getpid(), signal.SIGKILL)
    if path == "/stuck":
        threading.Event().wait()
    if path == "/exit":
        os._exit(7)
    if path == "/stuck_at_end":
        KEPT.append("stuck")
    if path == "/use_all_descriptors":
        # No further ones than standard input and output.
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    if path == "/grow":
        KEPT.append(os.urandom(64 << 20))
    body = ANSWERS.get(path, lambda scope: str(os.getpid()))(scope).encode()
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


KEPT = []
ANSWERS = {
    "/env": lambda scope: os.environ.get("GREETING", "none"),
    "/client": lambda scope: repr(scope["client"]) + " " + scope["scheme"],
    "/root": lambda scope: scope["root_path"],
    "/ppid": lambda scope: str(os.getppid()),
}


def wsgi(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"wsgi {os.getpid()}".encode()]


def make():
    return app


async def failing(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "the database is away"})
        return
    raise AssertionError


async def raising(scope, receive, send):
    raise RuntimeError("not for " + scope["type"])


async def later_failing(scope, receive, send):
    """Its startup fails where the file `broken` is."""
    if scope["type"] == "lifespan" and os.path.exists("broken"):
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "broken"})
        return
    await app(scope, receive, send)
'''


class Output:
    """A stream of a process: what it has said so far, and the wait for more."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._is_ended = False
        self.text = ""
        self._read_from = 0
        self.others: list[Output] = []
        """Streams of the same process, which are read meanwhile: it would wait where nobody reads."""

    def wait_for(self, pattern: str, *, count: int = 1) -> re.Match[str]:
        """The next place where the pattern matches; behind all that were found before."""
        end_s = time.monotonic() + LIMIT_S
        while True:
            found = re.search(pattern, self.text[self._read_from :])
            if found:
                self._read_from += found.end()
                if count == 1:
                    return found
                count -= 1
                continue
            assert time.monotonic() < end_s, f"{pattern!r} did not come:\n{self.text}"
            if not self.read_more(1.0):
                raise AssertionError(f"{pattern!r} did not come, the process has ended:\n{self.text}")

    def read_more(self, timeout_s: float) -> bool:
        """Read what is there, or comes within that time; False at the end."""
        if self._is_ended:
            return False
        streams = {one._stream.fileno(): one for one in (self, *self.others) if not one._is_ended}
        for number in select.select([*streams], [], [], timeout_s)[0]:
            data = os.read(number, 65536)
            streams[number].text += data.decode()
            streams[number]._is_ended = not data
        return not self._is_ended

    def read_to_end(self) -> str:
        end_s = time.monotonic() + LIMIT_S
        while self.read_more(1.0):
            assert time.monotonic() < end_s, self.text
        return self.text


class Service:
    """`oneloop serve`, in a folder with the module `apps`; a context manager that leaves nothing running."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        app: str = "apps:app",
        source: str = APPS,
        env: dict[str, str] | None = None,
        pass_fds: tuple[int, ...] = (),
        port: int | None = 0,
        is_ready: bool = True,
        command: tuple[str, ...] = ("-m", "oneloop", "serve"),
        **options: Any,
    ) -> None:
        (folder / "apps.py").write_text(textwrap.dedent(source))
        where = () if port is None else ("--port", str(port))
        path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, *command, app, *where, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=pass_fds,
            **options,
        )
        self.out = Output(self.process.stdout)
        self.log = Output(self.process.stderr)
        self.out.others, self.log.others = [self.log], [self.out]
        self.port = 0
        if is_ready:
            try:
                self.shown = self.log.wait_for(r"oneloop running on (\S.*) \(Press").group(1)
            except BaseException:
                self._leave_nothing()
                raise
            found = re.search(r":(\d+)$", self.shown)
            self.port = int(found.group(1)) if found else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave_nothing()

    def _leave_nothing(self) -> None:
        if self.process.poll() is None:
            # Workers see that their parent has gone.
            self.process.kill()
        self.process.wait(LIMIT_S)
        for output, stream in ((self.out, self.process.stdout), (self.log, self.process.stderr)):
            # The end comes when the last worker has ended, too.
            output.read_to_end()
            assert stream is not None
            stream.close()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it by a signal, and return its exit status."""
        self.send(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for its end while reading what it says; returns its exit status."""
        self.log.read_to_end()
        self.out.read_to_end()
        return self.process.wait(LIMIT_S)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)

    def get(self, path: str = "/", **headers: str) -> str:
        """The body of a GET on a connection of its own."""
        status, _, body = self.ask("GET", path, **headers)
        assert status == 200, (status, body)
        return body.decode()

    def ask(self, method: str, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        connection = self.connect()
        try:
            connection.request(method, path, headers={name.replace("_", "-"): text for name, text in headers.items()})
            response = connection.getresponse()
            return response.status, {name.lower(): text for name, text in response.getheaders()}, response.read()
        finally:
            connection.close()

    def wait_for_file(self, name: str) -> None:
        """Wait until the application has made a file."""
        end_s = time.monotonic() + LIMIT_S
        while not (self.folder / name).exists():
            assert time.monotonic() < end_s, f"{name} was not made:\n{self.log.text}"
            self.log.read_more(0.02)

    def ask_later(self, path: str) -> socket.socket:
        """Send a GET whose response is read later."""
        made = socket.create_connection(("127.0.0.1", self.port), LIMIT_S)
        made.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return made

    def held(self, path: str) -> socket.socket:
        """Send a GET that the application holds until the test lets it go; it has begun."""
        made = self.ask_later(path)
        self.wait_for_file("waiting")
        return made


def read_all(sock: socket.socket) -> bytes:
    """What comes until the other end closes."""
    data = b""
    with sock:
        while True:
            try:
                more = sock.recv(65536)
            except ConnectionResetError:
                return data
            if not more:
                return data
            data += more
