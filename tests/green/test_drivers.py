"""Drivers that wait in C: psycopg, by a module with its names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

WAITING = """
def wait_c(): ...
def wait_poll(): ...
def _ready_c(): ...
def _ready_poll(): ...
wait, _ready = wait_c, _ready_c
"""


@pytest.mark.parametrize(
    ("options", "first", "expected"),
    [
        (["--patch"], "", "wait_poll _ready_poll"),
        (["--replace", "gevent"], "from gevent import monkey; monkey.patch_all()", "wait_poll _ready_poll"),
        ([], "import psycopg.waiting; from oneloop.green import monkey; monkey.patch_all()", "wait_poll _ready_poll"),
        ([], "", "wait_c _ready_c"),
    ],
    ids=["--patch", "gevent", "imported before", "unpatched"],
)
def test_psycopg_waits_in_python(tmp_path: Path, options: list[str], first: str, expected: str) -> None:
    package = tmp_path / "psycopg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "waiting.py").write_text(WAITING)
    program = tmp_path / "program.py"
    program.write_text(f"{first}\nfrom psycopg import waiting\nprint(waiting.wait.__name__, waiting._ready.__name__)\n")
    command = [sys.executable, "-m", "oneloop", "run", *options, str(program)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout.strip() == expected, done.stderr


def test_programs_find_gevents_patching_in_sys_modules(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from gevent import monkey\n"
        "monkey.patch_all()\n"
        "import sys\n"
        "found = sys.modules['gevent.monkey']\n"
        "print(found is monkey, found.is_module_patched('select'), 'sleep' in monkey.saved['time'])\n"
    )
    command = [sys.executable, "-m", "oneloop", "run", "--replace", "gevent", str(program)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout.split() == ["True", "True", "True"], done.stderr


def test_modules_of_ours_that_were_imported_under_gevents_names_keep_the_originals(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import gevent.signal, gevent.select, gevent.socket, gevent.subprocess, gevent.os, gevent.time\n"
        "from gevent import monkey\n"
        "monkey.patch_all()\n"
        "import os, select, signal, socket, subprocess, time\n"
        "signal.signal(signal.SIGHUP, lambda *_: None)\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_DFL)\n"
        "time.sleep(0.001)\n"
        "select.select([], [], [], 0.001)\n"
        "socket.getaddrinfo('127.0.0.1', 80)\n"
        "subprocess.run(['true'], check=True)\n"
        "os.waitpid(os.spawnlp(os.P_NOWAIT, 'true', 'true'), 0)\n"
        "print('ran')\n"
    )
    command = [sys.executable, "-m", "oneloop", "run", "--replace", "gevent", str(program)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout.strip(), done.returncode) == ("ran", 0), done.stderr
