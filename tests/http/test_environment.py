"""Environment files: as python-dotenv reads them, without expansion."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oneloop.http.environment import EnvironmentFileError, load, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=1", {"A": "1"}),
        ("A=1\nB=2\n", {"A": "1", "B": "2"}),
        ("A=1\r\nB=2\r\n", {"A": "1", "B": "2"}),
        ("\n  # a comment\n\nexport A=1\n", {"A": "1"}),
        ("A = 1 ", {"A": "1"}),
        ("A=", {"A": ""}),
        ("A= # nothing\nB=x", {"A": "", "B": "x"}),
        ("A=one two # three", {"A": "one two"}),
        ("A=a#b", {"A": "a#b"}),
        ("A=https://x/?a=b#c", {"A": "https://x/?a=b#c"}),
        ("A='$HOME \\n' # x", {"A": "$HOME \\n"}),
        ('A="one\\ntwo \\"three\\" \\\\ \\$x"', {"A": 'one\ntwo "three" \\ $x'}),
        ('A="one\ntwo"\nB=3', {"A": "one\ntwo", "B": "3"}),
        ("A='one\ntwo'\nB=3", {"A": "one\ntwo", "B": "3"}),
        ("A=1\nA=2", {"A": "2"}),
        ("", {}),
    ],
)
def test_values(text: str, expected: dict[str, str]) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "line"), [("A", 1), ("A=1\n2B=1", 2), ("A='x", 1), ('A=1\n\nB="x" y', 3), ("export", 1), ("=1", 1)]
)
def test_wrong_lines_are_named(text: str, line: int) -> None:
    with pytest.raises(EnvironmentFileError, match=f"line {line} "):
        parse(text)


def test_variables_that_are_set_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONELOOP_TEST_ONE", "kept")
    monkeypatch.setattr(os, "environ", dict(os.environ))
    file = tmp_path / ".env"
    file.write_text("ONELOOP_TEST_ONE=1\nONELOOP_TEST_TWO=2\n")
    assert load(file) == ["ONELOOP_TEST_TWO"]
    assert (os.environ["ONELOOP_TEST_ONE"], os.environ["ONELOOP_TEST_TWO"]) == ("kept", "2")
    file.write_text("ONELOOP_TEST_TWO=3\n")
    assert load(file, again=["ONELOOP_TEST_TWO"]) == ["ONELOOP_TEST_TWO"]
    assert os.environ["ONELOOP_TEST_TWO"] == "3"
