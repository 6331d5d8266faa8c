"""Every example in the documents runs and prints what it says."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.docs.examples import ROOT, Example, blocks, documents, examples
from tests.docs.terminal import Terminal

NEEDS = {
    "docs/reference/check.md": "pycares",
    "docs/how-to/from-httpx.md": "httpx",
    "docs/how-to/deploy.md": "aiohttp gunicorn uvicorn",
}
"""Documents whose examples need other packages. Recipes say it themselves: in their `pip install` line."""

NOT_RUN: dict[str, list[str]] = {
    "docs/how-to/recipes/dockerfile.md": [
        "needs a container builder; tests/docs/test_recipes.py builds the image if there is one"
    ],
    "docs/how-to/recipes/io-uring-in-docker.md": ["downloads Docker's profile, and needs a Docker daemon"],
    "docs/how-to/recipes/systemd.md": ["needs root and a running systemd"],
}
"""Every block that the documents mark as not run, with its reason."""

WITH_EXAMPLES = [document for document in documents() if examples(document)]
RECIPES = ROOT / "docs/how-to/recipes"


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


def requirements(document: Path) -> Iterator[str]:
    """The distributions that a document's examples need."""
    yield from NEEDS.get(name_of(document), "").split()
    if document.parent != RECIPES:
        return
    for block in blocks(document):
        if not block.language:
            for word in re.sub(r"^pip install ", "", block.text, flags=re.MULTILINE).replace("'", "").split():
                yield from with_extras(Requirement(word))


def with_extras(wanted: Requirement) -> Iterator[str]:
    yield wanted.name
    for extra in wanted.extras:
        for text in metadata.requires(wanted.name) or ():
            needed = Requirement(text)
            if needed.marker is not None and needed.marker.evaluate({"extra": extra}):
                yield needed.name


def skip_without(document: Path) -> None:
    for name in requirements(document):
        try:
            metadata.distribution(name)
        except metadata.PackageNotFoundError:
            pytest.skip(f"needs the package {name}")


def run_example(example: Example, terminal: Terminal) -> None:
    if example.file is not None:
        path = terminal.folder / example.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(terminal.text(example.text))
    elif example.language == "python":
        done = terminal.run([sys.executable, "-W", "error", "-c", terminal.text(example.text)])
        assert done.returncode == 0, done.stdout
    elif example.language == "sh":
        terminal.script(example.text)
    else:
        for command, expected in example.commands:
            terminal.check(command, expected)


@pytest.mark.time_limit(180)
@pytest.mark.parametrize("document", WITH_EXAMPLES, ids=name_of)
def test_examples_of(document: Path, tmp_path: Path) -> None:
    skip_without(document)
    # The plugin prints warnings in tests that do not use it.
    environment = {} if "pytest-asyncio" in requirements(document) else {"PYTEST_ADDOPTS": "-p no:asyncio"}
    with Terminal(tmp_path, environment) as terminal:
        for example in examples(document):
            try:
                run_example(example, terminal)
            except AssertionError as error:
                raise AssertionError(f"{document.name}, line {example.line}: {error}") from error
    terminal.check_logs()


def test_what_is_not_run_is_listed() -> None:
    marked = {
        name_of(document): [block.not_run for block in blocks(document) if block.not_run] for document in documents()
    }
    assert {name: reasons for name, reasons in marked.items() if reasons} == NOT_RUN


@pytest.mark.parametrize("document", documents(), ids=name_of)
def test_blocks_without_a_language_install_packages(document: Path) -> None:
    for block in blocks(document):
        if not block.language and not block.not_run:
            for line in block.text.splitlines():
                assert line.startswith("pip install "), f"line {block.line}: {line}"
