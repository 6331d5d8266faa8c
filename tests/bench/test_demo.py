"""`python -m bench --demo`: its tables and its page, with figures that are given."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from bench import demo, http_servers
from bench.install import ROOT, requirement_lines
from bench.model import Case, Result, RivalMissingError, Row, Sample, Settings
from bench.story import STORY


@pytest.mark.parametrize(("failed", "interrupted", "status"), [(False, False, 0), (True, False, 1), (False, True, 130)])
def test_tables_and_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed: bool, interrupted: bool, status: int
) -> None:
    metrics = {
        "server_cpu_ns": 1000.0,
        "throughput": 5e4,
        "p50_ns": 3000.0,
        "p99_ns": 9000.0,
        "wall_ns": 4e7,
        "ns_per_op": 5.0,
    }

    def run_cases(cases: list[Case], settings: object, observe: object, finished: object) -> object:
        results = [
            Result(
                case, [Row(rival, samples=[Sample(dict(metrics, cpu_ns_per_op=7.0))] * 3) for rival in case.rivals], 3
            )
            for case in cases
        ]
        if failed:
            results[0].rows[0] = Row("uvicorn on uvloop", "failed", "died: signal SIGSEGV", [None])
        for result in results:
            assert callable(finished)
            finished(result)
        return results, interrupted

    monkeypatch.setattr(demo, "run_cases", run_cases)
    out = io.StringIO()
    page = tmp_path / "new" / "demo.html"
    assert demo.main(Console(file=out, width=200), "python -m bench --demo", page) == status
    said = out.getvalue()
    for chapter in STORY:
        assert chapter.title in said
    assert f"Charts: {page}" in said
    assert ("failed: died: signal SIGSEGV" in said) is failed
    text = page.read_text()
    assert text.count("<svg") >= len(demo.cases())
    assert "Flask hello" in text


def test_what_the_servers_of_the_rows_need_is_installed_for_them() -> None:
    """So that no row of a fresh checkout is missing."""
    listed = {line.partition("==")[0].lower() for line in requirement_lines(ROOT / "requirements" / "demo.txt")}
    for chapter in STORY:
        program, _, loop = chapter.theirs.partition(" on ")
        launcher = http_servers.ON_LOOPS.get(program) or http_servers.OTHERS.get(program)
        if chapter.suite == "http" and launcher is not None:
            form = "http" if loop else "flask"
            assert set(launcher.modules(form)) <= listed, chapter.title


def test_a_package_that_is_missing_has_a_row_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "has_module", lambda name: name != "uvicorn")
    [case] = [case for case in demo.cases() if "requests of a browser" in case.name]
    with pytest.raises(RivalMissingError, match=r"^uvicorn is not installed$"):
        case.measure("uvicorn on uvloop", Settings())
    out = io.StringIO()
    rows = [Row("uvicorn on uvloop", "missing", "uvicorn is not installed"), Row("oneloop", samples=[Sample({})])]
    demo.show(Console(file=out, width=200), [Result(case, rows, 1)])
    assert "missing: uvicorn is not installed" in out.getvalue()
    assert out.getvalue().count("not measured") == len(STORY) - 1


def test_the_packages_of_the_rivals_are_installed_by_make_run() -> None:
    listed = {line.partition("==")[0].lower() for line in requirement_lines(ROOT / "requirements/demo.txt")}
    assert {name for names in demo.NEEDS.values() for name in names} <= listed
    assert {chapter.theirs for chapter in STORY} <= set(demo.NEEDS)
