"""What the soak records between its rounds, whether that is flat, and a picture of it."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from tests import descriptors

LIBC = ctypes.CDLL(None)

# RSS may move by this much between the halves: allocators keep some pages even when asked for all (0.2 MiB were seen).
ALLOWED_GROWTH_BYTES = 1 << 20


@dataclass(frozen=True)
class Sample:
    """The process between two rounds."""

    at_s: float
    resident_bytes: int
    open_descriptors: int
    threads: int
    """Of the kernel; see `thread_count`."""
    lag_s: float = 0.0
    """The latest that a timer was in the round. The machine's other work is in it: it is drawn, not judged."""


def resident_bytes() -> int:
    """What stays when garbage is collected and the C library has returned its free pages (malloc_trim(3), of glibc)."""
    gc.collect()
    if trim := getattr(LIBC, "malloc_trim", None):
        trim(ctypes.c_size_t(0))
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def thread_count() -> int:
    """How many threads this process has, without the kernel's own for io_uring: more come when a disk is slow."""
    count = 0
    for task in os.listdir("/proc/self/task"):
        # It may have ended.
        with suppress(OSError):
            count += not Path(f"/proc/self/task/{task}/comm").read_text().startswith("iou-")
    return count


def take(began_s: float, lag_s: float) -> Sample:
    """Look at this process."""
    threads = thread_count()
    assert threads >= threading.active_count()
    return Sample(time.monotonic() - began_s, resident_bytes(), len(descriptors.open_descriptors()), threads, lag_s)


def least(samples: list[Sample]) -> tuple[int, int, int]:
    """The least memory, descriptors and threads: what leaks raises every sample."""
    return (
        min(sample.resident_bytes for sample in samples),
        min(sample.open_descriptors for sample in samples),
        min(sample.threads for sample in samples),
    )


def growth(samples: list[Sample], most_threads: int = 0) -> list[str]:
    """Print the figures of both halves, and return what has grown.

    Pools end threads that have nothing to do, and start others: their number has grown when it is never again as low
    as its highest before, or as `most_threads`.
    """
    half = len(samples) // 2
    before, after = least(samples[:half]), least(samples[half:])
    most_threads = max(most_threads, *(sample.threads for sample in samples[:half]))
    print(
        f"{len(samples)} samples: rss {before[0] / 2**20:.1f} MiB, then {after[0] / 2**20:.1f} MiB; descriptors"
        f" {before[1]}, then {after[1]}; threads {most_threads} at most, then {after[2]} at least"
    )
    problems = []
    if after[0] - before[0] > ALLOWED_GROWTH_BYTES:
        problems.append(f"resident memory grew by {(after[0] - before[0]) / 2**20:.1f} MiB")
    if after[1] > before[1]:
        problems.append("descriptors grew")
    if after[2] > most_threads:
        problems.append("threads grew")
    return problems


def _path(points: list[tuple[float, float]], top: int, height: int, width: int) -> str:
    last, most = max(at for at, _ in points) or 1, max(value for _, value in points) or 1
    return " ".join(f"{60 + at / last * width:.1f},{top + height - value / most * height:.1f}" for at, value in points)


def draw(samples: list[Sample], path: Path) -> None:
    """Write a picture: one curve for each figure, from 0 to its largest value, over the time."""
    names = [field.name for field in fields(Sample)][1:]
    shown = []
    for index, name in enumerate(names):
        points = [(sample.at_s, float(astuple(sample)[index + 1])) for sample in samples]
        top = 20 + index * 110
        most = max(value for _, value in points)
        shown += [
            f'<text x="60" y="{top - 4}">{name}: at most {most:.6g}</text>',
            f'<polyline points="{_path(points, top, 80, 700)}" fill="none" stroke="#2a6fb0"/>',
        ]
    height = 20 + 110 * len(names)
    text = "\n".join(shown)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {height}" font-family="sans-serif" font-size="12">\n'
        f"{text}\n</svg>\n"
    )
