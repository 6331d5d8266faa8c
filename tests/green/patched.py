"""`patched`: runs a monkey-patched program in a new process."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from tests import programs

PATCHED = "from oneloop.green import monkey\nmonkey.patch_all()\n"


def patched(body: str, before: str = "", options: tuple[str, ...] = ()) -> str:
    """Run a patched program and return its output. It must succeed and print nothing to stderr."""
    source = (
        "import faulthandler\nfaulthandler.dump_traceback_later(30, exit=True)\n"
        + textwrap.dedent(before)
        + PATCHED
        + textwrap.dedent(body)
    )
    done = subprocess.run(
        [sys.executable, *options, "-c", source],
        cwd=programs.ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.stderr == "", done.stderr
    return done.stdout
