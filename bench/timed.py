"""One measurement of a program that measures its own work and prints the result as one line of JSON.

For work without a client: primitives, files, green threads, starting processes. The program runs on the server's CPU.
The CPU time of its whole run is recorded with the figures that it prints.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

from bench import measure
from bench.model import RivalFailedError, Sample, Settings
from bench.process import Program

PATIENCE_S = 120.0


def python_module(name: str, *args: str) -> list[str]:
    """The command that runs a module of `bench` with the current interpreter."""
    return [sys.executable, "-m", f"bench.rivals.{name}", *args]


def measure_program(
    argv: Sequence[str],
    settings: Settings,
    patience_s: float = PATIENCE_S,
    env: Mapping[str, str] | None = None,
) -> Sample:
    """Runs the program to its end. Its last line is {"metric": figure…}, with "notes" if there are any.

    Raises RivalFailedError.
    """
    with Program(argv, settings.server_cpu, env) as program:
        line = program.read_line(patience_s)
        try:
            figures = json.loads(line)
            usage = measure.read_usage(program.pid)
        except (ValueError, ProcessLookupError):
            usage = None
            if not line.startswith("{"):
                raise RivalFailedError(f"printed {line[:80]!r} instead of figures") from None
            figures = json.loads(line)
        program.tell("end")
        if program.wait(10.0) != 0:
            raise RivalFailedError(f"died: {program.ending()}")
    notes = [str(note) for note in figures.pop("notes", [])]
    metrics = {name: float(value) for name, value in figures.items()}
    if usage is not None:
        metrics.setdefault("rss_bytes", usage.rss_bytes)
        metrics.setdefault("vss_bytes", usage.vss_bytes)
        metrics.setdefault("threads", usage.threads)
    return Sample(metrics, notes=notes)
