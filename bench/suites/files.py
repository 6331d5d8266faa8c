"""files: linux_aio's experiment with its columns; cached small files; cold and O_DIRECT reads; lines; copies.

fio is the floor for reads from the disk. If a loop can run during the reads, its lag shows how late its timers were.
Uses a folder in bench/results, because /tmp may be in memory.

Both sides: open, read everything and close, in the usual way of each library (`bench.rivals.file_readers`); blocks are
read by `pread` into buffers that are used again, or into new bytes where the library has no other way.
Kept: the contents of files that are read together, until the last of them is read; the cache of the kernel, except in
the rows of cold and O_DIRECT reads.
Thrown away: all other contents, at once.
Window: the reads, repeated for at least `--duration`, and what the loop has put off; in the experiment a fixed number.
fio's CPU time is that of its process less its start.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from pathlib import Path

from bench.catalogue import FLOOR, SUBJECT, has_module
from bench.model import Case, RivalMissingError, Sample, Settings
from bench.process import ROOT, native
from bench.suites import fio
from bench.suites.file_call import PACKAGES
from bench.suites.options import Options
from bench.timed import measure_program, python_module

FOLDER = ROOT / "bench" / "results" / "files"
READERS = ("open", "os", "executor", "aiofiles", "aiofile", "libaio", SUBJECT)
#: Also of whole files, for which each has its own way.
WHOLE = (*READERS[:-1], "turbofile", "asyncfiles", SUBJECT)
#: The experiment has a timer every millisecond: on another loop it is another program.
ON_LOOPS = tuple(f"{reader} on {loop}" for reader in ("open", "executor", "aiofiles") for loop in ("uvloop", SUBJECT))
EXPERIMENT_ROUNDS = 1000
CACHED_ROUNDS = 4000
BLOCK_READS = 4000
AT_ONCE_ROUNDS = 1000
BIG_FILE_BYTES = 256 << 20
LONG_FILE_BYTES = 1 << 30
#: Of the long files in a run of record, which has many suites to do.
CORE_FILE_BYTES = 128 << 20
IN_FLIGHT = 32
FILE_COUNTS = (1, 6, 12, 24)
CORE_COUNTS = (24,)
#: The reasons why rivals are not in the direct case.
CANNOT = {
    ("direct", "aiofiles"): "aiofiles cannot open with O_DIRECT",
    ("direct", "aiofile"): "aiofile has no aligned buffers for O_DIRECT",
    ("lines", "libaio"): "libaio knows no lines",
    ("sequential", "os"): "the same as open() without a buffer",
    ("lines", "os"): "plain calls know no lines",
    ("copy", "os"): "shutil.copyfile is what open() has",
    ("copy", "libaio"): "libaio copies nothing",
}


def made(path: Path, size: int) -> Path:
    """A file of random bytes, kept for the next run."""
    if not path.exists() or path.stat().st_size != size:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        generator = random.Random(size)
        with partial.open("wb") as file:
            while file.tell() < size:
                file.write(generator.randbytes(min(1 << 20, size - file.tell())))
        partial.replace(path)
    return path


@functools.cache
def experiment_files() -> list[str]:
    """24 files of 1 to 100 KiB, as in the experiment."""
    sizes = [1024 + index * (99 * 1024) // 23 for index in range(24)]
    order = random.Random(7).sample(sizes, len(sizes))
    return [str(made(FOLDER / f"small-{n}", size)) for n, size in enumerate(order)]


def cached_files(size: int) -> list[str]:
    """Sixteen files of one size."""
    return [str(made(FOLDER / f"cached-{size}-{n}", size)) for n in range(16)]


def at_once_files() -> list[str]:
    """24 files of 4 KiB."""
    return [str(made(FOLDER / f"once-{n}", 4096)) for n in range(24)]


def big_file() -> str:
    """The file for reading blocks."""
    return str(made(FOLDER / "big", BIG_FILE_BYTES))


def long_file(size: int) -> str:
    """The file that is read completely."""
    return str(made(FOLDER / f"long-{size >> 20}", size))


@functools.cache
def text_file(size: int) -> str:
    """ASCII lines of 80 characters, this number of bytes."""
    path = FOLDER / f"lines-{size >> 20}.txt"
    if not path.exists() or path.stat().st_size < size:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        line = "the quick brown fox jumps over the lazy dog and writes it down again"
        with partial.open("w") as file:
            for start in range(0, size // 80 + 1, 10_000):
                file.writelines(f"{number:010d} {line}\n" for number in range(start, start + 10_000))
        partial.replace(path)
    return str(path)


def _program(rival: str, work: str, rounds: int, paths: list[str], settings: Settings) -> Sample:
    if (work, rival) in CANNOT:
        raise RivalMissingError(CANNOT[work, rival])
    for module in rival.split(" on "):
        if module in (*PACKAGES, "uvloop", SUBJECT) and not has_module(module):
            raise RivalMissingError(f"{module} is not installed")
    reader, _, loop = rival.partition(" on ")
    loop = loop or (SUBJECT if rival == SUBJECT else "asyncio")
    args = ["--rival", reader, "--loop", loop, "--work", work]
    args += ["--rounds", str(rounds), "--seconds", str(settings.duration_s), *paths]
    return measure_program(python_module("files_program", *args), settings)


def _floor_cached(rounds: int, paths: list[str], settings: Settings) -> Sample:
    times = max(1, rounds // len(paths))
    args = ["--rounds", str(times), "--seconds", str(settings.duration_s), *paths]
    return measure_program([native("floor"), "files", *args], settings)


def _case(
    options: Options, name: str, metric: str, unit: str, rivals: tuple[str, ...],
    measure: Callable[[str, Settings], Sample], remark: str = "",
) -> Case:  # fmt: skip
    return Case(
        suite="files", name=name, params={}, metric=metric, unit=unit,
        rivals=options.pick_rivals(rivals), measure=measure, remark=remark, baseline="open",
    )  # fmt: skip


def _experiment_case(options: Options, count: int) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        rounds = settings.scaled(EXPERIMENT_ROUNDS)
        return _program(rival, "experiment", rounds, experiment_files()[:count], settings)

    remark = "reads all files every 1 ms, some hundred times; the CPU time less that of the same run without reads"
    name = f"linux_aio's experiment, {count} file{'s' if count > 1 else ''}"
    rivals = (*WHOLE, *ON_LOOPS)
    return _case(options, name, "cpu_ns_per_op", "CPU time that a file adds", rivals, measure, remark)


def _cached_case(options: Options, size: int) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        rounds = settings.scaled(CACHED_ROUNDS)
        if rival == FLOOR:
            return _floor_cached(rounds * 4, cached_files(size), settings)
        return _program(rival, "cached", rounds, cached_files(size), settings)

    name = f"cached files of {size // 1024} KiB"
    return _case(options, name, "ns_per_op", "time per file", (FLOOR, *WHOLE), measure)


def _block_case(options: Options, work: str) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        reads = settings.scaled(BLOCK_READS)
        if rival == "fio":
            return fio.blocks(big_file(), work == "direct", IN_FLIGHT, reads, settings.server_cpu)
        return _program(rival, work, reads, [big_file()], settings)

    name = f"{'O_DIRECT' if work == 'direct' else 'cold'} 4 KiB reads, {IN_FLIGHT} in flight"
    remark = (
        "lag: how late a 1 ms timer was during the reads; fio is the floor, its CPU time is that of all its threads, "
        "less its start; "
        "open() and os have one read in flight, as blocking calls have; all threads are pinned to one CPU"
    )
    return _case(options, name, "ns_per_op", "time per read", ("fio", *READERS), measure, remark)


def _at_once_case(options: Options) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        rounds = settings.scaled(AT_ONCE_ROUNDS)
        return _program(rival, "at-once", rounds, at_once_files(), settings)

    name = "cached files of 4 KiB, 24 at once"
    return _case(options, name, "cpu_ns_per_op", "CPU time per file", WHOLE, measure)


def _long_case(options: Options, work: str) -> Case:
    size = CORE_FILE_BYTES if options.core else LONG_FILE_BYTES
    path = {"sequential": lambda: long_file(size), "lines": lambda: text_file(size), "copy": big_file}[work]

    def measure(rival: str, settings: Settings) -> Sample:
        if rival == "fio":
            return fio.sequential(path(), size, settings.server_cpu)
        return _program(rival, work, 1, [path()], settings)

    text = f"{size >> 20} MiB" if options.core else "a GiB"
    name, unit = {
        "sequential": (f"{text} from the disk, a MiB at a time", "time per MiB"),
        "lines": (f"the lines of {text} of text", "time per line"),
        "copy": ("copying 256 MiB", "time per MiB"),
    }[work]
    rivals = ("fio", *READERS) if work == "sequential" else READERS
    return _case(options, name, "ns_per_op", unit, rivals, measure)


def cases(options: Options) -> list[Case]:
    if options.quick:
        return [_cached_case(options, 4096)]
    sizes = options.sizes or (4096, 102_400)
    return [
        *(_experiment_case(options, count) for count in (CORE_COUNTS if options.core else FILE_COUNTS)),
        *(_cached_case(options, size) for size in sizes),
        _at_once_case(options),
        _block_case(options, "cold"),
        _block_case(options, "direct"),
        *(_long_case(options, work) for work in ("sequential", "lines", "copy")),
    ]
