"""The command line: names, numbers, a whole small run, Ctrl-C, the loop that is not there."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench import catalogue
from bench.catalogue import Serve, server_argv
from bench.model import RivalMissingError
from bench.process import ROOT
from bench.suites import SUITES
from bench.suites.options import ALL_RIVALS, Options
from tests.bench.test_reports import check_schema

needs_rich = pytest.mark.skipif(
    importlib.util.find_spec("rich") is None, reason="rich is not installed: requirements/bench-tools.txt"
)


def bench(*args: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "bench", *args]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)


@needs_rich
@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--suite", "tpc"], ["unknown suite: tpc", "tcp, unix, udp"]),
        (["--only", "uvlop"], ["unknown rival: uvlop", "uvloop"]),
        (["--sizes", "1x"], ["'1x' is not a number"]),
        (["--rounds", "0"], ["must be positive"]),
        (["--json", "/no/such/folder/run.json"], ["the folder /no/such/folder does not exist"]),
        (["--compare", "/no/such/run.json"], ["--compare", "No such file"]),
    ],
)
def test_what_cannot_be_is_said(args: list[str], words: list[str]) -> None:
    done = bench(*args)
    assert done.returncode != 0
    for word in words:
        assert word in done.stderr


@needs_rich
def test_a_small_run_from_end_to_end(tmp_path: Path) -> None:
    json_file, html_file = tmp_path / "run.json", tmp_path / "run.html"
    args = ["--suite", "tcp,primitives", "--only", "floor,asyncio", "--quick", "--rounds", "1"]
    done = bench(*args, "--json", str(json_file), "--html", str(html_file))
    assert done.returncode == 0, done.stderr
    doc = json.loads(json_file.read_text())
    check_schema(doc)
    assert " ".join(["-m", "bench", *args]) in doc["command"]
    assert [row["status"] for case in doc["cases"] for row in case["rows"]] == ["ok"] * 4
    assert "<svg" in html_file.read_text()
    again = bench(*args, "--compare", str(json_file))
    assert "compared with" in again.stdout


@needs_rich
def test_ctrl_c_prints_and_saves_what_is_finished_and_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    argv = [sys.executable, "-m", "bench", "--suite", "tcp", "--only", "floor,asyncio", "--sizes", "64"]
    argv += ["--connections", "1,2", "--duration", "0.1", "--rounds", "1000", "--json", str(file)]
    with subprocess.Popen(
        argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        tree = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_for_generators(tree, 6)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert b"floor" in out
    doc = json.loads(file.read_text())
    assert doc["interrupted"] is True
    assert doc["cases"][0]["rows"][0]["summary"]["server_cpu_ns"]["count"] >= 1
    assert running(f"{ROOT}/bench/native/target/release/", process.pid) == []


def wait_for_generators(children: Path, wanted: int) -> None:
    """Returns when so many different children have been seen: something is finished by then."""
    seen: set[str] = set()
    deadline = time.monotonic() + 60
    while len(seen) < wanted:
        assert time.monotonic() < deadline, "the bench did not start its programs"
        seen.update(children.read_text().split())


def running(prefix: str, parent: int) -> list[str]:
    """Command lines under prefix whose parent is the given process."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent_id = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_text()
        except OSError:
            continue
        if parent_id in (parent, os.getpid()) and command.startswith(prefix):
            found.append(command)
    return found


def test_every_suite_has_cases_and_only_known_rivals() -> None:
    for name, make in SUITES.items():
        for options in (Options(), Options(quick=True)):
            cases = make(options)
            assert cases, name
            for case in cases:
                assert case.suite == name
                assert case.rivals
                parts = {part for rival in case.rivals for part in rival.split(" on ")}
                assert parts <= set(ALL_RIVALS)


def test_case_names_are_unique_within_a_suite() -> None:
    for make in SUITES.values():
        names = [case.name for case in make(Options())]
        assert len(names) == len(set(names))


def test_a_second_name_for_uvloop_is_measured_only_when_asked_for() -> None:
    plain = SUITES["tcp"](Options())[0].rivals
    checked = SUITES["tcp"](Options(only=("uvloop", "uvloop-again")))[0].rivals
    assert "uvloop-again" not in plain
    assert checked == ("uvloop", "uvloop-again")


def test_a_rival_that_is_not_installed_is_missing_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "has_module", lambda name: False)
    with pytest.raises(RivalMissingError, match="rloop is not installed"):
        server_argv("rloop", Serve("protocol"))


def test_a_form_that_a_rival_lacks_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "has_module", lambda name: True)
    with pytest.raises(RivalMissingError, match="tornado has no udp form"):
        server_argv("tornado", Serve("udp", family="udp"))
