"""Starts programs through `leash`, communicates with them in lines, and ends them. Independent of what they do.

Every operation has a time limit, and no program outlives the benchmarks: `leash` makes the kernel kill a program whose
starter died, and each program is the leader of a process group, which is killed by its number at the end.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.model import RivalFailedError

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "bench" / "native" / "target" / "release"
START_PATIENCE_S = 20.0


class NativeMissingError(Exception):
    """A native program has not been built."""


def native(name: str) -> str:
    """The path of a program of bench/native. Raises NativeMissingError."""
    path = NATIVE / name
    if not path.exists():
        raise NativeMissingError(f"{path} does not exist: run `python -m bench.install` first")
    return str(path)


class Program:
    """A running program; leaving its context kills the program and its children."""

    def __init__(self, argv: Sequence[str], cpu: int | None, env: Mapping[str, str] | None = None) -> None:
        self.argv = list(argv)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the program
        self._buffer = b""
        self._process = subprocess.Popen(
            [native("leash"), "-" if cpu is None else str(cpu), *argv],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process id, which is also the id of the group."""
        return self._process.pid

    def read_line(self, patience_s: float) -> str:
        """The next line of output. Raises RivalFailedError if the program ends or prints nothing."""
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        deadline = time.monotonic() + patience_s
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise RivalFailedError(f"hangs: no output for {patience_s:.0f} s{self._last_words()}")
            chunk = os.read(fd, 1 << 16)
            if not chunk:
                raise RivalFailedError(f"died: {self._ending()}{self._last_words()}")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode(errors="replace").strip()

    def tell(self, line: str) -> None:
        """Writes one line to the program's input. If the program has ended, the next read raises."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def is_running(self, grace_s: float = 0.0) -> bool:
        """Whether it runs. Waits for a process that is ending: its connections close before it has ended."""
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            return True
        return False

    def wait(self, patience_s: float) -> int:
        """Its exit status. Raises RivalFailedError if it does not end."""
        try:
            return self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            raise RivalFailedError(f"hangs: did not end within {patience_s:.0f} s") from None

    def ending(self) -> str:
        """How it ended and its last line of output, for a row of the report."""
        return self._ending() + self._last_words()

    def _ending(self) -> str:
        try:
            code = self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            return "closed its output"
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"

    def _last_words(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 2000))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f" ({lines[-1].strip()[:160]})" if lines else ""

    def close(self) -> None:
        """Kills the program and its group, and waits for the end."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
