"""What every HTTP client of the suite `client` has in common: its command line, its checks, its window.

A program warms up and compares every byte of these answers, prints `ready`, waits for a line, works, and prints the
number of answers. It then waits for another line, so that its memory and its CPU clock can be read.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

from bench.rivals import endpoint

#: Longer than any row waits.
PATIENCE_S = 60.0
#: What a client has put off for less than this belongs to the window.
SETTLE_S = 0.03
BYTES_PER_PIECE = 64 * 1024
_numbers = count()


@dataclass(frozen=True)
class Work:
    """The options of the command line.

    Args:
        size: length of the answer's body.
        upload: length of the request's body; 0: a GET.
        mode: `whole` or `streamed`.
        tls: PEM of the certificate authority; empty: http.
        duration: of the window, in seconds; 0: as many requests as are sent at once.
        fresh: each request has a URL of its own.
        compares: every byte of a body is compared.
    """

    rival: str
    loop: str
    port: int
    size: int
    upload: int
    at_once: int
    mode: str
    tls: str
    warmup: float
    duration: float
    fresh: bool = False
    compares: bool = True

    @cached_property
    def _same_url(self) -> str:
        # Certificates are for the name; a client should not have to look it up otherwise.
        origin = f"https://localhost:{self.port}" if self.tls else f"http://127.0.0.1:{self.port}"
        return f"{origin}/{self.size}"

    @property
    def url(self) -> str:
        """The same for each request, or a new one."""
        return f"{self._same_url}?item={next(_numbers)}" if self.fresh else self._same_url

    @cached_property
    def body(self) -> bytes:
        return b"x" * self.upload

    @property
    def is_streamed(self) -> bool:
        return self.mode == "streamed"

    def check(self, status: int, body: bytes | bytearray | memoryview) -> None:
        """Ends the program if an answer is wrong: its status and its length; in the warm-up every byte."""
        if status != 200 or len(body) != self.size or (self.compares and bytes(body) != b"x" * self.size):
            raise SystemExit(f"wrong answer: status {status}, {len(body)} bytes")

    def check_length(self, status: int, length: int) -> None:
        """The same for a body that was read piece by piece."""
        if status != 200 or length != self.size:
            raise SystemExit(f"wrong answer: status {status}, {length} bytes")


#: Sends one request and checks its answer.
Ask = Callable[[Work], None]
AskLater = Callable[[Work], Awaitable[None]]


def parse() -> Work:
    """The command line."""
    parser = argparse.ArgumentParser()
    for name in ("rival", "loop", "mode", "tls"):
        parser.add_argument(f"--{name}", default="")
    for name in ("port", "size", "upload", "at-once"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("warmup", "duration"):
        parser.add_argument(f"--{name}", type=float, required=True)
    parser.add_argument("--fresh", action="store_true")
    endpoint.grow_heap()
    return Work(**vars(parser.parse_args()))


def warmed_up(work: Work) -> Work:
    """The same work for the warm-up."""
    return replace(work, duration=work.warmup, at_once=work.at_once if work.duration else 1)


def wait_for_start(work: Work) -> Work:
    """Prints `ready` and blocks until the window begins. Returns the work of the window."""
    # What the imports have left is not collected during a request.
    gc.collect()
    print("ready", flush=True)
    sys.stdin.readline()
    return replace(work, compares=False)


def hand_over(requests: int, wall_ns: int) -> None:
    """Prints the outcome and waits for the end."""
    print(json.dumps({"requests": requests, "wall_ns": wall_ns}), flush=True)
    sys.stdin.readline()


def run_plain(work: Work, ask: Ask) -> None:
    """One request after the other, in plain code."""
    if work.at_once != 1:
        raise SystemExit("plain code sends one request at a time")

    def until(end: float, given: Work) -> int:
        answers = 0
        while True:
            ask(given)
            answers += 1
            if time.monotonic() >= end:
                return answers

    if work.warmup:
        until(time.monotonic() + work.warmup, work)
    window = wait_for_start(work)
    began_ns = time.monotonic_ns()
    requests = until(time.monotonic() + work.duration, window)
    wall_ns = time.monotonic_ns() - began_ns
    time.sleep(SETTLE_S)
    hand_over(requests, wall_ns)
