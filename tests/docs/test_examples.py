"""Every example in the documents runs and prints what it says."""

from __future__ import annotations

import doctest
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.examples import ROOT, Example, documents, examples

LIMIT_S = 60.0
PROGRAMS = {
    "oneloop": [sys.executable, "-m", "oneloop"],
    "python": [sys.executable],
    "cat": ["cat"],
}
CHECKER = doctest.OutputChecker()

NEEDS = {"docs/reference/check.md": "aiohttp"}
"""Documents whose examples need another package."""

WITH_EXAMPLES = [document for document in documents() if examples(document)]


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    # A document's examples show stdout and stderr as a terminal does.
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def run_program(example: Example, folder: Path) -> None:
    done = run([sys.executable, "-W", "error", "-c", example.text], folder)
    assert done.returncode == 0, done.stdout


def run_console(example: Example, folder: Path) -> None:
    for command, expected in example.commands:
        name, *arguments = shlex.split(command)
        shown = run([*PROGRAMS[name], *arguments], folder).stdout
        matches = CHECKER.check_output(expected, shown, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        assert matches, f"$ {command}\nexpected:\n{expected}\ngot:\n{shown}"


@pytest.mark.parametrize("document", WITH_EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_of(document: Path, tmp_path: Path) -> None:
    needed = NEEDS.get(str(document.relative_to(ROOT)))
    if needed is not None:
        pytest.importorskip(needed)
    for example in examples(document):
        try:
            if example.file is not None:
                (tmp_path / example.file).write_text(example.text)
            elif example.language == "python":
                run_program(example, tmp_path)
            else:
                run_console(example, tmp_path)
        except AssertionError as error:
            raise AssertionError(f"{document.name}, line {example.line}: {error}") from error
