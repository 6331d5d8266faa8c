"""Installs a wheel into a clean environment of the interpreter it is for, and runs `release/smoke.py` there.

For this system's own processor and C library the environment is a new virtual environment. Other interpreters come
without pip: pip of this virtual environment installs for them into a folder on their path, and checks the tags.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from release.build import Target
from release.project import BUILD, ROOT, version

SMOKE = Path(__file__).with_name("smoke.py")
LIMIT_S = 1800
"""Making an interpreter may take minutes, on a busy machine many."""

PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-index"]


class NoInterpreterError(Exception):
    """There is no interpreter for a wheel; the text says why."""


def interpreter(target: Target, python: str) -> list[str]:
    """The command that runs CPython of this version for this target.

    Raises:
        NoInterpreterError: there is none.
    """
    found = subprocess.run(
        [str(ROOT / "scripts" / "wheel-python.sh"), target.name, python],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    if found.returncode:
        raise NoInterpreterError(found.stderr.strip().rpartition("\n")[2] or f"status {found.returncode}")
    return found.stdout.split("\n")[:-1]


def run(wheel: Path, target: Target, python: str) -> str:
    """Install a wheel and run the smoke test.

    Returns:
        What the smoke test printed.

    Raises:
        NoInterpreterError: there is no interpreter for it here.
        subprocess.CalledProcessError: the wheel cannot be installed, or the smoke test failed.
    """
    command = interpreter(target, python)
    folder = BUILD / "tried" / f"{target.name}-{python}"
    shutil.rmtree(folder, ignore_errors=True)
    if target.name == f"{platform.machine()}-gnu":
        subprocess.run([*command, "-m", "venv", str(folder)], check=True, timeout=LIMIT_S)
        command = [str(folder / "bin" / "python")]
        subprocess.run([*command, *PIP, str(wheel)], check=True, timeout=LIMIT_S)
    else:
        platforms = wheel.stem.rpartition("-")[2].split(".")
        options = ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}", f"--target={folder}"]
        options += [f"--platform={tag}" for tag in platforms]
        subprocess.run([sys.executable, *PIP, *options, str(wheel)], check=True, timeout=LIMIT_S)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PYTHONPATH"] = str(folder)
    done = subprocess.run(
        [*command, "-s", "-W", "error", str(SMOKE), version()],
        env=environment,
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, done.args, done.stdout, done.stderr)
    return done.stdout.strip()
