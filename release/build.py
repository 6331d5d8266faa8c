"""Builds the wheels with maturin and with `zig cc` as compiler and linker. zig contains the C libraries of all targets.

No interpreter of the target is needed, because maturin contains the data of their `sysconfig`. All Python versions of a
target share a folder of compiled crates, so crates that do not use Python are compiled once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from release.project import BUILD, ROOT
from release.stage import STAGE, environment
from release.symbols import split

VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.15")


@dataclass(frozen=True)
class Target:
    """A processor and a C library."""

    name: str
    triple: str
    tag: str
    """The platform tag, which names the oldest C library that the wheel runs with."""


TARGETS = {
    target.name: target
    for target in (
        Target("x86_64-gnu", "x86_64-unknown-linux-gnu", "manylinux_2_17"),
        Target("aarch64-gnu", "aarch64-unknown-linux-gnu", "manylinux_2_17"),
        Target("x86_64-musl", "x86_64-unknown-linux-musl", "musllinux_1_2"),
        Target("aarch64-musl", "aarch64-unknown-linux-musl", "musllinux_1_2"),
    )
}


def build(target: Target, versions: Sequence[str], out: Path) -> list[Path]:
    """Build the wheels of a target from the stage.

    Args:
        target: the processor and C library to build for.
        versions: the versions of CPython.
        out: the folder for the wheels. The debug symbols go to its folder `debug`.

    Returns:
        The wheels, in the order of the versions.
    """
    _install_target(target)
    raw = BUILD / "raw" / target.name
    shutil.rmtree(raw, ignore_errors=True)
    command = ["maturin", "build", "--release", "--locked", "--zig", "--target", target.triple]
    command += ["--compatibility", target.tag, "--out", str(raw), "--interpreter", *versions]
    subprocess.run(command, cwd=STAGE, env={**environment(), **_settings()}, check=True, timeout=4 * 3600)
    wheels = [next(raw.glob(f"*-cp{version.replace('.', '')}-*.whl")) for version in versions]
    return [split(wheel, out, out / "debug") for wheel in wheels]


def _settings() -> dict[str, str]:
    """Environment variables for the build.

    In the debug symbols, the sources are in /oneloop and the crates in /cargo, so no path of this machine is in them.
    """
    crates = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "registry" / "src"
    paths = {STAGE: "/oneloop", crates: "/cargo"}
    return {
        "RUSTFLAGS": " ".join(f"--remap-path-prefix={path}={name}" for path, name in paths.items()),
        "CARGO_TARGET_DIR": str(ROOT / "target" / "wheels"),
        # Always cross-compile, even if target and host are the same, so that PyO3 does not search for an interpreter.
        "PYO3_CROSS": "1",
    }


def _install_target(target: Target) -> None:
    """Install Rust's standard library for the target with rustup. Without rustup it must be installed already."""
    if shutil.which("rustup"):
        subprocess.run(["rustup", "--quiet", "target", "add", target.triple], check=True, timeout=600)
