"""`python -m tests.changed`: finds the tests that differ, and the rate at which they fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import changed
from tests.harness.running import RECORDED, Group

BEFORE = """
import os
LIMIT = 3
class TestOne:
    def test_inside(self): assert LIMIT
def test_kept(): assert os
def test_other(): assert 1
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in {"test_a.py": BEFORE, "test_b.py": BEFORE, "shared.py": "x = 1\n"}.items():
        (tmp_path / "tests").mkdir(exist_ok=True)
        (tmp_path / "tests" / name).write_text(text)
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "before"]):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t.example", *command], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("assert 1", "assert 2", ["tests/test_a.py::test_other"]),
        ("assert LIMIT", "assert LIMIT > 1", ["tests/test_a.py::TestOne::test_inside"]),
        ("def test_other", "def test_new(): pass\ndef test_other", ["tests/test_a.py::test_new"]),
        ("LIMIT = 3", "LIMIT = 4", ["tests/test_a.py"]),
        ("import os\n", "import os  # a remark\n\n", []),
        ("def test_other(): assert 1\n", "", []),
    ],
)
def test_what_differs_is_found(tree: Path, old: str, new: str, found: list[str]) -> None:
    (tree / "tests/test_a.py").write_text(BEFORE.replace(old, new))
    assert changed.changed_tests(tree, "HEAD") == (found, [])


def test_new_files_and_shared_ones(tree: Path) -> None:
    (tree / "tests/test_c.py").write_text(BEFORE)
    (tree / "tests/shared.py").write_text("x = 2\n")
    (tree / "tests/test_b.py").unlink()
    assert changed.changed_tests(tree, "HEAD") == (["tests/test_c.py"], ["tests/shared.py"])
    assert changed.last_landed(tree) == "HEAD"


def test_each_group_has_a_process_of_its_own() -> None:
    tests = [
        "tests/loop/test_tasks.py",
        "tests/http/test_serve.py::test_a",
        "tests/http/test_http2_clients.py",
        "tests/transport/test_stream.py",
        "tests/package/test_import.py::test_b",
    ]
    found = {group.name: [name for name in group.command if name in tests] for group in changed.in_groups(tests)}
    [of_rest] = [name for name in found if "package" in name]
    assert found == {
        "loop, transport, tls": [tests[0], tests[3]],
        "http": [tests[1]],
        "http2": [tests[2]],
        of_rest: [tests[4]],
    }


def test_the_rate_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One test fails in every second run."""
    source = f"""
from pathlib import Path
def test_good(): pass
def test_bad(at=Path({str(tmp_path / "tried")!r})):
    tried = int(at.read_text()) if at.exists() else 0
    at.write_text(str(tried + 1))
    assert tried % 2
"""
    (tmp_path / "test_sample.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", f"--rootdir={tmp_path}", "-p", "no:cacheprovider"]
    group = Group("sample", [*command, *RECORDED, str(tmp_path)], "pytest", {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    ran, failed = changed.repeat([group], 4, 600)
    assert ran == {"test_sample.py::test_good": 4, "test_sample.py::test_bad": 4}
    assert failed == {"test_sample.py::test_bad": 2}
    ran, _ = changed.repeat([group], 4, 0)
    assert ran["test_sample.py::test_good"] == 1
