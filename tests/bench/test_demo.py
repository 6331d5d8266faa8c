"""`python -m bench --demo`: its tables and its page, with figures that are given."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from bench import demo
from bench.model import Case, Result, Row, Sample


@pytest.mark.parametrize(("failed", "interrupted", "status"), [(False, False, 0), (True, False, 1), (False, True, 130)])
def test_tables_and_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed: bool, interrupted: bool, status: int
) -> None:
    metrics = {"server_cpu_ns": 1000.0, "throughput": 5e4, "p50_ns": 3000.0, "p99_ns": 9000.0, "wall_ns": 4e7}

    def run_cases(cases: list[Case], settings: object, observe: object, finished: object) -> object:
        results = [
            Result(
                case, [Row(rival, samples=[Sample(dict(metrics, cpu_ns_per_op=7.0))] * 3) for rival in case.rivals], 3
            )
            for case in cases
        ]
        if failed:
            results[0].rows[1] = Row("uvloop", "failed", "died: signal SIGSEGV", [None])
        for result in results:
            assert callable(finished)
            finished(result)
        return results, interrupted

    monkeypatch.setattr(demo, "run_cases", run_cases)
    out = io.StringIO()
    page = tmp_path / "new" / "demo.html"
    assert demo.main(Console(file=out, width=200), "python -m bench --demo", page) == status
    said = out.getvalue()
    for case in demo.cases():
        assert case.name in said
    assert f"Charts: {page}" in said
    assert ("failed: died: signal SIGSEGV" in said) is failed
    text = page.read_text()
    assert text.count("<svg") >= len(demo.cases())
    assert "aiohttp server and client" in text
