"""`oneloop completion`: each shell takes the script and completes with it."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from oneloop.cli import COMMANDS, check, completion, serve
from oneloop.running import interpreter
from tests.cli.command import run

LIMIT_S = 60.0

BASH = """
source {script}
COMP_WORDS=({words})
COMP_CWORD={place}
compopt() {{ :; }}
_oneloop
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def script(shell: str, folder: Path) -> Path:
    """Write the script into an empty folder that has one file and one folder."""
    path = folder / f"oneloop.{shell}"
    done = run(sys.executable, "-m", "oneloop", "completion", shell, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    path.write_text(done.stdout)
    work = folder / "work"
    (work / "afolder").mkdir(parents=True)
    (work / "app.py").touch()
    return path


def shell_or_skip(shell: str) -> str:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed: scripts/system-packages.sh installs it")
    return found


CASES = [
    ("oneloop do", {"doctor", "docs"}),
    ("oneloop serve --ht", {"--http", "--http2-streams", "--http2-frame-size"}),
    ("oneloop serve --http ", {"auto", "1", "2", "h2c"}),
    ("oneloop serve --app-dir a", {"afolder"}),
    ("oneloop run a", {"afolder", "app.py"}),
    ("oneloop run --replace g", {"gevent"}),
    ("oneloop check --input js", {"jsonl"}),
    ("oneloop docs how-to/s", {"how-to/serve", "how-to/subprocesses"}),
    ("oneloop completion ", {"bash", "zsh", "fish"}),
]


def bash(path: Path, *words: str) -> set[str]:
    text = BASH.format(script=path, words=" ".join(f"'{word}'" for word in words), place=len(words) - 1)
    command = [shell_or_skip("bash"), "--norc", "-c", text]
    done = subprocess.run(command, cwd=path.parent / "work", capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return {line for line in done.stdout.split("\n") if line}


def test_bash_completes(tmp_path: Path) -> None:
    path = script("bash", tmp_path)
    for line, expected in CASES:
        assert expected <= bash(path, *line.split(" ")), line
    # Behind `=`, which is a word of its own.
    assert bash(path, "oneloop", "serve", "--http", "=") == {"auto", "1", "2", "h2c"}
    assert bash(path, "oneloop", "serve", "--http", "=", "h") == {"h2c"}
    assert bash(path, "oneloop", "top", "x") == set()


def test_fish_completes(tmp_path: Path) -> None:
    shell = shell_or_skip("fish")
    path = script("fish", tmp_path)
    lines = "\n".join(f"echo '> {line}'\ncomplete -C '{line}'" for line, _ in CASES)
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path),
    }
    command = [shell, "--no-config", "-c", f"source {path}\n{lines}"]
    work = tmp_path / "work"
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    for answer, (line, expected) in zip(done.stdout.split("> ")[1:], CASES, strict=True):
        first, *rest = answer.splitlines()
        assert first == line
        assert expected <= {word.partition("\t")[0].rstrip("/") for word in rest}, line


@pytest.mark.time_limit(120)
def test_zsh_completes(tmp_path: Path) -> None:
    """On a terminal: zsh completes nowhere else."""
    shell = shell_or_skip("zsh")
    path = script("zsh", tmp_path)
    assert subprocess.run([shell, "-fn", str(path)], capture_output=True, text=True, check=True).stderr == ""
    pid, terminal = pty.fork()
    if not pid:
        environment = {**os.environ, "TERM": "vt100", "PS1": "ready> ", "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)}
        os.chdir(tmp_path / "work")
        os.execve(shell, [shell, "-f", "-i"], environment)
    try:
        said = reader(terminal)
        said("ready> ")
        os.write(
            terminal, f"autoload -Uz compinit; compinit -u -d {tmp_path}/dump; source {path}; print lo''aded\n".encode()
        )
        said("loaded")
        # zsh has the terminal in its own mode when it shows the prompt again.
        said("ready> ")
        for line, expected in CASES:
            # ^D lists what is possible; ^U empties the line.
            os.write(terminal, line.encode() + (b"\t" if len(expected) == 1 else b"\x04"))
            said(*expected)
            os.write(terminal, b"\x15\n")
            said("ready> ")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def reader(terminal: int) -> Callable[..., None]:
    """Return a function that waits until the terminal has shown some texts, after those of its last call."""
    shown = ""

    def wait_for(*texts: str) -> None:
        nonlocal shown
        end = time.monotonic() + LIMIT_S
        while not all(text in shown for text in texts):
            ready = select.select([terminal], [], [], max(0, end - time.monotonic()))[0]
            assert ready, f"one of {texts} is not in {shown!r}"
            shown += os.read(terminal, 1 << 16).decode(errors="replace")
        shown = shown[max(shown.index(text) + len(text) for text in texts) :]

    return wait_for


def test_every_option_is_completed() -> None:
    found = {
        command.name: {flag for option in command.options for flag in option.flags} for command in completion.commands()
    }
    assert list(found) == list(COMMANDS)
    assert {"--workers", "--config", "--no-access-log", "--stats-socket"} <= found["serve"]
    assert found["run"] == {*interpreter._OWN, "--replace", "--stats-socket", "-h", "--help", "-m", "-c"}
    for name, module in (("serve", serve), ("check", check)):
        shown = {
            flag
            for action in module.parser()._actions
            if action.help != "==SUPPRESS=="
            for flag in action.option_strings
        }
        assert found[name] == shown


def test_an_unknown_shell_is_refused(tmp_path: Path) -> None:
    done = run(sys.executable, "-m", "oneloop", "completion", "csh", cwd=tmp_path)
    assert done.returncode == 2
    assert "invalid choice: 'csh'" in done.stderr


def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    done = run("/bin/sh", "-c", f"{shlex.quote(sys.executable)} -m oneloop completion bash > /dev/full", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("oneloop completion: [Errno 28] No space left on device\n")
