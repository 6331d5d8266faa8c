"""The record of `make test-all`, on steps that take no time."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests import record


def step(name: str, said: str, status: int) -> record.Step:
    return name, [sys.executable, "-c", f"print({said!r}); raise SystemExit({status})"]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(record, "FILE", tmp_path / "record.json")
    fakes = [step("loom", "3 passed, 0 failed", 0), step("red", "1 passed, 2 failed", 1), step("thread", "done", 0)]
    monkeypatch.setattr(record, "steps", lambda: fakes)
    return tmp_path / "record.json"


def test_a_step_that_fails_does_not_stop_the_others(file: Path) -> None:
    assert record.main([]) == 1
    entries = json.loads(file.read_text())
    assert {name: (entry["status"], entry["sums"]) for name, entry in entries.items()} == {
        "loom": (0, "3 passed, 0 failed"),
        "red": (1, "1 passed, 2 failed"),
        "thread": (0, ""),
    }


def test_it_can_be_run_in_parts(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert record.age() == "make test-all: no record yet"
    assert record.main(["loom"]) == 0
    assert "1 of 3 steps passed; not run: red, thread" in record.age()
    assert record.main(["red", "thread"]) == 1
    entries = json.loads(file.read_text())
    entries["loom"] |= {"date": (datetime.now(UTC) - timedelta(days=9, hours=1)).isoformat(), "commit": "0" * 40}
    file.write_text(json.dumps({**entries, "a step that is no more": entries["red"]}))
    assert record.age() == "make test-all: 2 of 3 steps passed; failed: red; the oldest at 000000000000, 9 days ago"
    assert record.main(["thread"]) == 0
    assert list(json.loads(file.read_text())) == ["loom", "red", "thread"]
    with pytest.raises(SystemExit):
        record.main(["no such"])
    assert "the steps are: loom, red, thread" in capsys.readouterr().err
