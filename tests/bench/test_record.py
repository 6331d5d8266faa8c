"""The run of record: what is kept, when a part is current, what an interrupted run leaves."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from bench.model import Case, Result, Row, Sample, Settings
from bench.process import ROOT
from bench.record import __main__ as command
from bench.record import plan, quiet, source, store, suite_run
from bench.record.store import Part, Record
from bench.runner import measured_twice, row_names
from bench.suites import SUITES


def sample(cpu_ns: float, notes: tuple[str, ...] = ()) -> Sample:
    return Sample({"server_cpu_ns": cpu_ns, "p99_ns": cpu_ns * 9, "vss_bytes": 1e9}, notes=list(notes))


def make_case(name: str = "1 KiB", rivals: tuple[str, ...] = ("floor", "uvloop", "oneloop")) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        return sample({"floor": 1000.0, "uvloop": 5000.0}.get(rival, 4567.891))

    return Case("tcp", name, {"size": 1024}, "server_cpu_ns", "CPU per message", rivals, measure, also=("p99_ns",))


def make_result(case: Case) -> Result:
    rows = [
        Row("floor", samples=[sample(1000), sample(1001)]),
        Row("uvloop", samples=[sample(5000), sample(5100)]),
        Row("uvloop (again)", samples=[sample(5050), sample(5050)]),
        Row("rloop", samples=[sample(4000, ("keeps everything",)), sample(6000)]),
        Row("curio", "missing", "curio is not installed", [None]),
        Row("oneloop", samples=[sample(4567.891), sample(4500)]),
    ]
    return Result(case, rows, 2)


def make_part(*cases: Case, commit: str = "abcdef123456") -> Part:
    return Part(
        commit=commit,
        dirty=[],
        date="2026-12-01T10:00:00+00:00",
        took_s=120,
        trial=False,
        machine={"cpu": "some CPU", "cpus": 2, "kernel": "Linux 6", "governor": "none", "load_average": "0.05"},
        versions={"python": "3.13.0", "uvloop": "0.23"},
        settings={"rounds": 5, "duration_s": 0.5},
        sources=source.digests(plan_root(), plan.folders("tcp")),
        cases=[store.case_part(make_result(case)) for case in cases],
    )


def plan_root() -> Path:
    return ROOT


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = Record(schema=store.SCHEMA, suites={"tcp": make_part(make_case(), make_case("10 KiB"))})
    store.save(record, tmp_path / "record.json")
    assert store.load(tmp_path / "record.json") == record
    lines = (tmp_path / "record.json").read_text(encoding="utf-8").splitlines()
    assert sum('"rival":"oneloop"' in line for line in lines) == 2, "a line for each row"
    assert store.load(tmp_path / "none.json") is None
    (tmp_path / "other.json").write_text('{"schema": "other"}')
    with pytest.raises(ValueError, match="is not a record"):
        store.load(tmp_path / "other.json")


def test_rounds_and_notes_are_kept_and_figures_that_nobody_shows_are_not() -> None:
    part = store.case_part(make_result(make_case()))
    rows = {row["rival"]: row for row in part["rows"]}
    assert rows["oneloop"]["rounds"] == {"server_cpu_ns": [4568, 4500], "p99_ns": [41110, 40500]}
    assert rows["rloop"]["notes"] == ["keeps everything"]
    assert rows["curio"]["reason"] == "curio is not installed"
    case = store.read_case("tcp", part)
    read = {row["rival"]: row for row in case["rows"]}
    assert read["oneloop"]["ratio"]["median"] == pytest.approx((4568 / 5000 + 4500 / 5100) / 2)
    assert case["also"] == ["p99_ns"]


def test_every_suite_of_the_record_exists_and_measures_code_that_exists() -> None:
    assert set(plan.RECORDED) == set(SUITES) - {"check"}
    empty = source.digest(plan_root(), "no/such/folder")
    for suite in plan.RECORDED:
        assert plan.SECONDS[suite] > 0
        found = source.digests(plan_root(), plan.folders(suite))
        assert empty not in found.values(), [name for name, digest in found.items() if digest == empty]


NOT_MEASURED = {
    "crates/engine/src/models": "the models of threads are tests",
    "crates/http1/examples": "not in the extension",
    "crates/native/build.rs": "the linker's options for tests",
    "crates/native/src/aio": "linux_aio's facade has no row",
    "python/oneloop/__init__.py": "names",
    "python/oneloop/__main__.py": "the command's start",
    "python/oneloop/_native.pyi": "types",
    "python/oneloop/aio.py": "linux_aio's facade has no row",
    "python/oneloop/cgroup.py": "read once, when a server starts",
    "python/oneloop/cli": "commands that no row measures; those that one measures are named",
    "python/oneloop/compat": "facades that no row measures; those that one measures are named",
    "python/oneloop/deprecation.py": "warnings",
    "python/oneloop/gunicorn.py": "no row has gunicorn with oneloop's worker",
    "python/oneloop/pytest_plugin.py": "for tests",
    "python/oneloop/snapshot.py": "what `oneloop top` shows",
    "python/oneloop/stats_socket.py": "what `oneloop top` shows",
    "python/oneloop/testing.py": "for tests",
}
"""Files and folders on which no figure depends, with the reason."""


def test_each_file_of_the_code_is_measured_or_named() -> None:
    """So that a new folder's figures do not grow old unseen, as those of the timers once did."""
    root = plan_root()
    named = {path for name in NOT_MEASURED for path in ((root / name), *source.files(root, name))}
    measured = {path for suite in plan.RECORDED for name in plan.folders(suite) for path in source.files(root, name)}
    code = {path for folder in ("crates", "python/oneloop") for path in source.files(root, folder)}
    code = {path for path in code if path.suffix in (".rs", ".py", ".pyi")}
    assert sorted(path.relative_to(root).as_posix() for path in code - measured - named) == []
    useless = [name for name in NOT_MEASURED if not {root / name, *source.files(root, name)} & (code - measured)]
    assert useless == []


def test_a_rival_of_every_case_is_measured_twice() -> None:
    for suite in plan.RECORDED:
        for case in plan.cases(suite):
            again = measured_twice(case, plan.SETTINGS.again)
            assert again in case.rivals, case.name
            assert row_names(case, plan.SETTINGS) == [*case.rivals, f"{again} (again)"]


def test_the_names_of_a_suites_cases_differ() -> None:
    for suite in plan.RECORDED:
        names = [case.name for case in plan.cases(suite)]
        assert len(names) == len(set(names)), suite


def test_digests_change_with_code_and_not_with_tests(tmp_path: Path) -> None:
    (tmp_path / "src" / "tests").mkdir(parents=True)
    (tmp_path / "src" / "a.rs").write_text("fn a() {}")
    before = source.digest(tmp_path, "src")
    (tmp_path / "src" / "tests.rs").write_text("fn t() {}")
    (tmp_path / "src" / "tests" / "b.rs").write_text("fn t() {}")
    (tmp_path / "src" / "a.txt").write_text("text")
    assert source.digest(tmp_path, "src") == before
    (tmp_path / "src" / "a.rs").write_text("fn a() { }")
    assert source.digest(tmp_path, "src") != before
    assert source.digest(tmp_path, "src/*.rs") == source.digest(tmp_path, "src")


def test_uncommitted_changes_are_found(tmp_path: Path) -> None:
    def git(*args: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *args], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--quiet")
    (tmp_path / "README.md").write_text("a")
    git("add", "README.md")
    git("commit", "--quiet", "-m", "one")
    assert source.changed(tmp_path) == []
    assert len(source.commit(tmp_path)) == 12
    (tmp_path / "README.md").write_text("b")
    (tmp_path / "new.py").write_text("b")
    assert source.changed(tmp_path) == ["new.py"]
    (tmp_path / "none").mkdir()
    with pytest.raises(source.GitError):
        source.commit(Path("/proc/self"))


@pytest.fixture
def one_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The suite tcp has two cases that need no server; nothing is uncommitted."""
    cases = [make_case(), make_case("10 KiB")]
    monkeypatch.setattr(plan, "cases", lambda suite: cases if suite == "tcp" else [])
    monkeypatch.setattr(suite_run, "UNFINISHED", tmp_path / "unfinished")
    monkeypatch.setattr(quiet, "wait", lambda say: 0.02)
    monkeypatch.setattr(source, "changed", lambda root: [])
    monkeypatch.setattr(source, "commit", lambda root: "abcdef123456")
    monkeypatch.setattr(command, "native", lambda name: name)
    return tmp_path


def test_an_interrupted_suite_goes_on_with_its_next_case(one_suite: Path) -> None:
    settings = replace(plan.TRIAL_SETTINGS, rounds=2)
    said: list[str] = []

    def interrupt(line: str) -> None:
        said.append(line)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        suite_run.run_suite("tcp", settings, interrupt)
    assert len(said) == 1
    part = suite_run.run_suite("tcp", settings, said.append)
    assert len(said) == 2
    assert "1 KiB" in said[0]
    assert "10 KiB" in said[1]
    assert [case["name"] for case in part["cases"]] == ["1 KiB", "10 KiB"]
    assert not list((one_suite / "unfinished").iterdir())
    # With other settings the finished cases of an interrupted run are not used.
    with pytest.raises(KeyboardInterrupt):
        suite_run.run_suite("tcp", settings, interrupt)
    suite_run.run_suite("tcp", replace(settings, rounds=1), said.append)
    assert len(said) == 5


@pytest.mark.parametrize(
    ("factors", "kept", "runs"),
    [([1.1], 1, 1), ([1.5, 1.1], 2, 2), ([1.5, 2.0], 1, 2)],
    ids=["quiet", "quieter", "noisier"],
)
def test_a_noisy_case_is_measured_again_and_the_quieter_run_kept(factors: list[float], kept: int, runs: int) -> None:
    """In the second round of a run, uvloop differs from itself by a factor. oneloop costs the number of the run."""
    uvloop = iter([cost for factor in factors for cost in (1, 1, 1, factor)])
    oneloop = iter([1, 1, 2, 2])

    def one(rival: str, settings: Settings) -> Sample:
        return sample(next(oneloop if rival == "oneloop" else uvloop))

    case = replace(make_case(rivals=("uvloop", "oneloop")), measure=one)
    result, other_noise = suite_run.measure(case, replace(plan.TRIAL_SETTINGS, rounds=2))
    assert list(uvloop) == []
    assert (other_noise is None) == (runs == 1)
    assert other_noise is None or suite_run.noise(result) < other_noise
    # All figures of the kept run, and not the better ones of both.
    ours = {row.rival: row for row in result.rows}["oneloop"].samples
    assert [found.metrics["server_cpu_ns"] for found in ours if found] == [kept, kept]


def test_a_suite_waits_for_a_quiet_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ticks of 100 a second: 60, 10 and 3 % of the CPUs in use, of which a part is taken by the host (steal)."""
    stat = tmp_path / "stat"
    busy, idle = [40, 5, 2], [50, 45, 57]
    at = [0, 0]

    def passes(seconds: float) -> None:
        used, rest = (busy.pop(0), idle.pop(0)) if busy else (0, 100)
        at[0] += used
        at[1] += rest
        write()

    def write() -> None:
        stat.write_text(f"cpu  {at[0]} 0 0 {at[1]} {at[1]} 0 0 {at[0]} 999999 0\ncpu0 1 2 3\n", encoding="ascii")

    write()
    monkeypatch.setattr(quiet, "STAT", stat)
    monkeypatch.setattr("bench.record.quiet.time.sleep", passes)
    said: list[str] = []
    assert quiet.wait(said.append) == pytest.approx(2 / 59)
    assert len(said) == 1
    assert "44%" in said[0]
    busy, idle = [50, 50], [50, 50]
    assert quiet.wait(said.append, longest_s=0) == pytest.approx(0.5), "it does not wait for ever"
    assert quiet.wait(said.append, longest_s=0) == pytest.approx(0.5)


def test_a_named_suite_replaces_its_part(one_suite: Path) -> None:
    file = one_suite / "record.json"
    record = Record(schema=store.SCHEMA, suites={"tcp": make_part(make_case(), commit="old"), "udp": make_part()})
    store.save(record, file)
    assert command.main(["--suites", "tcp", "--trial", "--file", str(file)]) == 0
    found = store.load(file)
    assert found is not None
    assert list(found["suites"]) == ["tcp", "udp"]
    assert found["suites"]["tcp"]["commit"] == "abcdef123456"
    assert found["suites"]["tcp"]["trial"]
    assert found["suites"]["udp"] == record["suites"]["udp"]


def test_what_is_current_is_not_measured_again(one_suite: Path) -> None:
    settings = plan.SETTINGS
    part = suite_run.run_suite("tcp", settings, lambda line: None)
    record = Record(schema=store.SCHEMA, suites={"tcp": json.loads(json.dumps(part))})
    assert command.is_current(record, "tcp", settings)
    assert not command.is_current(record, "udp", settings)
    assert not command.is_current(record, "tcp", replace(settings, rounds=6))
    record["suites"]["tcp"]["sources"] = {}
    assert not command.is_current(record, "tcp", settings)


def test_it_refuses_uncommitted_changes_and_trials_in_the_tree(
    one_suite: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--suites", "tcp", "--trial"]) == 2
    monkeypatch.setattr(source, "changed", lambda root: ["crates/a.rs"])
    file = ["--file", str(one_suite / "record.json")]
    assert command.main(["--suites", "tcp", *file]) == 2
    assert "crates/a.rs" in capsys.readouterr().err
    assert command.main(["--suites", "tcp", "--dirty", *file]) == 0
    found = store.load(one_suite / "record.json")
    assert found is not None
    assert found["suites"]["tcp"]["dirty"] == ["crates/a.rs"]


def test_it_refuses_few_rounds_short_windows_and_unknown_suites() -> None:
    for args in (["--rounds", "4"], ["--duration", "0.4"], ["--suites", "nothing"]):
        with pytest.raises(SystemExit):
            command.main(args)


def test_the_plan_says_how_long_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--plan", "--fresh"]) == 0
    text = capsys.readouterr().out
    for suite in plan.RECORDED:
        assert f"{suite} " in text
    assert "minutes in all" in text
