"""http: how long a server needs from its command to the first response, and how much memory it then has.

Both sides: the same application, which imports nothing, and each server's own command with one worker and without an
access log. The client connects every millisecond until it is accepted.
Kept: nothing; each measurement starts the server anew, with the compiled files of its modules there.
Thrown away: the responses.
Window: from the start of the interpreter to the end of the first response; memory when the server rests after it, of
the parent and the worker together if there are both.
"""

from __future__ import annotations

import socket
import sys
import time

from bench import measure
from bench.catalogue import SUBJECT, has_module
from bench.model import Case, RivalFailedError, RivalMissingError, Sample, Settings
from bench.process import START_PATIENCE_S, Program
from bench.rivals.endpoint import free_port
from bench.suites.options import Options

UVICORN = "uvicorn on uvloop"
APP = "bench.rivals.hello_app:app"
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY = b"hello, world"
RETRY_S = 0.001
REST_S = 0.1
#: The modules that a server needs, and its command without the port.
COMMANDS: dict[str, tuple[tuple[str, ...], list[str]]] = {
    SUBJECT: (("oneloop",), ["oneloop", "serve", APP, "--no-access-log", "--log-level", "error"]),
    UVICORN: (
        ("uvicorn", "uvloop", "httptools"),
        ["uvicorn", APP, "--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "error"],
    ),
    "granian": (("granian",), ["granian", APP, "--interface", "asgi", "--no-log"]),
    "hypercorn on uvloop": (("hypercorn", "uvloop"), ["hypercorn", APP, "--worker-class", "uvloop"]),
}


def command(rival: str, port: int) -> list[str]:
    """The command that starts a server. Raises RivalMissingError."""
    modules, argv = COMMANDS[rival]
    for module in modules:
        if not has_module(module):
            raise RivalMissingError(f"{module} is not installed")
    address = (
        ["--bind", f"127.0.0.1:{port}"] if argv[0] == "hypercorn" else ["--host", "127.0.0.1", "--port", str(port)]
    )
    return [sys.executable, "-m", *argv, *address]


def first_response(server: Program, port: int) -> bytes:
    """The response to a request that is sent as soon as the server accepts. Raises RivalFailedError."""
    deadline = time.monotonic() + START_PATIENCE_S
    while True:
        try:
            client = socket.create_connection(("127.0.0.1", port), START_PATIENCE_S)
        except ConnectionRefusedError:
            if not server.is_running():
                raise RivalFailedError(f"died: {server.ending()}") from None
            if time.monotonic() > deadline:
                raise RivalFailedError(f"hangs: accepts nothing for {START_PATIENCE_S:.0f} s") from None
            time.sleep(RETRY_S)
            continue
        with client:
            client.sendall(REQUEST)
            received = b""
            while not received.endswith(BODY):
                try:
                    part = client.recv(65_536)
                except TimeoutError:
                    raise RivalFailedError("no answer to the first request") from None
                if not part:
                    raise RivalFailedError(f"wrong answer: {received[:80]!r}")
                received += part
            return received


def measure_start(rival: str, settings: Settings) -> Sample:
    """Raises RivalFailedError, RivalMissingError."""
    port = free_port()
    argv = command(rival, port)
    began_ns = time.monotonic_ns()
    with Program(argv, settings.server_cpu) as server:
        first_response(server, port)
        first_ns = time.monotonic_ns() - began_ns
        usage = measure.usage_at_rest(server.pid, REST_S, START_PATIENCE_S)
        memory = measure.private_bytes(server.pid)
    return Sample(
        {
            "first_ns": float(first_ns),
            "cpu_ns_per_op": float(usage.cpu_ns),
            "bytes_per_item": float(memory),
            "rss_bytes": usage.rss_bytes,
            "vss_bytes": usage.vss_bytes,
            "threads": usage.threads,
            "processes": usage.processes,
        }
    )


def cases(options: Options) -> list[Case]:
    return [
        Case(
            suite="http",
            name="start to the first response",
            params={"form": "http"},
            metric="first_ns",
            unit="time from the command to the end of the first response",
            rivals=options.pick_rivals(tuple(COMMANDS)),
            measure=measure_start,
            remark="memory/item is the private memory of all processes of the server after it",
            baseline=UVICORN,
            beside=("granian",),
            also=("bytes_per_item",),
        )
    ]
