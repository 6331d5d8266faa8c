"""Measures a server over HTTP/2 and TLS with h2load, the generator of nghttp2.

h2load begins its own connections, so their handshakes are inside the window: 10 for thousands of requests. A short
run before the window warms the server up and says how many requests the window needs.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass

from bench import measure
from bench.catalogue import Serve
from bench.model import RivalFailedError, RivalMissingError, Sample, Settings
from bench.process import Program
from bench.served import StartServer, explain, running_server

_RATE = re.compile(r"^finished in .*?, ([\d.]+) req/s", re.MULTILINE)
_REQUESTS = re.compile(r"^requests: \d+ total, \d+ started, \d+ done, (\d+) succeeded, (\d+) failed", re.MULTILINE)
_TRAFFIC = re.compile(r"^traffic: .*\((\d+)\) data$", re.MULTILINE)
_PROTOCOL = re.compile(r"^Application protocol: (\S+)", re.MULTILINE)
# min, max, mean
_TIME = re.compile(r"^time for request: +\S+ +\S+ +([\d.]+)(us|ms|s)", re.MULTILINE)
_NS = {"us": 1e3, "ms": 1e6, "s": 1e9}
WARM_UP_REQUESTS = 400
MOST_REQUESTS = 200_000


@dataclass(frozen=True)
class Streams:
    """The load: how many connections, how many requests at a time on each, and the size of each response in bytes."""

    connections: int
    at_once: int
    size: int


@dataclass(frozen=True)
class Outcome:
    """What h2load counted."""

    per_second: float
    mean_ns: float


def outcome_of(lines: list[str], streams: Streams, requests: int) -> Outcome:
    """What h2load has printed.

    Raises:
        RivalFailedError: not every request had a response of the right length, or the protocol is another.
    """
    text = "\n".join(lines)
    patterns = (_PROTOCOL, _REQUESTS, _TRAFFIC, _RATE, _TIME)
    protocol, counts, traffic, rate, time = (pattern.search(text) for pattern in patterns)
    if protocol is None or protocol[1] != "h2":
        raise RivalFailedError("does not speak HTTP/2")
    if counts is None or traffic is None or rate is None or time is None:
        raise RivalFailedError(f"h2load said: {lines[-1] if lines else 'nothing'}")
    if (int(counts[1]), int(counts[2])) != (requests, 0):
        raise RivalFailedError(f"wrong answer: {counts[1]} of {requests} requests succeeded")
    if int(traffic[1]) != requests * streams.size:
        raise RivalFailedError(f"wrong answer: {traffic[1]} bytes instead of {requests * streams.size}")
    return Outcome(float(rate[1]), float(time[1]) * _NS[time[2]])


def _load(address: list[str], streams: Streams, requests: int, settings: Settings) -> Outcome:
    port = address[address.index("--port") + 1]
    program = shutil.which("h2load")
    if program is None:
        raise RivalMissingError("h2load is not installed")
    argv = [program, "-t1", f"-n{requests}", f"-c{streams.connections}", f"-m{streams.at_once}"]
    argv.append(f"https://127.0.0.1:{port}/{streams.size}")
    lines: list[str] = []
    with Program(argv, settings.generator_cpu) as generator:
        # The line of the last table is the last one that is needed.
        while not lines or not lines[-1].startswith("time for request:"):
            lines.append(generator.read_line(30.0 + 5 * settings.duration_s))
    return outcome_of(lines, streams, requests)


def measure_streams(rival: str, streams: Streams, settings: Settings, start: StartServer) -> Sample:
    """Measures a server once. Raises RivalFailedError, RivalMissingError."""
    least = streams.connections * streams.at_once
    with running_server(rival, Serve("http", tls="yes"), settings, start) as (server, address):
        try:
            warm = _load(address, streams, max(least, settings.scaled(WARM_UP_REQUESTS)), settings)
            requests = min(MOST_REQUESTS, max(least, int(warm.per_second * settings.duration_s)))
            before = measure.usage_at_rest(server.pid)
            outcome = _load(address, streams, requests, settings)
            after = measure.usage_at_rest(server.pid)
        except RivalFailedError as failure:
            raise explain(server, failure) from failure
        except ProcessLookupError:
            raise RivalFailedError(f"died: {server.ending()}") from None
    metrics = measure.server_metrics(before, after, requests)
    metrics |= {"throughput": outcome.per_second, "mean_ns": outcome.mean_ns}
    return Sample(metrics)
