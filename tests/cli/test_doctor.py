"""`oneloop doctor`: what it says about machines that lack something, and its exit status."""

from __future__ import annotations

import inspect
import json
import os
import re
import resource
import shlex
import sys
from pathlib import Path

import pytest

from oneloop import cgroup, stats_socket
from oneloop.cli import companions, docs, doctor, machine
from oneloop.cli.machine import Finding
from tests.cli.command import run
from tests.docs.examples import ROOT

DOCTOR = (sys.executable, "-m", "oneloop", "doctor")

FILTERED = """
import sys
from tests.seccomp import forbid
try:
    forbid("io_uring_setup", "io_uring_enter", "io_uring_register")
except OSError as error:
    print("no seccomp:", error)
    raise SystemExit
from oneloop.cli import doctor
doctor.main(["--json"])
"""


def named(name: str, found: list[Finding] | None = None) -> Finding:
    return next(one for one in found or list(machine.findings()) if one.name == name)


def test_the_report_has_a_line_for_each_finding(tmp_path: Path) -> None:
    done = run(*DOCTOR, cwd=tmp_path)
    assert done.stderr == ""
    assert done.returncode == (1 if "problem" in done.stdout else 0)
    for name in ("CPython", "file engine", "open files", "CPUs", "OpenSSL", "folder"):
        assert re.search(rf"^  (ok|advice|problem) +{name}  ", done.stdout, re.MULTILINE), name


def test_json_has_the_same_findings(tmp_path: Path) -> None:
    done = run(*DOCTOR, "--json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert document["format"] == doctor.FORMAT
    assert document["ok"] is (done.returncode == 0)
    assert set(document["findings"][0]) == {"section", "name", "value", "status", "advice"}
    assert [one["name"] for one in document["findings"]] == [one.name for one in doctor.findings()]


@pytest.mark.parametrize("status", ["ok", "advice", "problem"])
def test_only_a_problem_is_status_1(
    status: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "findings", lambda: [Finding("a", "b", "c", status, "do it")])
    with pytest.raises(SystemExit) as ended:
        doctor.main([])
    assert ended.value.code == (1 if status == "problem" else 0)
    said = capsys.readouterr().out
    assert said.startswith(f"a\n  {status:7}  b  c\n           do it\n")
    assert ("Everything works" in said) is (status != "problem")


def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    done = run("/bin/sh", "-c", f"{shlex.quote(sys.executable)} -m oneloop doctor > /dev/full", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "oneloop doctor: [Errno 28] No space left on device\n")


def test_a_seccomp_filter_is_named(tmp_path: Path) -> None:
    done = run(sys.executable, "-c", FILTERED, cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "ONELOOP_FILES": ""})
    if done.stdout.startswith("no seccomp"):
        pytest.skip(done.stdout.strip())
    engine = next(one for one in json.loads(done.stdout)["findings"] if one["name"] == "file engine")
    assert engine["status"] == "advice"
    if machine._read(machine.PROC / "sys/kernel/io_uring_disabled") in ("", "0"):
        assert engine["advice"].startswith("A seccomp filter forbids io_uring")


@pytest.mark.parametrize(
    ("disabled", "status", "release", "reason", "expected"),
    [
        ("2", "", "6.1.0-amd64", "Operation not permitted", "io_uring_disabled is 2"),
        ("1", "", "6.1.0", "Operation not permitted", r"members of the group kernel.io_uring_group \(77\)"),
        ("0", "Name:\tx\nSeccomp:\t2\n", "6.1.0", "Operation not permitted", "A seccomp filter"),
        ("0", "Name:\tx\nSeccomp:\t0\n", "5.4.0-generic", "Function not implemented", "older than 5.12"),
        ("0", "Name:\tx\nSeccomp:\t0\n", "6.1.0", "Function not implemented", "CONFIG_IO_URING"),
        ("0", "", "6.1.0", "Permission denied", "A security module"),
    ],
)
def test_who_forbids_io_uring(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    disabled: str,
    status: str,
    release: str,
    reason: str,
    expected: str,
) -> None:
    files = {"sys/kernel/io_uring_disabled": disabled, "sys/kernel/io_uring_group": "77", "self/status": status}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(machine, "PROC", tmp_path)
    monkeypatch.setattr("platform.release", lambda: release)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert re.search(expected, machine._who_forbids(reason))
    assert machine._kernel().status == ("advice" if release.startswith("5.4") else "ok")


def test_an_engine_that_the_environment_names_wrongly_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONELOOP_FILES", "wrong")
    found = named("file engine")
    assert (found.status, found.value[:5]) == ("problem", "none:")
    monkeypatch.setenv("ONELOOP_FILES", "threads")
    assert named("file engine").value == "threads, because ONELOOP_FILES names it"


def test_limits_that_are_low(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sys/net/core").mkdir(parents=True)
    (tmp_path / "sys/net/core/somaxconn").write_text("128\n")
    monkeypatch.setattr(machine, "PROC", tmp_path)
    monkeypatch.setattr(resource, "getrlimit", lambda name: (1024, resource.RLIM_INFINITY))
    monkeypatch.setattr(cgroup, "cpu_limit", lambda: 0.5)
    monkeypatch.setattr(cgroup, "memory_limit", lambda: 100 << 20)
    found = list(machine._limits())
    assert (named("open files", found).value, named("open files", found).status) == ("1024, up to no limit", "advice")
    assert (named("somaxconn", found).value, named("somaxconn", found).status) == ("128", "advice")
    assert "allows the time of 0.5" in named("CPUs", found).value
    assert "--workers auto starts 1." in named("CPUs", found).advice
    assert "--limit-memory 80m" in named("memory", found).advice


def test_the_folder_of_stats_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = Path(stats_socket.folder())
    assert machine._stats_sockets() == ("stats sockets", "folder", f"{folder}, which does not exist yet", "ok", "")
    folder.mkdir(mode=0o700)
    assert machine._stats_sockets().status == "ok"
    folder.chmod(0o755)
    assert machine._stats_sockets().status == "problem"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "missing"))
    assert machine._stats_sockets().status == "problem"
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "file"))
    assert "Not a directory" in machine._stats_sockets().advice


def test_authorities_that_are_missing_are_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ssl", reason="Python was built without the module ssl")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert named("authorities").status == "problem"
    (tmp_path / "a.pem").touch()
    assert named("authorities").value == str(tmp_path)


def test_versions_of_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"greenlet": "3.4.9", "uvicorn": "0.54.0"}
    monkeypatch.setattr(companions, "_version", versions.get)
    found = list(companions.findings())
    assert [(one.name, one.status) for one in found] == [("greenlet", "problem"), ("pycares", "ok"), ("uvicorn", "ok")]
    assert "it needs 3.5.4. pip install 'oneloop[green]'" in found[0].advice
    assert found[1].value == "not installed"


def test_versions_are_those_of_the_extras() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name, (oldest, _, extra) in companions.PARTS.items():
        assert f'\n{extra} = ["{name}>={oldest}"]\n' in text


def test_pages_that_are_named_exist() -> None:
    text = "".join(inspect.getsource(module) for module in (machine, companions, doctor))
    named_pages = set(re.findall(r"oneloop docs ([\w/-]+)", text))
    assert named_pages
    for page in named_pages:
        assert docs.find(page, list(docs.pages())), page
