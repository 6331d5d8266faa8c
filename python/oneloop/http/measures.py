"""`Measures`: the counters of `--metrics`, in memory that all workers share.

Any worker can answer for all of them. Each worker has a row of numbers in one anonymous mapping, which the parent
creates before it forks. Only one process writes to a row, so no lock is needed; a reader can see slightly older values.
The output has Prometheus' text format 0.0.4.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_left
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneloop.statistics import Statistics

if TYPE_CHECKING:
    import asyncio

__all__ = ["Board", "Measures", "read_memory_bytes"]

# Upper bounds of the latency histogram, in seconds. One more bucket is for longer requests.
BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

# Indexes in a row.
PID = 0
IN_FLIGHT = 1
CONNECTIONS = 2
BODY_BYTES = 3
DURATION_S = 4
INCOMPLETE = 5
WEBSOCKET_BYTES = 6
# Ten cells, indexed by the first digit of the status; 0 is unused.
STATUS = 7
BUCKET = STATUS + 10
LOOP = BUCKET + len(BOUNDS_S) + 1

_LOOP_FIELDS = [field.name for field in fields(Statistics) if field.type in ("int", "float")]
# These fields are gauges; all others are counters.
_LOOP_GAUGES = (
    "timers_pending",
    "timers_cancelled",
    "open_transports",
    "longest_callback_s",
    "longest_tick_s",
    "loop_lag_s",
)
WIDTH = LOOP + len(_LOOP_FIELDS)

ROWS = 2048
"""The most workers at a time, including workers that are ending while their successors already serve."""

_PAGE_BYTES = mmap.PAGESIZE
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Board:
    """The rows of all workers. Created before the workers are forked."""

    def __init__(self, rows: int = ROWS) -> None:
        self._memory = mmap.mmap(-1, rows * WIDTH * 8)
        self.values = memoryview(self._memory).cast("d")
        self.rows = rows

    def clear(self, row: int) -> None:
        """Set a row to zeros: after its process has ended, or before a new one uses it."""
        for place in range(row * WIDTH, (row + 1) * WIDTH):
            self.values[place] = 0.0

    def close(self) -> None:
        """Free the memory."""
        self.values.release()
        self._memory.close()


class Measures:
    """The counters of one process. `add` is called at the end of each response.

    Args:
        board: the rows of all workers.
        row: this process's row; also its `worker` label in the output.
    """

    INTERVAL_S = 1.0
    """The interval at which `publish` has to be called, in seconds."""

    def __init__(self, board: Board, row: int = 0) -> None:
        self._board = board
        board.clear(row)
        self._row = board.values[row * WIDTH : (row + 1) * WIDTH]
        self._row[PID] = float(os.getpid())

    def add(
        self,
        _client: object,
        _method: str,
        _target: bytes,
        _version: str,
        status: int,
        body_bytes: int,
        duration_s: float,
        _headers: object,
        is_complete: bool = True,
    ) -> None:
        """Count a response. Its arguments are those of `AccessLog`."""
        row = self._row
        row[STATUS + status // 100] += 1.0
        row[BODY_BYTES] += body_bytes
        row[DURATION_S] += duration_s
        row[BUCKET + bisect_left(BOUNDS_S, duration_s)] += 1.0
        if not is_complete:
            row[INCOMPLETE] += 1.0

    def publish(
        self, loop: asyncio.AbstractEventLoop, in_flight: int, connections: int, websocket_bytes: int = 0
    ) -> None:
        """Update the values that are read from the server and the loop."""
        row = self._row
        row[IN_FLIGHT] = in_flight
        row[CONNECTIONS] = connections
        row[WEBSOCKET_BYTES] = websocket_bytes
        statistics: Any = getattr(loop, "statistics", None)
        if statistics is not None:
            now = statistics()
            for place, name in enumerate(_LOOP_FIELDS, LOOP):
                row[place] = getattr(now, name)

    def text(self) -> str:
        """Return the metrics of all workers in Prometheus' text format."""
        values = self._board.values
        rows: dict[int, memoryview[float]] = {}
        for row in range(self._board.rows):
            if values[row * WIDTH + PID]:
                rows[row] = values[row * WIDTH : (row + 1) * WIDTH]
        lines: list[str] = []
        _add_counts(lines, rows)
        _add_histogram(lines, rows)
        _add_processes(lines, rows)
        for place, name in enumerate(_LOOP_FIELDS, LOOP):
            kind = "gauge" if name in _LOOP_GAUGES else "counter"
            unit = name.removesuffix("_s") + "_seconds" if name.endswith("_s") else name
            full = f"oneloop_loop_{unit}" + ("_total" if kind == "counter" else "")
            _head(lines, full, kind, f"The loop's `{name}`: see the reference of its statistics.")
            lines.extend(f'{full}{{worker="{row}"}} {_number(cells[place])}' for row, cells in rows.items())
        return "\n".join(lines) + "\n"


def _add_counts(lines: list[str], rows: dict[int, memoryview[float]]) -> None:
    _head(lines, "oneloop_http_requests_total", "counter", "Responses, by the first digit of their status.")
    for row, cells in rows.items():
        lines.extend(
            f'oneloop_http_requests_total{{worker="{row}",status="{digit}xx"}} {_number(cells[STATUS + digit])}'
            for digit in range(1, 10)
            # No standard defines a status from 600 on, but applications can use them.
            if digit < 6 or cells[STATUS + digit]
        )
    for name, kind, place, text in (
        ("oneloop_http_incomplete_responses_total", "counter", INCOMPLETE, "Responses that ended before their end."),
        ("oneloop_http_response_body_bytes_total", "counter", BODY_BYTES, "Bytes of the bodies of responses."),
        ("oneloop_http_websocket_bytes_total", "counter", WEBSOCKET_BYTES, "Bytes of messages sent to WebSockets."),
        ("oneloop_http_requests_in_flight", "gauge", IN_FLIGHT, "Requests in progress."),
        ("oneloop_http_connections", "gauge", CONNECTIONS, "Open connections."),
    ):
        _head(lines, name, kind, text)
        lines.extend(f'{name}{{worker="{row}"}} {_number(cells[place])}' for row, cells in rows.items())


def _add_histogram(lines: list[str], rows: dict[int, memoryview[float]]) -> None:
    name = "oneloop_http_request_duration_seconds"
    _head(lines, name, "histogram", "Time from the head of a request to the end of its response or handshake.")
    for row, cells in rows.items():
        total = 0.0
        for index, bound in enumerate((*BOUNDS_S, None)):
            total += cells[BUCKET + index]
            below = "+Inf" if bound is None else repr(bound)
            lines.append(f'{name}_bucket{{worker="{row}",le="{below}"}} {_number(total)}')
        lines.append(f'{name}_sum{{worker="{row}"}} {_number(cells[DURATION_S])}')
        lines.append(f'{name}_count{{worker="{row}"}} {_number(total)}')


def _add_processes(lines: list[str], rows: dict[int, memoryview[float]]) -> None:
    found = {}
    for row, cells in rows.items():
        pid = int(cells[PID])
        try:
            found[row] = (read_cpu_s(pid), read_memory_bytes(pid))
        except (OSError, ValueError):
            # The process has just ended.
            continue
    _head(lines, "process_cpu_seconds_total", "counter", "CPU time of the process, in user and system mode.")
    lines.extend(f'process_cpu_seconds_total{{worker="{row}"}} {_number(cpu_s)}' for row, (cpu_s, _) in found.items())
    _head(lines, "process_resident_memory_bytes", "gauge", "Resident memory of the process.")
    lines.extend(f'process_resident_memory_bytes{{worker="{row}"}} {used}' for row, (_, used) in found.items())


def _head(lines: list[str], name: str, kind: str, text: str) -> None:
    lines.append(f"# HELP {name} {text}")
    lines.append(f"# TYPE {name} {kind}")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def read_memory_bytes(pid: int | str = "self") -> int:
    """Return the resident memory of a process, see proc_pid_statm(5)."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES


def read_cpu_s(pid: int) -> float:
    """Return the CPU time of a process, see proc_pid_stat(5)."""
    # The program's name, in parentheses, can contain spaces.
    numbers = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / _TICKS_PER_S
