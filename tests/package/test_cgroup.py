"""CPU and memory limits of control groups, read from made-up trees of both versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oneloop import cgroup
from oneloop.cli import serve
from oneloop.http.options import Options

TREES = {
    "version 2": ("0::/a/b\n", {"a/b/cpu.max": "150000 100000", "a/b/memory.max": "1048576"}, 1.5, 1 << 20),
    "a parent's limit": ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000"}, 0.5, None),
    "the lowest limit": ("0::/a\n", {"a/cpu.max": "300000 100000", "cpu.max": "200000 100000"}, 2.0, None),
    "a namespace": ("0::/\n", {"cpu.max": "400000 100000", "memory.max": "max"}, 4.0, None),
    "outside of the namespace": ("0::/../x\n", {"cpu.max": "100000 100000"}, 1.0, None),
    "version 1": (
        "5:memory:/m\n4:cpu,cpuacct:/c\n0::/\n",
        {
            "cpu/c/cpu.cfs_quota_us": "250000",
            "cpu/c/cpu.cfs_period_us": "100000",
            "memory/m/memory.limit_in_bytes": "4096",
            "unified/x": "",
        },
        2.5,
        4096,
    ),
    "version 1 without limits": (
        "5:memory:/\n4:cpu:/\n",
        {
            "cpu/cpu.cfs_quota_us": "-1",
            "cpu/cpu.cfs_period_us": "100000",
            "memory/memory.limit_in_bytes": "9223372036854771712",
        },
        None,
        None,
    ),
    "no groups": ("", {}, None, None),
    "nonsense": ("0::/\nx\n", {"cpu.max": "1 0", "memory.max": "\u00b2"}, None, None),
}


def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, membership: str, files: dict[str, str]) -> None:
    (tmp_path / "membership").write_text(membership)
    (tmp_path / "mounts").mkdir()
    for name, text in files.items():
        path = tmp_path / "mounts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    monkeypatch.setattr(cgroup, "MOUNTS", tmp_path / "mounts")
    monkeypatch.setattr(cgroup, "MEMBERSHIP", tmp_path / "membership")


@pytest.mark.parametrize("name", TREES)
def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    membership, files, cpus, memory = TREES[name]
    tree(tmp_path, monkeypatch, membership, files)
    assert (cgroup.cpu_limit(), cgroup.memory_limit()) == (cpus, memory)


@pytest.mark.parametrize(("quota", "count"), [(10_000, 1), (100_000, 1), (150_000, 2), (900_000, 4)])
def test_workers_are_as_many_as_can_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: int, count: int
) -> None:
    tree(tmp_path, monkeypatch, "0::/\n", {"cpu.max": f"{quota} 100000"})
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(4)))
    monkeypatch.setenv("WEB_CONCURRENCY", "auto")
    assert cgroup.usable_cpus() == count
    assert Options().worker_count == count
    assert serve.parser().parse_args(["--workers", "auto"]).workers == count


def test_without_a_limit_the_affinity_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, monkeypatch, "", {})
    assert cgroup.usable_cpus() == len(os.sched_getaffinity(0))


def test_a_number_of_workers_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        serve.parser().parse_args(["--workers", "many"])
    assert "argument --workers: 'many' is neither auto nor a number" in capsys.readouterr().err
