"""A server with two workers that are replaced after SIGHUP, and ended after SIGTERM.

The plan of faults is that of each process from its fork on, so that each worker may fail once, and its successor too.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import pickle
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

import oneloop.http
from oneloop import _native
from tests.faults.evidence import Evidence, ViolationError
from tests.faults.runs import Scenario
from tests.faults.scenarios.peers import TIMEOUT_S

REQUESTS = 4
LIMIT_S = 30.0
"""Within this time both workers have been replaced, or the server has given up."""


async def _app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        counts: Any = _native
        body = json.dumps([os.getpid(), counts._faults_counts()]).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})


Seen = tuple[list[str], dict[str, int]]


class _Client:
    """A process of its own that asks the server, sends it the signals and says what it has seen."""

    def __init__(self, port: int, server: int) -> None:
        self.port, self.server = port, server
        self.cut_off: list[str] = []
        self.counts: dict[str, int] = {}

    def ask(self) -> int:
        """Return the worker that has answered, or 0."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            client.request("GET", "/")
            answer = client.getresponse()
            body = answer.read()
            if answer.status != 200:
                raise ViolationError(f"status {answer.status}, {body[:50]!r}")
            worker, counts = json.loads(body)
            for name, count in counts.items():
                self.counts[name] = max(self.counts.get(name, 0), count)
            return int(worker)
        except TimeoutError:
            raise ViolationError("no answer") from None
        except (OSError, http.client.HTTPException) as error:
            self.cut_off.append(repr(error))
            return 0
        finally:
            client.close()

    def run(self) -> Seen:
        """Return the requests that were cut off (many, if the server has ended by itself) and the workers' calls."""
        first = {self.ask() for _ in range(REQUESTS)}
        os.kill(self.server, signal.SIGHUP)
        end_s = time.monotonic() + LIMIT_S
        while time.monotonic() < end_s and os.getppid() == self.server:
            last = {self.ask() for _ in range(REQUESTS)}
            if 0 not in last and not last & first:
                break
            time.sleep(0.02)
        else:
            self.cut_off.append("the workers were not replaced")
        os.kill(self.server, signal.SIGTERM)
        return self.cut_off, self.counts


def _forked(work: Callable[[], Seen]) -> tuple[int, int]:
    """Run it in a child. Return its number, and a pipe that brings the result or the violation."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        os.close(reading)
        try:
            result: Seen | str = work()
        except (ViolationError, ProcessLookupError) as error:
            result = str(error)
        with open(writing, "wb") as stream:
            pickle.dump(result, stream)
        status = 0
    finally:
        os._exit(status)


def _reload(evidence: Evidence) -> None:
    server = os.getpid()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    def work() -> Seen:
        listener.close()
        return _Client(port, server).run()

    numbers = (signal.SIGTERM, signal.SIGHUP)
    # Should the server have given up before the client's signals come.
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    client, answer = _forked(work)
    try:
        _serve(evidence, listener)
    finally:
        listener.close()
        with open(answer, "rb") as stream:
            result = pickle.load(stream)
        os.waitpid(client, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
    if isinstance(result, str):  # of the violation
        raise ViolationError(result)
    cut_off, evidence.elsewhere = result
    evidence.damaged += cut_off[:1]
    evidence.reports += cut_off[:3]


def _serve(evidence: Evidence, listener: socket.socket) -> None:
    logging.getLogger("oneloop").setLevel(logging.CRITICAL)
    try:
        oneloop.http.run(
            _app, fd=listener.fileno(), workers=2, access_log=False, log_level="critical", lifespan="off",
            timeout_graceful_shutdown=2,
        )  # fmt: skip
    except SystemExit as error:
        # It has written the reason to its log.
        evidence.has_failed_elsewhere = True
        evidence.reports.append(f"the server has given up: status {error.code}")


SCENARIOS = (Scenario("workers reload", _reload),)
