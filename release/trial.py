"""Installs a wheel for the interpreter that it is for, separately from other packages, and runs `release/smoke.py`.

For this system's own processor and C library it uses a new virtual environment. Other interpreters have no pip: the pip
of this virtual environment installs the wheel into a folder on their path, and checks the wheel's tags.
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
"""Building an interpreter takes minutes, and longer on a busy machine."""

PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-index"]


class NoInterpreterError(Exception):
    """There is no interpreter for a wheel. The message says why."""


def interpreter(target: Target, python: str) -> list[str]:
    """Return the command that runs this version of CPython for this target.

    Args:
        target: the processor and C library.
        python: the version, as in `3.13`.

    Raises:
        NoInterpreterError: there is no such interpreter.
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

    Args:
        wheel: the wheel.
        target: what it was built for.
        python: the version of CPython, as in `3.13`.

    Returns:
        The output of the smoke test.

    Raises:
        NoInterpreterError: there is no interpreter for it on this machine.
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
