"""Recipes that are more than commands: units, the Dockerfile, and io_uring where a seccomp filter forbids it."""

from __future__ import annotations

import configparser
import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.examples import ROOT, Example, blocks, documents
from tests.docs.terminal import Terminal

RECIPES = ROOT / "docs/how-to/recipes"
# npm's package, as scripts/dockerfile-linter.sh installs it.
LINTERS = sorted((ROOT / ".build").glob("dockerfile-utils-*/node_modules/dockerfile-utils"))
LINT = """
const {validate} = require(process.argv[1]);
const text = require("fs").readFileSync(0, "utf-8");
for (const found of validate(text)) console.log(found.range.start.line + 1, found.message);
"""
INSTRUCTIONS = {"FROM", "RUN", "WORKDIR", "COPY", "USER", "EXPOSE", "CMD"}

# systemd.unit(5), systemd.service(5), systemd.exec(5), systemd.socket(5): what the recipes use.
SETTINGS = {
    "Unit": {"Description", "Requires", "After"},
    "Socket": {"ListenStream"},
    "Service": {"Type", "DynamicUser", "WorkingDirectory", "ExecStart", "ExecReload", "WatchdogSec", "TimeoutStopSec"}
    | {"LimitNOFILE", "KillSignal", "Restart"},
    "Install": {"WantedBy"},
}

FORBIDDEN = """
import runpy, sys
from tests.seccomp import forbid
try:
    forbid("io_uring_setup", "io_uring_enter", "io_uring_register")
except OSError as error:
    print("no seccomp:", error)
    raise SystemExit
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def files_of(recipe: str) -> dict[str, str]:
    return {str(block.file): block.text for block in blocks(RECIPES / recipe) if block.file is not None}


def write(files: dict[str, str], terminal: Terminal) -> None:
    for name, text in files.items():
        (terminal.folder / name).write_text(terminal.text(text))


def test_every_recipe_is_in_the_index() -> None:
    index = (RECIPES / "README.md").read_text(encoding="utf-8")
    for path in RECIPES.glob("*.md"):
        assert path.name == "README.md" or f"]({path.name})" in index, path.name


def units() -> list[tuple[str, Example]]:
    return [(document.name, block) for document in documents() for block in blocks(document) if is_unit(block)]


def is_unit(block: Example) -> bool:
    return block.language == "ini" and any(f"[{section}]" in block.text for section in ("Service", "Socket"))


@pytest.mark.parametrize(("document", "unit"), units(), ids=lambda value: getattr(value, "file", value))
def test_units_have_settings_that_systemd_knows(document: str, unit: Example) -> None:
    parser = configparser.RawConfigParser(strict=True, delimiters=("=",), comment_prefixes=("#",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(unit.text)
    for section in parser.sections():
        assert set(parser[section]) <= SETTINGS[section]
    if parser.has_section("Service"):
        assert parser["Service"]["ExecStart"].startswith("/")


def dockerfile() -> list[list[str]]:
    """The instructions, each with what follows it."""
    text = files_of("dockerfile.md")["Dockerfile"].replace("\\\n", " ")
    return [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]


def test_the_dockerfile_has_known_instructions() -> None:
    lines = dockerfile()
    assert lines[0][0] == "FROM"
    assert {name for name, _ in lines} == INSTRUCTIONS
    copied = next(text for name, text in lines if name == "COPY").split()
    assert set(copied[:-1]) <= set(files_of("dockerfile.md"))


@pytest.mark.skipif(
    not LINTERS or shutil.which("node") is None, reason="needs Node.js and scripts/dockerfile-linter.sh"
)
def test_the_dockerfile_passes_a_linter() -> None:
    def lint(text: str) -> str:
        command = ["node", "-e", LINT, str(LINTERS[-1])]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=True).stdout

    text = files_of("dockerfile.md")["Dockerfile"]
    assert lint(text) == ""
    assert "Unknown instruction" in lint(text.replace("EXPOSE", "EXPOSSE"))


def test_the_command_of_the_dockerfile_serves(tmp_path: Path) -> None:
    with Terminal(tmp_path, {}) as terminal:
        write(files_of("dockerfile.md"), terminal)
        command = json.loads(next(text for name, text in dockerfile() if name == "CMD"))
        local = " ".join(command).replace("0.0.0.0", "127.0.0.1")
        terminal.check(f"{local} &", "")
        terminal.check("curl http://127.0.0.1:8000/", "oneloop.loop")


def builder() -> str | None:
    """A program that can build images here."""
    for name in ("docker", "podman", "buildah"):
        with contextlib.suppress(FileNotFoundError, subprocess.TimeoutExpired):
            if subprocess.run([name, "info"], capture_output=True, timeout=20, check=False).returncode == 0:
                return name
    return None


@pytest.mark.time_limit(600)
def test_the_dockerfile_builds(tmp_path: Path) -> None:
    name = builder()
    if name is None:
        pytest.skip("needs a running Docker daemon, Podman or Buildah")
    wheels = sorted((ROOT / "dist").glob("oneloop-*-cp313-*.whl"))
    if not wheels:
        pytest.skip("needs a wheel for Python 3.13: make wheel")
    files = files_of("dockerfile.md")
    wheel = shutil.copy(wheels[-1], tmp_path)
    installs = f"COPY {Path(wheel).name} /tmp/\nRUN pip install --no-cache-dir /tmp/{Path(wheel).name}"
    files["Dockerfile"] = files["Dockerfile"].replace("RUN pip install --no-cache-dir oneloop", installs)
    with Terminal(tmp_path, {}) as terminal:
        write(files, terminal)
        done = terminal.run([name, "build", "--tag", "oneloop-recipe", "."])
        assert done.returncode == 0, done.stdout


def test_the_engine_without_io_uring_is_the_documented_one(tmp_path: Path) -> None:
    [documented] = [block.text for block in blocks(RECIPES / "io-uring-in-docker.md") if block.language == "text"]
    with Terminal(tmp_path, {"PYTHONPATH": f"{ROOT}:{ROOT / 'python'}"}) as terminal:
        write(files_of("io-uring-in-docker.md"), terminal)
        shown = terminal.run([sys.executable, "-c", FORBIDDEN, "engine.py"]).stdout
        if "no seccomp" in shown:
            pytest.skip("seccomp filters are not available here")
        assert shown == documented


def test_the_changed_profile_allows_io_uring_and_nothing_else(tmp_path: Path) -> None:
    # As in Docker's profile: what is not listed fails with EPERM.
    allowed = {"names": ["read", "write"], "action": "SCMP_ACT_ALLOW"}
    profile = {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1, "syscalls": [allowed]}
    (tmp_path / "default.json").write_text(json.dumps(profile))
    with Terminal(tmp_path, {}) as terminal:
        write(files_of("io-uring-in-docker.md"), terminal)
        terminal.script("python allow_io_uring.py < default.json > with-io-uring.json")
    changed = json.loads((tmp_path / "with-io-uring.json").read_text())
    added = changed["syscalls"].pop()
    assert changed == profile
    assert added["action"] == "SCMP_ACT_ALLOW"
    assert set(added["names"]) == {"io_uring_setup", "io_uring_enter", "io_uring_register"}
