"""`patched`: runs a monkey-patched program in a new process."""

from __future__ import annotations

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
    done = programs.run_command(sys.executable, *options, "-c", source, limit_s=40)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.stderr == "", done.stderr
    return done.stdout
