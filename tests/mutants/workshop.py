"""`Workshop`: a copy of the checkout in which one file at a time is wrong, and where the extension is built from it.

Builds are made with little optimisation and incrementally, in a target folder of their own (`.build/mutants`), which
stays for the next run. Knows nothing of records.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".build" / "mutants"
TREE = FOLDER / "tree"
# What tests and builds need of the checkout.
COPIED = (
    *(
        "Cargo.toml",
        "Cargo.lock",
        "pyproject.toml",
        "Makefile",
        "README.md",
        "CHANGELOG.md",
        "LICENSE-APACHE",
        "LICENSE-MIT",
    ),
    *("crates", "python", "tests", "bench", "docs", "release", "scripts", ".ci", ".github"),
)
MODULE = "python/oneloop/_native" + str(sysconfig.get_config_var("EXT_SUFFIX"))
BUILD_LIMIT_S = 1800
# Builds outnumber the tests: quick to make, slow to run.
PROFILE = {"CARGO_PROFILE_DEV_OPT_LEVEL": "0", "CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_INCREMENTAL": "1"}


class BuildError(Exception):
    """The compiler refuses the mutant."""


class Workshop:
    """One copy, made anew from the checkout's files; what is unchanged keeps its date, so that cargo builds little."""

    def __init__(self) -> None:
        TREE.mkdir(parents=True, exist_ok=True)
        tracked = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *COPIED],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        wanted = {name for name in tracked.stdout.split("\0") if name and (ROOT / name).is_file()}
        for path in [path for path in TREE.rglob("*") if path.is_file()]:
            if str(path.relative_to(TREE)) not in wanted:
                path.unlink()
        for name in wanted:
            self.restore(name)

    def restore(self, name: str) -> None:
        """Make one file the checkout's again."""
        source, target = ROOT / name, TREE / name
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)

    def change(self, name: str, text: str) -> None:
        (TREE / name).write_text(text)

    def build(self) -> None:
        """Build the extension and put it into the copy.

        Raises:
            BuildError: with what the compiler says.
        """
        self.cargo("build", "--package", "oneloop-native", "--features", "pyo3/extension-module")
        built = FOLDER / "target" / "debug" / "lib_native.so"
        module = TREE / MODULE
        # A new file: a process that has mapped the old one keeps it.
        module.unlink(missing_ok=True)
        shutil.copyfile(built, module)

    def take_module(self) -> None:
        """Take the checkout's own extension: for mistakes in Python nothing has to be built."""
        module = ROOT / MODULE
        if not module.exists():
            raise BuildError(f"{MODULE} is not built: make setup-core")
        (TREE / MODULE).unlink(missing_ok=True)
        shutil.copyfile(module, TREE / MODULE)

    def cargo(self, *arguments: str) -> str:
        """Run cargo on the copy; what it says.

        Raises:
            BuildError: if it fails.
        """
        ran = subprocess.run(
            ["cargo", arguments[0], "--quiet", "--offline", "--locked", *arguments[1:]],
            cwd=TREE,
            env={**os.environ, **PROFILE, "CARGO_TARGET_DIR": str(FOLDER / "target"), "PYO3_PYTHON": sys.executable},
            check=False,
            capture_output=True,
            text=True,
            timeout=BUILD_LIMIT_S,
        )
        said = ran.stdout + ran.stderr
        if ran.returncode:
            raise BuildError(said[-4000:])
        return said

    def pytest(self, tests: list[str], limit_s: float) -> tuple[int, str]:
        """Run tests of the copy, to the first that fails; pytest's exit status and what it says."""
        command = [sys.executable, "-X", "faulthandler", "-m", "pytest", "-q", "-x", "--tb=short", *tests]
        environment = {
            **os.environ,
            "PYTHONPATH": str(TREE / "python"),
            "ONELOOP_TEST_LIMIT_S": str(limit_s),
            "ONELOOP_TEST_GRACE_S": "3",
        }
        ran = subprocess.run(
            command, cwd=TREE, env=environment, check=False, capture_output=True, text=True, timeout=BUILD_LIMIT_S
        )
        return ran.returncode, ran.stdout[-4000:] + ran.stderr[-2000:]
