"""Each suite, and each program that measures itself, says what both sides do, keep and throw away.

Only the presence of the paragraph is checked here. Whether it is true is a question for its second reader
(CONTRIBUTING.md, "How to measure").
"""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

from bench.rivals import primitives, timer_primitives
from bench.suites import SUITES

#: Modules of a suite beside its own.
MORE = {
    "http": ("http_cores", "http_first_byte", "http_patience", "http_start", "http_workers"),
    "files": ("fio",),
}
MODULES = [f"bench.suites.{name}" for suite in SUITES for name in (suite, *MORE.get(suite, ())) if name != "fio"]
#: The words that begin the sentences of the paragraph.
WORDS = ("Both sides", "Kept", "Thrown away", "Window")


@pytest.mark.parametrize("module", MODULES)
def test_a_suite_says_what_both_sides_do_keep_and_throw_away(module: str) -> None:
    text = inspect.getdoc(importlib.import_module(module)) or ""
    for word in WORDS:
        assert re.search(rf"^{word}: \S", text, re.MULTILINE), f"{module} has no sentence `{word}: …`"


@pytest.mark.parametrize("name", primitives.OPERATIONS)
def test_an_operation_of_the_loop_has_a_description(name: str) -> None:
    operation, count = primitives.OPERATIONS[name]
    text = inspect.getdoc(operation) or ""
    assert len(text.split()) >= 4
    assert count > 0


def test_operations_of_timers_say_what_is_kept() -> None:
    for operation in (timer_primitives.call_later, timer_primitives.call_later_make, timer_primitives.cancel):
        assert "Kept:" in (inspect.getdoc(operation) or "")
