"""files: linux_aio's experiment with its columns; cached small files; cold and O_DIRECT reads; lines; copies.

fio is the floor for reads from the disk. If a loop can run during the reads, its lag shows how late its timers were.
Uses a folder in bench/results, because /tmp may be in memory.
"""

from __future__ import annotations

import functools
import json
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.catalogue import FLOOR, SUBJECT, has_module
from bench.model import Case, RivalFailedError, RivalMissingError, Sample, Settings
from bench.process import ROOT, native
from bench.suites.options import Options
from bench.timed import measure_program, python_module

FOLDER = ROOT / "bench" / "results" / "files"
READERS = ("open", "executor", "aiofiles", "aiofile", "libaio", SUBJECT)
EXPERIMENT_ROUNDS = 1000
CACHED_ROUNDS = 4000
BLOCK_READS = 4000
AT_ONCE_ROUNDS = 1000
BIG_FILE_BYTES = 256 << 20
LONG_FILE_BYTES = 1 << 30
IN_FLIGHT = 32
FILE_COUNTS = (1, 6, 12, 24)
#: The reasons why rivals are not in the direct case.
CANNOT = {
    ("direct", "aiofiles"): "aiofiles cannot open with O_DIRECT",
    ("direct", "aiofile"): "aiofile has no aligned buffers for O_DIRECT",
    ("lines", "libaio"): "libaio knows no lines",
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


def long_file() -> str:
    """The file that is read completely."""
    return str(made(FOLDER / "long", LONG_FILE_BYTES))


@functools.cache
def text_file() -> str:
    """A GiB of ASCII lines of 80 characters."""
    path = FOLDER / "lines.txt"
    if not path.exists() or path.stat().st_size < LONG_FILE_BYTES:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        line = "the quick brown fox jumps over the lazy dog and writes it down again"
        with partial.open("w") as file:
            for start in range(0, LONG_FILE_BYTES // 80 + 1, 10_000):
                file.writelines(f"{number:010d} {line}\n" for number in range(start, start + 10_000))
        partial.replace(path)
    return str(path)


def _program(rival: str, work: str, rounds: int, paths: list[str], settings: Settings) -> Sample:
    if (work, rival) in CANNOT:
        raise RivalMissingError(CANNOT[work, rival])
    if rival in ("aiofiles", "aiofile", "libaio", SUBJECT) and not has_module(rival):
        raise RivalMissingError(f"{rival} is not installed")
    args = ["--rival", rival, "--work", work, "--rounds", str(rounds), *paths]
    return measure_program(python_module("files_program", *args), settings)


def _floor_cached(rounds: int, paths: list[str], settings: Settings) -> Sample:
    times = max(1, rounds // len(paths))
    return measure_program([native("floor"), "files", "--rounds", str(times), *paths], settings)


def _fio(path: str, access: tuple[str, ...], size: int, cpu: int | None) -> dict[str, float]:
    """A run of fio with io_uring: total nanoseconds, its CPU time, latencies."""
    if not shutil.which("fio"):
        raise RivalMissingError("fio is not installed")
    with tempfile.TemporaryDirectory() as folder:
        argv = [
            native("leash"), "-" if cpu is None else str(cpu),
            "fio", "--name=bench", f"--filename={path}", "--ioengine=io_uring", "--invalidate=1",
            f"--io_size={size}", "--randseed=1", "--norandommap", "--readonly", "--thread",
            *access, "--output-format=json", f"--aux-path={folder}",
        ]  # fmt: skip
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True, cwd=folder)
        except subprocess.SubprocessError as error:
            raise RivalFailedError(f"fio: {error}") from error
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    wall_ns = job["read"]["runtime"] * 1e6
    latency = job["read"]["clat_ns"]["percentile"]
    return {
        "wall_ns": wall_ns,
        "cpu_ns": (job["usr_cpu"] + job["sys_cpu"]) / 100 * wall_ns,
        "p50_ns": latency["50.000000"],
        "p99_ns": latency["99.000000"],
    }


def _fio_blocks(direct: bool, reads: int, cpu: int | None) -> Sample:
    access = ("--rw=randread", "--bs=4k", f"--iodepth={IN_FLIGHT}", f"--direct={int(direct)}", "--fadvise_hint=random")
    found = _fio(big_file(), access, reads * 4096, cpu)
    per_read = {"ns_per_op": found["wall_ns"] / reads, "cpu_ns_per_op": found["cpu_ns"] / reads}
    return Sample(per_read | {"p50_ns": found["p50_ns"], "p99_ns": found["p99_ns"]})


def _fio_sequential(cpu: int | None) -> Sample:
    found = _fio(long_file(), ("--rw=read", "--bs=1M", "--iodepth=1"), LONG_FILE_BYTES, cpu)
    mib = LONG_FILE_BYTES >> 20
    return Sample({"ns_per_op": found["wall_ns"] / mib, "cpu_ns_per_op": found["cpu_ns"] / mib})


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

    remark = "reads all files every 1 ms, 1000 times"
    name = f"linux_aio's experiment, {count} file{'s' if count > 1 else ''}"
    return _case(options, name, "wall_ns", "seconds in all", READERS, measure, remark)


def _cached_case(options: Options, size: int) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        rounds = settings.scaled(CACHED_ROUNDS)
        if rival == FLOOR:
            return _floor_cached(rounds * 4, cached_files(size), settings)
        return _program(rival, "cached", rounds, cached_files(size), settings)

    name = f"cached files of {size // 1024} KiB"
    return _case(options, name, "ns_per_op", "time per file", (FLOOR, *READERS), measure)


def _block_case(options: Options, work: str) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        reads = settings.scaled(BLOCK_READS)
        if rival == "fio":
            return _fio_blocks(work == "direct", reads, settings.server_cpu)
        return _program(rival, work, reads, [big_file()], settings)

    name = f"{'O_DIRECT' if work == 'direct' else 'cold'} 4 KiB reads, {IN_FLIGHT} in flight"
    remark = "lag: how late a 1 ms timer was during the reads; fio is the floor"
    return _case(options, name, "ns_per_op", "time per read", ("fio", *READERS), measure, remark)


def _at_once_case(options: Options) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        rounds = settings.scaled(AT_ONCE_ROUNDS)
        return _program(rival, "at-once", rounds, at_once_files(), settings)

    name = "cached files of 4 KiB, 24 at once"
    return _case(options, name, "cpu_ns_per_op", "CPU time per file", READERS, measure)


def _long_case(options: Options, work: str, path: Callable[[], str]) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        if rival == "fio":
            return _fio_sequential(settings.server_cpu)
        return _program(rival, work, 1, [path()], settings)

    name, unit = {
        "sequential": ("a GiB from the disk, a MiB at a time", "time per MiB"),
        "lines": ("the lines of a GiB of text", "time per line"),
        "copy": ("copying 256 MiB", "time per MiB"),
    }[work]
    rivals = ("fio", *READERS) if work == "sequential" else READERS
    return _case(options, name, "ns_per_op", unit, rivals, measure)


def cases(options: Options) -> list[Case]:
    if options.quick:
        return [_cached_case(options, 4096)]
    sizes = options.sizes or (4096, 102_400)
    return [
        *(_experiment_case(options, count) for count in FILE_COUNTS),
        *(_cached_case(options, size) for size in sizes),
        _at_once_case(options),
        _block_case(options, "cold"),
        _block_case(options, "direct"),
        _long_case(options, "sequential", long_file),
        _long_case(options, "lines", text_file),
        _long_case(options, "copy", big_file),
    ]
