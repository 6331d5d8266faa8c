"""Interpreters other than the first: a clear ImportError for whatever needs the native core."""

from __future__ import annotations

import sys

import pytest

from tests import programs

PROGRAM = """
import sys
{before}
if sys.version_info >= (3, 13):
    import _interpreters as interpreters
    create = lambda isolated: interpreters.create("isolated" if isolated else "legacy")
else:
    import _xxsubinterpreters as interpreters
    create = lambda isolated: interpreters.create(isolated=isolated)
for round in range(2):
    interpreter = create({isolated})
    failed = interpreters.run_string(interpreter, '''
import oneloop
def attempt(statement):
    try:
        exec(statement)
    except ImportError as error:
        print(statement, "|", error, flush=True)
    else:
        print(statement, "has worked", flush=True)
attempt("import oneloop._native")
attempt("oneloop.run")
attempt("from oneloop import Loop")
attempt("import oneloop.files")
attempt("import oneloop.green")
attempt("from oneloop.http import serve")
attempt("from oneloop.http import run")
attempt("import oneloop.aio, oneloop.testing, oneloop.tls")
''')
    assert not failed, failed
    interpreters.destroy(interpreter)
import oneloop, asyncio
assert oneloop.run(asyncio.sleep(0, 42)) == 42
"""


@pytest.mark.parametrize("isolated", [False, True], ids=["legacy", "isolated"])
@pytest.mark.parametrize("before", ["", "import oneloop; oneloop.run"], ids=["first there", "also in the main one"])
def test_another_interpreter_is_refused(isolated: bool, before: str) -> None:
    if sys.version_info[:2] == (3, 12):
        # Python 3.12.1 itself aborts at exit ("free(): invalid pointer") if an isolated interpreter imports asyncio,
        # ssl, hashlib or _datetime, and then the main one does for the first time: its free list of tuples gets a
        # tuple of the allocator that is gone (_PyTuple_Fini in the back trace).
        before = f"import asyncio; {before}"
    done = programs.run_command(
        sys.executable,
        "-W",
        "ignore",
        "-c",
        PROGRAM.format(before=before, isolated=isolated),
        cwd=programs.ROOT / "python",
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 16
    for line in lines:
        assert "support" in line, line
        assert "subinterpreters" in line, line
