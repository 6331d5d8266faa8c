"""files: linux_aio's experiment with its columns; cached small files; cold and O_DIRECT block reads.

fio is the floor of the block reads, which also tell how late the loop's timers become meanwhile. Works in
a folder of bench/results, for /tmp may be memory.
"""

from __future__ import annotations

import functools
import importlib
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
BIG_FILE_BYTES = 256 << 20
FILE_COUNTS = (1, 6, 12, 24)
#: Why a rival is not in the direct case.
NO_DIRECT = {
    "aiofiles": "aiofiles cannot open with O_DIRECT",
    "aiofile": "aiofile has no aligned buffers for O_DIRECT",
}
MISSING = "suite subject does not exist yet: oneloop.files"


def _made(path: Path, size: int) -> Path:
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
    return [str(_made(FOLDER / f"small-{n}", size)) for n, size in enumerate(order)]


def cached_files(size: int) -> list[str]:
    """Sixteen files of one size."""
    return [str(_made(FOLDER / f"cached-{size}-{n}", size)) for n in range(16)]


def big_file() -> str:
    """The file of which blocks are read."""
    return str(_made(FOLDER / "big", BIG_FILE_BYTES))


def subject_exists() -> bool:
    """Whether oneloop offers files."""
    if not has_module("oneloop"):
        return False
    try:
        return hasattr(importlib.import_module("oneloop.files"), "read_file")
    except ImportError:
        return False


def _program(rival: str, work: str, rounds: int, paths: list[str], settings: Settings) -> Sample:
    if rival == SUBJECT and not subject_exists():
        raise RivalMissingError(MISSING)
    if work == "direct" and rival in NO_DIRECT:
        raise RivalMissingError(NO_DIRECT[rival])
    if rival in ("aiofiles", "aiofile", "libaio") and not has_module(rival):
        raise RivalMissingError(f"{rival} is not installed")
    args = ["--rival", rival, "--work", work, "--rounds", str(rounds), *paths]
    return measure_program(python_module("files_program", *args), settings)


def _floor_cached(rounds: int, paths: list[str], settings: Settings) -> Sample:
    times = max(1, rounds // len(paths))
    return measure_program([native("floor"), "files", "--rounds", str(times), *paths], settings)


def _fio(direct: bool, reads: int, cpu: int | None) -> Sample:
    if not shutil.which("fio"):
        raise RivalMissingError("fio is not installed")
    with tempfile.TemporaryDirectory() as folder:
        argv = [
            native("leash"), "-" if cpu is None else str(cpu),
            "fio", "--name=bench", f"--filename={big_file()}", "--rw=randread", "--bs=4k",
            "--iodepth=16", "--ioengine=io_uring", f"--direct={int(direct)}", "--invalidate=1",
            f"--io_size={reads * 4096}", "--randseed=1", "--norandommap", "--readonly", "--thread",
            "--fadvise_hint=random", "--output-format=json", f"--aux-path={folder}",
        ]  # fmt: skip
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True, cwd=folder)
        except subprocess.SubprocessError as error:
            raise RivalFailedError(f"fio: {error}") from error
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    per_read = job["read"]["runtime"] * 1e6 / job["read"]["total_ios"]
    cpu = (job["usr_cpu"] + job["sys_cpu"]) / 100 * per_read
    latency = job["read"]["clat_ns"]["percentile"]
    return Sample(
        {
            "ns_per_op": per_read,
            "cpu_ns_per_op": cpu,
            "p50_ns": latency["50.000000"],
            "p99_ns": latency["99.000000"],
        }
    )


def _case(
    options: Options, name: str, metric: str, unit: str, rivals: tuple[str, ...],
    measure: Callable[[str, Settings], Sample], remark: str = "",
) -> Case:  # fmt: skip
    notes = [remark] if remark else []
    if not subject_exists():
        notes.append(MISSING + "; rivals alone")
    return Case(
        suite="files", name=name, params={}, metric=metric, unit=unit,
        rivals=options.pick_rivals(rivals), measure=measure, remark="; ".join(notes), baseline="open",
    )  # fmt: skip


def _experiment_case(options: Options, count: int) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        rounds = settings.scaled(EXPERIMENT_ROUNDS)
        return _program(rival, "experiment", rounds, experiment_files()[:count], settings)

    remark = "every 1 ms, 1000 times, read all files"
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
            return _fio(work == "direct", reads, settings.server_cpu)
        return _program(rival, work, reads, [big_file()], settings)

    name = {"cold": "cold 4 KiB reads, 16 in flight", "direct": "O_DIRECT 4 KiB reads, 16 in flight"}
    remark = "lag: how late a 1 ms timer was meanwhile; fio is the floor"
    return _case(options, name[work], "ns_per_op", "time per read", ("fio", *READERS), measure, remark)


def cases(options: Options) -> list[Case]:
    if options.quick:
        return [_cached_case(options, 4096)]
    sizes = options.sizes or (4096, 102_400)
    return [
        *(_experiment_case(options, count) for count in FILE_COUNTS),
        *(_cached_case(options, size) for size in sizes),
        _block_case(options, "cold"),
        _block_case(options, "direct"),
    ]
