"""One measurement of a program that times its own work and prints it as one line of JSON.

For what has no client: primitives, files, green threads, starting processes. The program runs on the server's CPU;
its CPU time over its whole life is read beside the figures that it prints.
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
    """A command that runs a module of the bench with the interpreter that runs the bench."""
    return [sys.executable, "-m", f"bench.rivals.{name}", *args]


def measure_program(
    argv: Sequence[str],
    settings: Settings,
    patience_s: float = PATIENCE_S,
    env: Mapping[str, str] | None = None,
) -> Sample:
    """Runs it to its end; its last line is {"metric": figure…}, with "notes" if it has any.

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
                raise RivalFailedError(f"said {line[:80]!r} where figures were expected") from None
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
