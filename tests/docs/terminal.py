"""`Terminal`: runs the commands of a document's examples, and ends what they leave running.

A command that ends with ` &` is started and left running; output that is expected of it is waited for.
`curl` is an imitation: it waits until the server accepts. The documents' ports are replaced by free ones.
The folder is HOME and /srv/app; /srv/app/venv is a link to the interpreter's environment, whose path may have spaces.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from tests.ports import free_port

LIMIT_S = 60.0
PROGRAMS = {
    "oneloop": [sys.executable, "-m", "oneloop"],
    "python": [sys.executable],
    "curl": [sys.executable, str(Path(__file__).with_name("curl.py"))],
}
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
PORTS = ("6379", "8000", "8001", "8002", "8003")
CHECKER = doctest.OutputChecker()


def matches(expected: str, shown: str) -> bool:
    return CHECKER.check_output(expected, shown, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)


def program(name: str) -> list[str]:
    """What a command's first word runs: of this interpreter's environment first."""
    if name in PROGRAMS:
        return PROGRAMS[name]
    found = shutil.which(name, path=PATH)
    if found is None:
        pytest.skip(f"needs the program {name}")
    return [found]


class Terminal:
    """A folder, and the processes that were started there."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        (folder / "venv").symlink_to(sys.prefix)
        self._environment = environment
        self._ports = {port: str(free_port()) for port in PORTS}
        self._running: list[tuple[subprocess.Popen[bytes], Path]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process, _log in reversed(self._running):
            _end(process)

    def check_logs(self) -> None:
        """No process that was started in the background may have printed a traceback."""
        logs = self.logs()
        assert "Traceback" not in logs, logs

    def text(self, text: str) -> str:
        """The text of an example, with ports that are free here."""
        text = text.replace("/srv/app", str(self.folder))
        return re.sub(rf"\b(?:{'|'.join(PORTS)})\b", lambda found: self._ports[found[0]], text)

    def logs(self) -> str:
        """What the processes that were started in the background have printed."""
        return "".join(f"\n{process.args!r}:\n{log.read_text()[-3000:]}" for process, log in self._running)

    def check(self, command: str, expected: str) -> None:
        """Run a command, and compare what it prints."""
        command, expected = self.text(command), self.text(expected)
        if command.endswith(" &"):
            self._start(command[:-2], expected)
            return
        shown = self.run(*self._parsed(command)).stdout
        assert matches(expected, shown), f"$ {command}\nexpected:\n{expected}\ngot:\n{shown}{self.logs()}"

    def script(self, text: str) -> None:
        """Run a block of shell commands; the first that fails ends it."""
        done = self.run(["sh", "-e", "-c", self.text(text)])
        assert done.returncode == 0, done.stdout

    def run(self, command: list[str], environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        # A document's examples show stdout and stderr as a terminal does.
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self._variables(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def _parsed(self, command: str) -> tuple[list[str], dict[str, str]]:
        words = shlex.split(command)
        environment = {}
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        return [*program(words[0]), *words[1:]], environment

    def _start(self, command: str, expected: str) -> None:
        words, environment = self._parsed(command)
        log = self.folder / f"log-{len(self._running)}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                words,
                cwd=self.folder,
                env=self._variables(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._running.append((process, log))
        if expected:
            _wait_until(lambda: matches(expected, log.read_text()), process)
            assert matches(expected, log.read_text()), f"$ {command} &\nexpected:\n{expected}\ngot:{self.logs()}"

    def _variables(self, given: dict[str, str]) -> dict[str, str]:
        # The package under test, from any folder.
        paths = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        ours = {"PATH": PATH, "HOME": str(self.folder), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
        return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **ours, **self._environment, **given}


def _wait_until(is_ready: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_ready() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        # Its own process group: it and the workers that it has started.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
