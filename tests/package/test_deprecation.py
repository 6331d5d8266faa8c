"""Deprecated names warn where they are used, and leave the package in time."""

from __future__ import annotations

import ast
import types
import warnings

import pytest

import oneloop
from oneloop.deprecation import moved_names, warn_deprecated
from release.project import ROOT


def old() -> str:
    warn_deprecated("old()", "new()", removed_in="0.9")
    return "result"


def test_the_warning_names_the_line_that_uses_the_name() -> None:
    text = r"^old\(\) is deprecated and will be removed in oneloop 0\.9: use new\(\)$"
    with pytest.warns(DeprecationWarning, match=text) as caught:
        assert old() == "result"
    assert caught[0].filename == __file__


def test_names_that_have_moved_work_and_warn() -> None:
    module = types.ModuleType("parts")
    found = moved_names("parts", {"Old": ("parts.New", lambda: int)}, removed_in="0.9")
    module.__dict__["__getattr__"] = found
    with pytest.warns(DeprecationWarning, match=r"parts\.Old is deprecated .* use parts\.New$") as caught:
        assert module.Old is int
    assert caught[0].filename == __file__
    with warnings.catch_warnings(), pytest.raises(AttributeError, match="module 'parts' has no attribute 'nothing'"):
        warnings.simplefilter("error")
        _ = module.nothing


def overdue(source: str, version: str) -> list[str]:
    """Return the versions, given as `removed_in`, that `version` has reached. ValueError for one that is no literal."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.keyword) and node.arg == "removed_in":
            if not isinstance(node.value, ast.Constant) or not isinstance(node.value.value, str):
                raise ValueError(f"line {node.value.lineno}: removed_in is not a literal")
            found.append(node.value.value)
    return [one for one in found if numbers(one) <= numbers(version)]


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def test_overdue_names_are_found() -> None:
    source = 'warn_deprecated("a", "b", removed_in="0.10")\nmoved_names("m", {}, removed_in="1.0")'
    assert overdue(source, "0.9.5") == []
    assert overdue(source, "0.10.0") == ["0.10"]
    assert overdue(source, "1.0.0") == ["0.10", "1.0"]
    with pytest.raises(ValueError, match="not a literal"):
        overdue("warn_deprecated('a', 'b', removed_in=name)", "0.1.0")


def test_nothing_stays_longer_than_was_said() -> None:
    for file in (ROOT / "python" / "oneloop").rglob("*.py"):
        if file.name != "deprecation.py":
            assert overdue(file.read_text(encoding="utf-8"), oneloop.__version__) == [], file
