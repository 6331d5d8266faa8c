"""One measurement of an HTTP client: start a server and the client, and read the client's CPU clock around the window.

The server is the floor's (`floor answer`), on the generator's CPU. It counts the requests that it got; the client's
number of answers must be the same.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench import certificates, measure
from bench.clients import Load, Start
from bench.model import Metrics, RivalFailedError, Sample, Settings
from bench.process import START_PATIENCE_S, Program, native

PATIENCE_S = 60.0
#: Warming up for one request at a time is enough for its imports.
BURST_WARMUP_S = 0.001
#: Fewer resumed sessions are noted.
MOST = 0.9


@contextlib.contextmanager
def running_server(load: Load, settings: Settings) -> Iterator[tuple[Program, list[str]]]:
    """The server, with the client's options for connecting to it."""
    argv = [native("floor"), "answer", "--delay-ms", str(load.delay_ms)]
    argv += ["--close"] if load.closes else []
    argv += ["--tls", str(certificates.server_file())] if load.tls else []
    with Program(argv, settings.generator_cpu) as server:
        word, _, port = server.read_line(START_PATIENCE_S).partition(" ")
        if word != "ready":
            raise RivalFailedError(f"the server printed {word!r} instead of `ready`")
        yield server, ["--port", port, *(["--tls", str(certificates.authority_file())] if load.tls else [])]


def counts(server: Program) -> dict[str, int]:
    """The requests, connections and resumed sessions that the server has seen."""
    server.tell("counts")
    found: dict[str, int] = json.loads(server.read_line(PATIENCE_S))
    return found


def _options(start: Start, load: Load, settings: Settings) -> list[str]:
    given = ["--size", str(load.size), "--upload", str(load.upload), "--at-once", str(load.at_once)]
    given += ["--warmup", str(BURST_WARMUP_S if load.burst else settings.warmup_s)]
    given += ["--duration", str(0.0 if load.burst else settings.duration_s)]
    if start.argv[0] == native("floor"):
        return [*given, *(["--close"] if load.closes else [])]
    return [*given, "--mode", load.mode, *(["--fresh"] if load.fresh else [])]


def measure_client(start: Start, load: Load, settings: Settings) -> Sample:
    """Measures a client once. Raises RivalFailedError."""
    with running_server(load, settings) as (server, address):
        argv = [*start.argv, *address, *_options(start, load, settings)]
        with Program(argv, settings.server_cpu, dict(start.env)) as client:
            word = client.read_line(PATIENCE_S)
            if word != "ready":
                raise RivalFailedError(f"printed {word[:80]!r} instead of `ready`")
            try:
                before = measure.usage_at_rest(client.pid)
                forget_peak(client.pid)
                seen = counts(server)
                client.tell("go")
                outcome = json.loads(client.read_line(PATIENCE_S))
                after = measure.usage_at_rest(client.pid)
                peak_bytes = peak_of(client.pid)
            except ProcessLookupError:
                raise RivalFailedError(f"died: {client.ending()}") from None
            now = counts(server)
            client.tell("end")
            if client.wait(PATIENCE_S) != 0:
                raise RivalFailedError(f"died: {client.ending()}")
    seen = {name: now[name] - seen[name] for name in now}
    return _sample(before, after, outcome, seen, load, peak_bytes)


def _sample(
    before: measure.Usage, after: measure.Usage, outcome: dict[str, Any], seen: dict[str, int], load: Load, peak: int
) -> Sample:
    requests = int(outcome["requests"])
    # A client without a network has sent none.
    if seen["requests"] not in (requests, 0):
        raise RivalFailedError(f"wrong count: {requests} answers to {seen['requests']} requests")
    if load.closes and seen["requests"] and seen["connections"] < requests:
        raise RivalFailedError(f"{seen['connections']} connections for {requests} requests")
    metrics: Metrics = {
        "cpu_ns_per_op": (after.cpu_ns - before.cpu_ns) / requests,
        "throughput": requests / outcome["wall_ns"] * 1e9,
        "rss_bytes": after.rss_bytes,
        "threads": after.threads,
        "switches": (after.switches - before.switches) / requests,
    }
    notes = []
    if load.burst:
        metrics["rss_bytes_per_item"] = max(0, peak - before.rss_bytes) / requests
        metrics["slowest_ns"] = float(outcome["wall_ns"])
    if load.tls:
        metrics["resumed_share"] = seen["resumed"] / max(1, seen["connections"])
        if metrics["resumed_share"] < MOST:
            notes.append("does not resume TLS sessions" if not seen["resumed"] else "not every session was resumed")
    return Sample(metrics, notes=notes)


def forget_peak(pid: int) -> None:
    """Makes the peak of the resident memory begin anew (man 5 proc_pid_clear_refs)."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_of(pid: int) -> int:
    """The most resident memory since then."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def above_mock(sample: Sample, without_network: Sample) -> Sample:
    """What a request costs beyond the same package without a network."""
    mock_ns = without_network.metrics["cpu_ns_per_op"]
    above_ns = sample.metrics["cpu_ns_per_op"] - mock_ns
    sample.metrics |= {"mock_ns_per_op": mock_ns, "above_mock_ns": above_ns}
    return sample


def measured(
    start: Callable[[], Start], load: Load, settings: Settings, mock: Callable[[], Start] | None = None
) -> Sample:
    """A measurement, and one without a network beside it. Raises RivalFailedError, RivalMissingError."""
    found = measure_client(start(), load, settings)
    return above_mock(found, measure_client(mock(), load, settings)) if mock else found
