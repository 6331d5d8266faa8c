"""GitHub's workflows leave all decisions to `.ci/run` and the Makefile."""

from __future__ import annotations

import re
from typing import Any

import pytest

from release.build import VERSIONS
from release.project import ROOT

WORKFLOWS = ROOT / ".github" / "workflows"
TEXTS = {name: (WORKFLOWS / f"{name}.yml").read_text(encoding="utf-8") for name in ("ci", "release")}


def commands(name: str) -> list[str]:
    """What the steps of a workflow run."""
    return re.findall(r"^\s*- run: (.*)$", TEXTS[name], re.MULTILINE)


def test_ci_runs_what_is_in_the_repository_and_nothing_else() -> None:
    setup, run = commands("ci")
    assert setup.startswith("rustup toolchain install stable ")
    assert run == "bash .ci/run"


def test_release_runs_ci_and_targets_of_make() -> None:
    assert "uses: ./.github/workflows/ci.yml" in TEXTS["release"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    setup, *made, _publish = commands("release")
    assert setup.startswith("rustup toolchain install stable ")
    assert made == ['make check-tag TAG="$GITHUB_REF_NAME"', "make wheels"]
    for command in made:
        assert f"\n{command.split()[1]}:" in makefile


@pytest.mark.parametrize("name", TEXTS)
def test_versions_of_python_are_those_of_ci(name: str) -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    found = re.search(r"^main=(\S+)$", script, re.MULTILINE)
    assert found is not None
    # The last one becomes `python`.
    wanted = [*(version for version in VERSIONS if version != found[1]), found[1]]
    block = re.search(r"python-version: \|\n((?:\s+3\.\d+\n)+)", TEXTS[name])
    assert block is not None
    assert block.group(1).split() == wanted


def test_workflows_are_yaml_and_no_step_may_write_unless_it_must() -> None:
    yaml: Any = pytest.importorskip("yaml")
    ci, release = (yaml.safe_load(text) for text in TEXTS.values())
    assert ci["permissions"] == release["permissions"] == {"contents": "read"}
    writing = {name: job["permissions"] for name, job in release["jobs"].items() if "permissions" in job}
    assert writing == {"publish": {"id-token": "write"}, "page": {"contents": "write"}}
    assert release["jobs"]["publish"]["environment"] == "pypi"
