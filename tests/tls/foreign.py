"""The foreign TLS programs that the tests talk to: which there are, how they are started, and why one is missing."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.programs import ROOT

ENDS_IN_S = 60.0
"""After SIGTERM; then a program is killed."""

FOLDER = Path(__file__).parent / "peers"
BUILT = ROOT / ".build" / "tls-peers"
NATIVE = ROOT / "bench" / "native" / "target" / "release"


def python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"tests.tls.peers.{module}", *arguments]


def needed(program: str, reason: str) -> str:
    """The path of a program; skips the test where there is none."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"needs {program}: {reason}")
    return found


def go() -> list[str]:
    """The Go program, compiled once for each text of it."""
    source = FOLDER / "echo.go"
    program = BUILT / f"echo-go-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
    if not program.exists():
        compiler = needed("go", "Go's crypto/tls")
        BUILT.mkdir(parents=True, exist_ok=True)
        settings = {
            "GOCACHE": str(BUILT / "go-cache"),
            "GO111MODULE": "off",
            "CGO_ENABLED": "0",
            "GOTOOLCHAIN": "local",
        }
        made = program.with_suffix(".new")
        subprocess.run([compiler, "build", "-o", made, source], env=os.environ | settings, check=True)
        made.rename(program)
    return [str(program)]


def on_loop(name: str) -> list[str]:
    if name == "uvloop" and importlib.util.find_spec("uvloop") is None:
        pytest.skip("uvloop is not installed")
    return python("echo", name)


def openssl() -> list[str]:
    needed("openssl", "s_client and s_server")
    return python("openssl")


def node() -> list[str]:
    return [needed("node", "Node's tls"), str(FOLDER / "echo.js")]


COMMANDS: dict[str, Callable[[], list[str]]] = {
    "openssl": openssl,
    "go": go,
    "node": node,
    "uvloop": lambda: on_loop("uvloop"),
    "asyncio": lambda: on_loop("asyncio"),
}


def rustls(program: str) -> str:
    """A program of the bench, which speaks rustls."""
    path = NATIVE / program
    if not path.exists():
        pytest.skip(f"rustls: the bench's {program} is not built")
    return str(path)


@contextmanager
def started(command: list[str], folder: Path = ROOT) -> Iterator[subprocess.Popen[str]]:
    """A program for the time of a `with` block; what it says on standard error is shown where it fails."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            cwd=folder,
            start_new_session=True,
        )
        try:
            yield process
        except BaseException as exc:
            said.seek(0)
            exc.add_note(f"{command[:4]} said: {said.read()[-2000:]}")
            raise
        finally:
            process.terminate()
            try:
                process.communicate(timeout=ENDS_IN_S)
            except subprocess.TimeoutExpired:
                # An interpreter with daemon threads can hang in its finalization. Its own children end, too.
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()


@contextmanager
def serving(command: list[str]) -> Iterator[int]:
    """A server for the time of a `with` block; gives its port."""
    with started(command) as process:
        assert process.stdout is not None
        ready, port = (process.stdout.readline() or "ended nothing").split()
        assert ready == "ready", f"did not start: {process.wait()}"
        yield int(port)


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a program's own end: its status, and what it has printed."""
    assert process.stdout is not None
    printed = process.stdout.read()
    return process.wait(), printed
