"""One measurement of a server: start it, load it, and read its CPU clock at the start and the end of the window.

The generator warms up, prints `ready` when no request is in progress, and starts the window on `go`. The server's usage
is read at the start and the end of the window, when no request is in progress and the server has nothing left to do:
work that a server puts off until it is idle belongs to the requests that caused it.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench import certificates, measure
from bench.catalogue import Serve, server_argv, server_env
from bench.model import Curve, Metrics, RivalFailedError, RivalMissingError, Sample, Settings
from bench.process import START_PATIENCE_S, Program, native

#: The generator counts as the bottleneck if it was at least this busy while the server was not fully busy.
GENERATOR_BUSY = 0.9
SERVER_RESTS = 0.9
#: Several workers have all started when none has used CPU time for this long.
START_REST_S = 0.3

StartServer = Callable[[str, Serve], tuple[Sequence[str], dict[str, str]]]


@dataclass(frozen=True)
class Load:
    """The load that the generator puts on the server.

    Args:
        target: path of an HTTP request; default: the size.
        expect: body of the response; default: as many bytes as the size says.
        headers: further headers of each HTTP request, `Name: value`.
        hold: `answered` or `unread`: the connections become idle after the first response, or before reading it.
    """

    mode: str = "echo"
    size: int = 1024
    connections: int = 10
    pipeline: int = 1
    rate: float | None = None
    closer: str = "server"
    resumes: bool = False
    patience_s: float = 5.0
    target: str = ""
    expect: str = ""
    hold: str = ""
    headers: tuple[str, ...] = ()

    def options(self, settings: Settings) -> list[str]:
        """The generator's command line, without the address."""
        given = ["--mode", self.mode, "--size", str(self.size), "--pipeline", str(self.pipeline)]
        given += ["--connections", str(self.connections), "--closer", self.closer]
        given += ["--patience", str(self.patience_s)]
        given += ["--resume"] if self.resumes else []
        for name, text in (("--target", self.target), ("--expect", self.expect), ("--hold", self.hold)):
            given += [name, text] if text else []
        for header in self.headers:
            given += ["--header", header]
        given += ["--duration", str(settings.duration_s), "--warmup", str(settings.warmup_s)]
        rate = self.rate if self.rate is not None else settings.rate
        if rate is not None:
            given += ["--rate", str(rate)]
        # If there is only one CPU, the generator must not spin, or the server would get no time.
        if settings.generator_cpu is None:
            given += ["--waiting", "sleep"]
        return given


def default_start(rival: str, serve: Serve) -> tuple[Sequence[str], dict[str, str]]:
    return server_argv(rival, serve), server_env(rival)


@contextlib.contextmanager
def running_server(
    rival: str, serve: Serve, settings: Settings, start: StartServer = default_start
) -> Iterator[tuple[Program, list[str]]]:
    """A new server, with the generator's options for connecting to it."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        given = serve
        if serve.family == "unix":
            given = replace(given, path=str(Path(folder) / "socket"))
        if serve.tls:
            given = replace(given, tls=str(certificates.server_file()))
        argv, env = start(rival, given)
        with Program(argv, settings.server_cpu, env) as server:
            word, _, port = server.read_line(START_PATIENCE_S).partition(" ")
            if word != "ready":
                raise RivalFailedError(f"printed {word!r} instead of `ready`")
            if serve.workers > 1:
                # The first worker that serves would get all connections.
                measure.usage_at_rest(server.pid, START_REST_S, START_PATIENCE_S)
            address = ["--path", given.path] if serve.family == "unix" else ["--port", port]
            if serve.tls:
                address += ["--ca", str(certificates.authority_file())]
            yield server, address


def read_event(generator: Program, patience_s: float) -> dict[str, Any]:
    """The generator's next line. Raises RivalFailedError with the reason if the generator failed."""
    event: dict[str, Any] = json.loads(generator.read_line(patience_s))
    if event["event"] == "failed":
        raise RivalFailedError(str(event["reason"]))
    return event


def explain(server: Program, failure: RivalFailedError) -> RivalFailedError:
    """The generator's error, or the server's end if that is the cause."""
    # If it gave a wrong answer or none, the server was alive; it may end later because its clients have left.
    if str(failure).startswith(("wrong answer", "no answer")):
        return failure
    if server.is_running(grace_s=0.5):
        return failure
    return RivalFailedError(f"died: {server.ending()}")


def measure_server(
    rival: str,
    serve: Serve,
    load: Load,
    settings: Settings,
    start: StartServer = default_start,
) -> Sample:
    """Measures a server once. Raises RivalFailedError, RivalMissingError."""
    patience_s = 15.0 + 3 * load.patience_s + 3 * settings.duration_s + settings.warmup_s
    with running_server(rival, serve, settings, start) as (server, address):
        argv = [native("loadgen"), *address, *load.options(settings)]
        with Program(argv, settings.generator_cpu) as generator:
            try:
                read_event(generator, patience_s)
                before = measure.usage_at_rest(server.pid)
                generator.tell("go")
                outcome = read_event(generator, patience_s)["outcome"]
                after = measure.usage_at_rest(server.pid)
            except RivalFailedError as failure:
                raise explain(server, failure) from failure
            except ProcessLookupError:
                raise RivalFailedError(f"died: {server.ending()}") from None
    if load.resumes and not outcome["resumed"]:
        raise RivalMissingError(f"{rival} does not resume TLS sessions")
    return _sample(before, after, outcome, load, serve)


def _sample(before: measure.Usage, after: measure.Usage, outcome: dict[str, Any], load: Load, serve: Serve) -> Sample:
    messages = int(outcome["messages"])
    if messages == 0:
        raise RivalFailedError("answered nothing in the measured window")
    seconds = float(outcome["seconds"])
    latency = outcome["latency_ns"]
    metrics: Metrics = measure.server_metrics(before, after, messages)
    if serve.workers > 1:
        metrics |= measure.worker_metrics(before, after, messages)
    server_busy = (after.cpu_ns - before.cpu_ns) / 1e9 / seconds
    metrics |= {
        "throughput": messages / seconds,
        "p50_ns": float(latency["p50"]),
        "p99_ns": float(latency["p99"]),
        "p999_ns": float(latency["p999"]),
        "lost": float(outcome["lost"]),
        "server_busy": server_busy,
        "generator_busy": float(outcome["generator_busy_share"]),
        "generator_cpu": float(outcome["generator_cpu_share"]),
    }
    if load.resumes:
        metrics["resumed_share"] = outcome["resumed"] / messages
    curve: Curve = [(float(q), float(ns)) for q, ns in latency["curve"]]
    return Sample(metrics, curve, _notes(outcome, metrics, load))


def _notes(outcome: dict[str, Any], metrics: Metrics, load: Load) -> list[str]:
    notes = []
    if metrics["generator_busy"] > GENERATOR_BUSY and metrics["server_busy"] < SERVER_RESTS:
        notes.append("generator was the bottleneck")
    if outcome["lost"]:
        notes.append(f"{outcome['lost']} datagrams lost")
    if load.resumes and outcome["resumed"] < outcome["messages"]:
        notes.append("not every session was resumed")
    if outcome["truncated"]:
        notes.append("ends connections without close_notify")
    if outcome["unsent"]:
        notes.append(f"{outcome['unsent']} messages were due and never sent: overloaded")
    return notes
