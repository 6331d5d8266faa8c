"""`oneloop top` on a terminal, on a full disk, and with programs that do not answer."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from oneloop.cli import asking
from tests.cli.command import LIMIT_S
from tests.cli.test_top import ONELOOP, PLAIN, line, oneloop_top, running, runtime

__all__ = ["runtime"]


@contextmanager
def on_terminal(*words: str, **environment: str) -> Iterator[tuple[int, int]]:
    """`oneloop top` on a pseudo-terminal of its own: the descriptor of our end, and the process's id."""
    pid, ours = pty.fork()
    if not pid:
        os.environ.update({"TERM": "xterm", "COLUMNS": "120", "LINES": "30", **environment})
        os.execv(ONELOOP[0], [*ONELOOP, "top", *words])
    try:
        yield ours, pid
    finally:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(ours)


def until(ours: int, pattern: str) -> str:
    """What the terminal shows until the pattern is there."""
    shown = b""
    while not re.search(pattern, shown.decode(errors="replace")):
        shown += os.read(ours, 65536)
    return shown.decode(errors="replace")


def ended(ours: int, pid: int) -> int:
    """The exit status of the program on the terminal."""
    with suppress(OSError):
        while os.read(ours, 65536):
            pass
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.time_limit(180)
def test_stopped_program_has_a_row_and_comes_back(tmp_path: Path, runtime: Path) -> None:
    with running(tmp_path, PLAIN, "--stats-socket") as process:
        assert line(process) == "ready"
        with on_terminal("--interval", "0.05", TERM="dumb") as (ours, watching):
            until(ours, "sleeping")
            process.send_signal(signal.SIGSTOP)
            row = until(ours, r"no answer for [1-9]")
            assert f"{process.pid}" in row
            process.send_signal(signal.SIGCONT)
            until(ours, "sleeping")
            os.write(ours, b"q")
            assert ended(ours, watching) == 0


def test_table_and_json_of_a_stopped_program(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from oneloop.cli import top

    monkeypatch.setattr(asking, "LIMIT_S", 0.2)
    with running(tmp_path, PLAIN, "--stats-socket") as process:
        assert line(process) == "ready"
        process.send_signal(signal.SIGSTOP)
        # Its threads go on until the one that has got the signal runs.
        os.waitpid(process.pid, os.WUNTRACED)
        try:
            with pytest.raises(SystemExit) as raised:
                top.main(["--once"])
            assert raised.value.code == 0
            shown = capsys.readouterr()
            assert "program.py" in shown.out.splitlines()[0]
            assert re.search(rf"{process.pid} .*no answer for [\d.]+ m?s", shown.out)
            assert shown.err == ""
            with pytest.raises(SystemExit) as raised:
                top.main(["--json", str(process.pid)])
            assert raised.value.code == 1
            shown = capsys.readouterr()
            assert shown.out == ""
            assert "no answer for" in shown.err
            assert "no program" not in shown.err
        finally:
            process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("terminal", ["xterm", "dumb"])
def test_q_ends_and_the_terminal_is_as_before(tmp_path: Path, runtime: Path, terminal: str) -> None:
    with running(tmp_path, PLAIN, "--stats-socket") as process:
        assert line(process) == "ready"
        with on_terminal(TERM=terminal) as (ours, watching):
            shown = until(ours, "sleeping")
            assert "process" in shown
            os.write(ours, b"q")
            assert ended(ours, watching) == 0


def test_one_table_at_a_time_on_120_columns(tmp_path: Path, runtime: Path) -> None:
    """Each update replaces the one before: no line of it is longer than the terminal is wide."""
    pytest.importorskip("rich")
    long = f"import sys\nsys.argv.append({'x' * 200!r})\n{PLAIN}"
    with running(tmp_path, long, "--stats-socket") as process:
        assert line(process) == "ready"
        with on_terminal("--interval", "0.05", COLUMNS="", LINES="") as (ours, watching):
            import fcntl
            import struct
            import termios

            fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
            until(ours, "sleeping")
            shown = until(ours, r"(?s)ticks/s.*ticks/s.*ticks/s")
            os.write(ours, b"q")
            assert ended(ours, watching) == 0
        for text in re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown).replace("\r", "\n").splitlines():
            assert len(text) <= 120


@pytest.mark.parametrize("words", [["--once"], ["--json"], ["--interval", "0.01"]], ids=" ".join)
def test_full_disk(tmp_path: Path, runtime: Path, words: list[str]) -> None:
    with running(tmp_path, PLAIN, "--stats-socket") as process:
        assert line(process) == "ready"
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [*ONELOOP, "top", *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S, check=False
            )
    assert (done.returncode, done.stderr) == (1, "oneloop top: standard output: No space left on device\n")


def test_paths_that_are_no_sockets(tmp_path: Path, runtime: Path) -> None:
    (tmp_path / "file").touch()
    done = oneloop_top(str(tmp_path / "file"))
    assert (done.returncode, "file is not a socket" in done.stderr) == (1, True)
    done = oneloop_top(str(tmp_path / "file/x"))
    assert (done.returncode, "there is no socket" in done.stderr) == (1, True)
    done = oneloop_top(str(tmp_path / ("x" * 300)))
    assert (done.returncode, "File name too long" in done.stderr) == (1, True)
