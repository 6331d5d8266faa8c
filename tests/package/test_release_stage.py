"""How a release is prepared and its wheels are tried: files, licences, links, and the commands that are run."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from release import archive, fallback, licences, project, readme, stage, trial
from release.build import TARGETS

LINKS = "[a](docs/a.md#b) [b](#b) [c](mailto:x@y) [d](https://x/y) ![e](e.png)"


def test_relative_links_become_text() -> None:
    changed = readme.without_relative_links(LINKS + " [`f[0]`](f.md)")
    assert changed == "a [b](#b) [c](mailto:x@y) [d](https://x/y)  `f[0]`"
    assert readme.links(changed) == ["#b", "mailto:x@y", "https://x/y"]
    assert readme.without_relative_links('<picture>\n<img src="a.svg">\n</picture>\n\ntext') == "text"


def packed(path: Path, files: dict[str, bytes]) -> Path:
    """A source distribution with these files."""
    with tarfile.open(path, "w:gz") as tar:
        folder = tarfile.TarInfo("oneloop-1/folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, content in files.items():
            member = tarfile.TarInfo(f"oneloop-1/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def test_files_of_a_source_distribution(tmp_path: Path) -> None:
    files = {
        "PKG-INFO": b"info",
        "LICENSE-MIT": b"mit",
        "LICENSE-X.txt": b"x",
        "python/LICENSE-no": b"",
        "README.md": b"",
    }
    source = packed(tmp_path / "s.tar.gz", files)
    assert stage.pkg_info(source) == b"info"
    assert stage.licence_files(source) == {"LICENSE-MIT": b"mit", "LICENSE-X.txt": b"x"}


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_stage_has_the_wanted_files_and_writes_only_what_differs(tmp_path: Path) -> None:
    wanted = {"a/same": b"same", "b": b"new", "c/d": b"there"}
    for name, content in {"a/same": b"same", "b": b"old", "e/gone": b"gone", "gitignored": b""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    same = tmp_path / "a" / "same"
    os.utime(same, ns=(1, 1))
    stage._fill(tmp_path, wanted)
    stage._fill(tmp_path, wanted)
    found = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert {name for name in found if not name.startswith(".git/")} == set(wanted)
    # A repository of its own, which stays: see _fill.
    assert ".git/HEAD" in found
    assert {name: (tmp_path / name).read_bytes() for name in wanted} == wanted
    assert same.stat().st_mtime_ns == 1


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_source_distribution_is_made_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[Path, Path]] = []

    def sdist(source: Path, out: Path) -> Path:
        made.append((source, out))
        return packed(tmp_path / "s.tar.gz", {"PKG-INFO": b"", "README.md": LINKS.encode(), "x": b"x"})

    monkeypatch.setattr(stage, "sdist", sdist)
    monkeypatch.setattr(stage, "STAGE", tmp_path / "stage")
    monkeypatch.setattr(licences, "third_party", lambda root: "of others")
    stage.prepare(tmp_path / "out")
    assert made == [(project.ROOT, project.BUILD / "raw"), (tmp_path / "stage", tmp_path / "out")]
    files = {file.name: file.read_text() for file in (tmp_path / "stage").iterdir() if file.is_file()}
    links = readme.without_relative_links(LINKS)
    assert files == {"README.md": links, "x": "x", licences.NAME: "of others"}


def test_programs_of_this_environment_come_first() -> None:
    found = stage.environment()
    assert found["PATH"] == f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    assert found["VIRTUAL_ENV"] == sys.prefix


def crate(folder: Path, name: str, **changes: object) -> dict[str, Any]:
    (folder / name).mkdir()
    manifest = str(folder / name / "Cargo.toml")
    plain = {"version": "1", "license": "MIT", "repository": f"https://{name}", "license_file": None}
    return {"name": name, "manifest_path": manifest, **plain, **changes}


def test_equal_licences_are_given_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crates = [crate(tmp_path, "a"), crate(tmp_path, "b", license=None, repository=None, license_file="TERMS")]
    files = {"a/LICENSE-MIT": "mit\n", "a/NOTICE": "note", "b/COPYING": "\nmit", "b/TERMS": "terms", "b/README": "no"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "a" / "LICENSES").mkdir()
    monkeypatch.setattr(licences, "linked_crates", lambda root: crates)
    head, mit, note, terms = (
        part.strip() for part in licences.third_party(tmp_path).replace("=" * 80 + "\n\n", "").split("=" * 80)
    )
    assert head.splitlines()[-2:] == ["- a 1: MIT (https://a)", "- b 1: see its licence file (crates.io)"]
    assert (mit, note, terms) == ("a 1, b 1\nmit", "a 1\nnote", "b 1\nterms")


def test_record_has_the_hash_of_each_file(tmp_path: Path) -> None:
    files = {"x.dist-info/METADATA": b"m", "oneloop/_native.so": b"so", "oneloop/a.py": b"a"}
    archive.write(tmp_path / "x.whl", files, "x.dist-info")
    assert archive.read(tmp_path / "x.whl") == files
    with zipfile.ZipFile(tmp_path / "x.whl") as written:
        names = written.namelist()
        modes = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in written.infolist()}
        rows = [line.split(",") for line in written.read("x.dist-info/RECORD").decode().splitlines()]
    assert names == ["oneloop/_native.so", "oneloop/a.py", "x.dist-info/METADATA", "x.dist-info/RECORD"]
    assert [row[0] for row in rows] == names
    for name, digest, size in rows[:-1]:
        wanted = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).decode().rstrip("=")
        assert (digest, size) == (f"sha256={wanted}", str(len(files[name])))
    assert rows[-1][1:] == ["", ""]
    assert (modes["oneloop/_native.so"], modes["oneloop/a.py"]) == (0o755, 0o644)


def test_template_without_the_lines_to_replace_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "SOURCES", tmp_path)
    for text in ('__version__ = "0"\n', '__version__ = "0"\n' * 2 + "_NATIVE_NAMES: set = 1\n"):
        (tmp_path / "__init__.py").write_text(text)
        with pytest.raises(ValueError, match="does not have one line"):
            fallback.source("1", [])


class Ran:
    """The commands that `trial` runs."""

    def __init__(self, status: int = 0, fails: str = "smoke.py") -> None:
        self.commands: list[list[str]] = []
        self.environments: list[dict[str, str] | None] = []
        self._status = status
        self._fails = fails

    def __call__(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        self.environments.append(options.get("env"))
        status = self._status if any(word.endswith(self._fails) for word in command) else 0
        return subprocess.CompletedProcess(command, status, "interpreter\n-X\n", "first\nlast\n" if status else "")


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    ran = Ran()
    monkeypatch.setattr(subprocess, "run", ran)
    monkeypatch.setattr(trial, "BUILD", tmp_path)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setenv("PYTHONPATH", "/x")
    monkeypatch.setenv("PYTHONSTARTUP", "/y")
    return ran


def test_wheel_of_this_system_is_tried_in_an_environment(tmp_path: Path, tried: Ran) -> None:
    folder = tmp_path / "tried" / "x86_64-gnu-3.13"
    of_the_last_wheel = folder / "lib"
    of_the_last_wheel.mkdir(parents=True)
    assert trial.run(Path("x.whl"), TARGETS["x86_64-gnu"], "3.13") == "interpreter\n-X"
    asked, made, installed, smoke = tried.commands
    assert asked[1:] == ["x86_64-gnu", "3.13"]
    assert made == ["interpreter", "-X", "-m", "venv", str(folder)]
    python = str(folder / "bin" / "python")
    assert installed == [python, *trial.PIP, "x.whl"]
    assert smoke == [python, "-s", "-W", "error", str(trial.SMOKE), project.version()]
    environment = tried.environments[-1]
    assert environment is not None
    assert {name: value for name, value in environment.items() if name.startswith("PYTHON")} == {
        "PYTHONPATH": str(folder)
    }
    assert environment["PATH"] == os.environ["PATH"]
    assert not of_the_last_wheel.exists()


def test_wheel_of_another_system_is_installed_by_its_tags(tmp_path: Path, tried: Ran) -> None:
    wheel = Path("oneloop-1-cp313-cp313-manylinux_2_17_aarch64.manylinux2014_aarch64.whl")
    trial.run(wheel, TARGETS["aarch64-gnu"], "3.13")
    _, installed, smoke = tried.commands
    assert installed[0] == sys.executable
    assert {"--platform=manylinux_2_17_aarch64", "--platform=manylinux2014_aarch64", "--python-version=3.13"} <= set(
        installed
    )
    assert f"--target={tmp_path / 'tried' / 'aarch64-gnu-3.13'}" in installed
    assert smoke[:3] == ["interpreter", "-X", "-s"]


def test_smoke_test_that_fails_is_an_error(tried: Ran) -> None:
    tried._status = 1
    with pytest.raises(subprocess.CalledProcessError) as failed:
        trial.run(Path("x.whl"), TARGETS["x86_64-gnu"], "3.13")
    assert failed.value.stderr == "first\nlast\n"


def test_interpreter_that_is_missing_is_told(tried: Ran) -> None:
    tried._status, tried._fails = 1, "wheel-python.sh"
    with pytest.raises(trial.NoInterpreterError, match=r"^last$"):
        trial.run(Path("x.whl"), TARGETS["x86_64-gnu"], "3.13")
