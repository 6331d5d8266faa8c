"""A part of the interpreter's own tests, patched; `ONELOOP_INTERPRETER_TESTS=all` runs all of them."""

from __future__ import annotations

import os

import pytest

from tests.green.interpreter.modules import MODULES, compared, known, regressions

QUICK = ["test_thread", "test_threading_local", "test_context", "test_asyncio.test_threads"]
CHOSEN = MODULES if os.environ.get("ONELOOP_INTERPRETER_TESTS") == "all" else QUICK


@pytest.mark.time_limit(700)
@pytest.mark.parametrize("module", CHOSEN)
def test_what_passes_plain_passes_patched(module: str) -> None:
    plain, patched = compared(module, left_out=known())
    assert plain.states
    found = [test for test in regressions(plain, patched) if test not in known()]
    told = "\n".join(f"{test}: {patched.states.get(test)}\n{patched.details.get(test, '')}" for test in found)
    assert not found, told
