"""The soak's machinery, for a few seconds; `make soak` runs it for hours."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import programs
from tests.stress.samples import Sample, draw
from tests.stress.soak import judge


@pytest.mark.time_limit(180)
def test_a_short_soak(loop_name: str, tmp_path: Path) -> None:
    picture = tmp_path / "soak.svg"
    command = [sys.executable, "-m", "tests.stress.soak", "--minutes", "0.03", "--loop", loop_name]
    done = programs.run_command(*command, "--picture", str(picture), limit_s=170)
    assert "jobs done" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    assert picture.read_text().count("<polyline") == 4


def _samples(figures: list[tuple[int, int, int]]) -> list[Sample]:
    return [Sample(float(at), *each) for at, each in enumerate(figures)]


def test_what_leaks_is_told_from_what_only_moves(capsys: pytest.CaptureFixture[str]) -> None:
    moves = _samples(
        [(m << 20, fds, 3 + fds % 2) for m, fds in ((40, 12), (60, 13), (41, 12), (75, 30), (40, 12), (70, 12))]
    )
    leaks = _samples([((40 << 20) + n * (1 << 19), 12, 3) for n in range(8)])
    opens = _samples([(40 << 20, 12 + n, 3) for n in range(8)])
    starts = _samples([(40 << 20, 12, 3 + n) for n in range(8)])
    assert judge(moves, [], []) == 0
    assert judge(leaks, [], []) == 1
    assert "resident memory grew" in capsys.readouterr().out
    assert judge(opens, [], []) == 1
    assert "descriptors grew" in capsys.readouterr().out
    assert judge(starts, [], []) == 1
    assert "threads grew" in capsys.readouterr().out
    assert judge(moves, [{"message": "x"}], []) == 1
    assert "exception handler was called 1 times" in capsys.readouterr().out
    assert judge(moves, [], ["other bytes"]) == 1


def test_the_picture_has_a_curve_for_each_figure(tmp_path: Path) -> None:
    draw(_samples([(1 << 20, 3, 1), (2 << 20, 3, 1)]), tmp_path / "x.svg")
    text = (tmp_path / "x.svg").read_text()
    assert "resident_bytes: at most 2.09715e+06" in text
    assert "lag_s" in text
