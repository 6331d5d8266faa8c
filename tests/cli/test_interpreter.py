"""How the command line of `oneloop run` is read, and the command that starts the interpreter again."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

import oneloop
from oneloop.running.interpreter import UsageError, read, restart

AGAIN = str(Path(oneloop.__file__).parent / "running" / "again.py")


class StartedError(Exception):
    """An interpreter was started again."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command that exec is given."""
    command: list[str] = []

    def execv(path: str, words: list[str]) -> None:
        assert path == words[0] == sys.executable
        command.extend(words[1:])
        raise StartedError

    monkeypatch.setattr(os, "execv", execv)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "oneloop", "run"])
    return command


@pytest.mark.parametrize("letter", "bBdEiIOPqsSuv")
def test_switches(letter: str) -> None:
    line = read([f"-{letter}{letter}", "x.py"])
    assert line.python_options == [f"-{letter}"] * 2
    assert line.rest == ["x.py"]


@pytest.mark.parametrize("word", ["-h", "-?", "--help"])
def test_help(word: str) -> None:
    assert read([word, "x.py"]).help


@pytest.mark.parametrize("word", ["--stats=no", "--debug=", "--keep-named=1"])
def test_switches_of_ours_take_no_value(word: str) -> None:
    with pytest.raises(UsageError, match="there is no option"):
        read([word, "x.py"])


def test_nothing_behind_the_end_of_the_options() -> None:
    assert read(["-O", "--"]).program is None


@pytest.mark.parametrize(
    ("words", "options", "rest"),
    [
        (["-OBc", "pass", "a"], ["-O", "-B"], ["-c", "pass", "a"]),
        (["-Bmjson.tool", "-x"], ["-B"], ["-m", "json.tool", "-x"]),
        (["-BWerror", "-Xdev", "x.py", "-O"], ["-B", "-W", "error", "-X", "dev"], ["x.py", "-O"]),
        (["-BW", "error", "-"], ["-B", "-W", "error"], ["-"]),
        (["-Bx", "--", "-x.py"], ["-B"], ["-x", "--", "-x.py"]),
        (["--check-hash-based-pycs=never", "x.py"], ["--check-hash-based-pycs", "never"], ["x.py"]),
        (["--check-hash-based-pycs", "always", "x.py"], ["--check-hash-based-pycs", "always"], ["x.py"]),
        (["-B", "--replace", "uvloop", "x.py"], ["-B"], ["--replace=uvloop", "x.py"]),
        (["-B", "--replace=uvloop", "--stats", "x.py"], ["-B"], ["--replace=uvloop", "--stats", "x.py"]),
        (["-B", "--stats-socket", "x.py"], ["-B"], ["--stats-socket=1", "x.py"]),
        (["-B", "--stats-socket", "/s.sock", "x.py"], ["-B"], ["--stats-socket=/s.sock", "x.py"]),
        (["-B", "--stats-socket=/s", "--patch", "x.py"], ["-B"], ["--stats-socket=/s", "--patch", "x.py"]),
    ],
)
def test_restart_loses_no_option(started: list[str], words: list[str], options: list[str], rest: list[str]) -> None:
    with pytest.raises(StartedError):
        restart(read(words))
    assert started == [*options, AGAIN, "run", *rest]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["-X", "dev", "-W", "error", "-m", "oneloop"], ["-X", "dev", "-W", "error"]),
        (["-Xdev", "-BWerror", "-BX", "dev", "-moneloop"], ["-Xdev", "-BWerror", "-BX", "dev"]),
        (["-EBm", "oneloop"], ["-EB"]),
        (["-I", "/bin/oneloop", "run", "-O"], ["-I"]),
        (["--check-hash-based-pycs", "always", "-c", "main()"], ["--check-hash-based-pycs", "always"]),
        (["-"], []),
        (["--", "oneloop"], []),
    ],
)
def test_restart_keeps_the_options_of_this_interpreter(
    started: list[str], monkeypatch: pytest.MonkeyPatch, given: list[str], kept: list[str]
) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", *given, "run", "-O", "x.py"])
    with pytest.raises(StartedError):
        restart(read(["-O", "x.py"]))
    assert started == [*kept, "-O", AGAIN, "run", "x.py"]


def test_restart_loses_no_output(started: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(raw)))  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "stderr", None)
    print("of sitecustomize")
    with pytest.raises(StartedError):
        restart(read(["-O", "x.py"]))
    assert raw.getvalue() == b"of sitecustomize\n"
