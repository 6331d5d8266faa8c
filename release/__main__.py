"""`python -m release`: builds the files of a release in `dist`, and runs the smoke test on each native wheel.

The files are the source distribution, the wheel for other systems, and a wheel for each target and Python version. The
debug symbols are in `dist/debug`. For wheels that cannot be run on this machine it prints the reason. The exit status
is not 0 if a wheel could not be built, is wrong, or failed its smoke test.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from release import build, fallback, stage, trial
from release.floor import check
from release.project import ROOT, version


def main() -> int:
    """Build what the command line says, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("--targets", nargs="*", choices=list(build.TARGETS), help="default: all")
    parser.add_argument("--versions", nargs="*", choices=build.VERSIONS, help="versions of CPython; default: all")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    options = parser.parse_args()
    out = options.out.resolve()

    source = stage.prepare(out)
    _say(source.name, source, "")
    other = fallback.build(stage.pkg_info(source), stage.licence_files(source), version(), out)
    _say(other.name, other, "")
    status = 0
    for name in options.targets or build.TARGETS:
        status |= _make(build.TARGETS[name], options.versions or build.VERSIONS, out)
    return status


def _make(target: build.Target, versions: Sequence[str], out: Path) -> int:
    """Build and check the wheels of a target."""
    started = time.monotonic()
    try:
        wheels = build.build(target, versions, out)
    except subprocess.CalledProcessError as error:
        print(f"{target.name}: FAILED to build, status {error.returncode}", flush=True)
        return 1
    print(f"{target.name}: {len(wheels)} wheels built in {time.monotonic() - started:.0f} s", flush=True)
    status = 0
    for python, wheel in zip(versions, wheels, strict=True):
        try:
            check(wheel, target)
            _say(wheel.name, wheel, f"ran on {trial.run(wheel, target, python)}")
        except trial.NoInterpreterError as error:
            _say(wheel.name, wheel, f"BUILT, NOT RUN: {error}")
        except ValueError as error:
            _say(wheel.name, wheel, f"WRONG: {error}")
            status = 1
        except subprocess.CalledProcessError as error:
            _say(wheel.name, wheel, f"FAILED: {error.stderr or error}")
            status = 1
    return status


def _say(name: str, file: Path, text: str) -> None:
    print(f"{name}  {file.stat().st_size / 1e6:.2f} MB  {text}".rstrip(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
