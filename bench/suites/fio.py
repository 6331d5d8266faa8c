"""fio with io_uring, the floor of reads from the disk.

Its CPU time is that of the whole process with the kernel threads that work for it (io-wq belongs to the process, man 7
io_uring), less that of a run that reads one block. fio's own report has the time of the thread that submits, and not
that of the threads that read.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import tempfile

from bench.model import RivalFailedError, RivalMissingError, Sample
from bench.process import native

BLOCK = 4096
PATIENCE_S = 120
#: More reads than the other programs do, so that fio's start, which is subtracted, is small beside them.
TIMES = 16


def _run(path: str, access: tuple[str, ...], size: int, cpu: int | None) -> tuple[dict[str, float], float]:
    """A run of fio: the wall time and the latencies that it reports, and the CPU time of the process."""
    if not shutil.which("fio"):
        raise RivalMissingError("fio is not installed")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        argv = [
            native("leash"), "-" if cpu is None else str(cpu),
            "timeout", str(PATIENCE_S), "fio", "--name=bench", f"--filename={path}", "--ioengine=io_uring",
            "--invalidate=1", f"--io_size={size}", "--randseed=1", "--norandommap", "--readonly", "--thread",
            *access, "--output-format=json", f"--aux-path={folder}",
        ]  # fmt: skip
        process = subprocess.Popen(argv, stdout=output, stderr=subprocess.DEVNULL, cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RivalFailedError(f"fio: exit status {process.returncode}")
        output.seek(0)
        text = output.read().decode()
    job = json.loads(text[text.index("{") :])["jobs"][0]["read"]
    latency = job["clat_ns"]["percentile"]
    found = {"wall_ns": job["runtime"] * 1e6, "p50_ns": latency["50.000000"], "p99_ns": latency["99.000000"]}
    return found, (usage.ru_utime + usage.ru_stime) * 1e9


@functools.cache
def _start_cpu_ns(path: str, access: tuple[str, ...], cpu: int | None) -> float:
    """The CPU time of a run that reads one block: the lowest of three."""
    return min(_run(path, access, BLOCK, cpu)[1] for _ in range(3))


def blocks(path: str, direct: bool, in_flight: int, reads: int, cpu: int | None) -> Sample:
    """Random reads of 4 KiB; the figures are for one read."""
    access = ("--rw=randread", "--bs=4k", f"--iodepth={in_flight}", f"--direct={int(direct)}", "--fadvise_hint=random")
    reads *= TIMES
    found, cpu_ns = _run(path, access, reads * BLOCK, cpu)
    own_ns = max(0.0, cpu_ns - _start_cpu_ns(path, access, cpu))
    per_read = {"ns_per_op": found["wall_ns"] / reads, "cpu_ns_per_op": own_ns / reads}
    return Sample(per_read | {"p50_ns": found["p50_ns"], "p99_ns": found["p99_ns"]})


def sequential(path: str, size: int, cpu: int | None) -> Sample:
    """A file from its start to its end, a MiB at a time; the figures are for one MiB."""
    access = ("--rw=read", "--bs=1M", "--iodepth=1")
    found, cpu_ns = _run(path, access, size, cpu)
    own_ns = max(0.0, cpu_ns - _start_cpu_ns(path, access, cpu))
    mib = size / (1 << 20)
    return Sample({"ns_per_op": found["wall_ns"] / mib, "cpu_ns_per_op": own_ns / mib})
