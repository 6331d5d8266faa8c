"""A part of the interpreter's own tests, patched. `ONELOOP_INTERPRETER_TESTS=all` runs all of them."""

from __future__ import annotations

import os

import pytest

from tests.green.interpreter.modules import MODULES, compared, known, regressions

# These are short, and none depends on times that a busy machine may miss.
QUICK = ["test_thread", "test_threading_local", "test_context", "test_urllib2", "test_wsgiref", "test_httpservers"]
QUICK += [f"test_asyncio.{name}" for name in ("test_threads", "test_locks", "test_queues")]
CHOSEN = MODULES if os.environ.get("ONELOOP_INTERPRETER_TESTS") == "all" else QUICK


@pytest.mark.time_limit(3600)
@pytest.mark.parametrize("module", CHOSEN)
def test_what_passes_plain_passes_patched(module: str) -> None:
    plain, patched = compared(module, left_out=known())
    assert plain.states
    found = [test for test in regressions(plain, patched) if test not in known()]
    told = "\n".join(f"{test}: {patched.states.get(test)}\n{patched.details.get(test, '')}" for test in found)
    assert not found, told
