"""The checks of a finished wheel, and the exit status of `python -m release`."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("elftools", reason="needs pyelftools, which builds a release")

from elftools.elf.elffile import ELFFile

from release import __main__ as command
from release import archive, build, fallback, floor, licences, stage, symbols, trial
from release.build import TARGETS
from release.elf import Tables, loaded_segments, section_names, with_equal_offsets

MUSL, GNU = TARGETS["x86_64-musl"], TARGETS["x86_64-gnu"]
TOOLS = [pytest.mark.skipif(shutil.which(tool) is None, reason=f"needs {tool}") for tool in ("cc", "rustc")]
pytestmark = [*TOOLS, pytest.mark.skipif(sys.platform != "linux", reason="needs ELF")]

SOURCE = """
int answer = 42;
const char *const text = "moved";
int take(void) { return answer++; }
"""
NEEDS = """
extern int Py_Something(void), _Py_Other(void);
extern int maybe(void) __attribute__((weak));
int call(void) { return maybe ? maybe() : Py_Something() + _Py_Other(); }
"""


def compiled(folder: Path, source: str) -> bytes:
    """A library with debug symbols, whose segments are not where their addresses say."""
    (folder / "library.c").write_text(source)
    options = ["-shared", "-fPIC", "-g", "-Wl,-z,noseparate-code"]
    subprocess.run(["cc", *options, "-o", "library.so", "library.c"], cwd=folder, check=True, timeout=60)
    return (folder / "library.so").read_bytes()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compiled(tmp_path_factory.mktemp("library"), SOURCE)


@pytest.fixture(scope="module")
def stripped(library: bytes) -> bytes:
    return symbols.split_library(with_equal_offsets(library), "_native.so")[0]


def wheel(folder: Path, native: bytes, *missing: str) -> Path:
    """A wheel with this library."""
    info = "oneloop-1.dist-info"
    files = {"oneloop/py.typed": b"", "oneloop/_native.pyi": b"", "oneloop/_native.so": native}
    files |= {f"{info}/METADATA": b"", f"{info}/licenses/{licences.NAME}": b""}
    path = folder / "oneloop-1-cp313-cp313-x.whl"
    archive.write(path, {name: files[name] for name in files if not name.endswith(missing or ("?",))}, info)
    return path


def errors(path: Path, target: build.Target = MUSL) -> str:
    """What is wrong with a wheel."""
    try:
        floor.check(path, target)
    except ValueError as error:
        return str(error)
    return ""


def test_stripped_library_is_right(tmp_path: Path, library: bytes, stripped: bytes) -> None:
    assert errors(wheel(tmp_path, stripped)) == ""
    names = section_names(stripped)
    assert ".gnu_debuglink" in names
    assert not {".symtab", ".debug_info"} & set(names)
    assert b"_native.so.debug\0" in stripped
    (tmp_path / "_native.so").write_bytes(stripped)
    loaded = ctypes.CDLL(str(tmp_path / "_native.so"))
    assert (loaded.take(), loaded.take()) == (42, 43)
    assert ctypes.c_char_p.in_dll(loaded, "text").value == b"moved"


@pytest.mark.parametrize("missing", ["py.typed", "_native.pyi", licences.NAME])
def test_missing_file(tmp_path: Path, stripped: bytes, missing: str) -> None:
    assert errors(wheel(tmp_path, stripped, missing)).partition(": ")[2].startswith("no oneloop")


def test_debug_symbols_in_the_wheel(tmp_path: Path, library: bytes) -> None:
    assert "has debug symbols, or no .gnu_debuglink" in errors(wheel(tmp_path, with_equal_offsets(library)))


def test_library_that_does_not_name_its_symbols(tmp_path: Path, library: bytes) -> None:
    (tmp_path / "whole").write_bytes(library)
    symbols.objcopy("--strip-all", str(tmp_path / "whole"), str(tmp_path / "stripped"))
    native = with_equal_offsets((tmp_path / "stripped").read_bytes())
    assert "has debug symbols, or no .gnu_debuglink" in errors(wheel(tmp_path, native))


def test_segments_that_are_elsewhere(tmp_path: Path, library: bytes) -> None:
    assert any(offset != address for offset, address, _ in loaded_segments(library))
    assert "file offsets differ from addresses" in errors(wheel(tmp_path, library))


def test_wheel_that_is_too_large(tmp_path: Path, stripped: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    path = wheel(tmp_path, stripped)
    monkeypatch.setattr(floor, "LIMIT_BYTES", path.stat().st_size)
    assert errors(path) == ""
    monkeypatch.setattr(floor, "LIMIT_BYTES", path.stat().st_size - 1)
    assert "larger than" in errors(path)


@pytest.mark.parametrize("name", sorted(floor.SINCE_MUSL_1_2))
def test_functions_that_an_old_musl_does_not_have(tmp_path: Path, name: str) -> None:
    found = floor._too_new(compiled(tmp_path, f"extern int {name}(void); int f(void) {{ return {name}(); }}"), MUSL)
    assert found == [name]


def test_functions_without_a_version_are_not_in_glibc(tmp_path: Path) -> None:
    source = (
        f"{NEEDS}\n#include <string.h>\nextern int new_one(void); int f(char *s) {{ return new_one() + strlen(s); }}"
    )
    assert floor._too_new(compiled(tmp_path, source), GNU) == ["new_one"]
    assert floor._too_new(compiled(tmp_path, source), MUSL) == []


@pytest.mark.parametrize(
    ("said", "is_right"),
    [
        ('platform tag:\n"manylinux_2_17_x86_64".', True),
        ('platform tag:\n"manylinux_2_5_x86_64".', True),
        ('platform tag:\n"manylinux_2_28_x86_64".', False),
        ('platform tag:\n"linux_x86_64".', False),
        ("nothing", False),
    ],
)
def test_tag_is_confirmed_by_auditwheel(
    tmp_path: Path, stripped: bytes, monkeypatch: pytest.MonkeyPatch, said: str, is_right: bool
) -> None:
    path = wheel(tmp_path, stripped)
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 0, said, ""))
    assert ("auditwheel does not confirm manylinux_2_17_x86_64" in errors(path, GNU)) == (not is_right)


def test_symbols_go_into_a_file_of_their_own(tmp_path: Path, library: bytes) -> None:
    source = wheel(tmp_path, library)
    written = symbols.split(source, tmp_path / "out", tmp_path / "debug")
    assert written == tmp_path / "out" / source.name
    assert errors(written) == ""
    [debug] = (tmp_path / "debug").iterdir()
    assert debug.name == f"{source.stem}.debug.zip"
    with zipfile.ZipFile(debug) as files:
        assert files.namelist() == ["oneloop/_native.so.debug"]
        whole = files.read("oneloop/_native.so.debug")
    assert {".symtab", ".debug_info"} <= set(section_names(whole))
    assert all(offset == address for offset, address, _ in loaded_segments(whole))


def test_sections_keep_their_content_and_alignment(tmp_path: Path, library: bytes) -> None:
    (tmp_path / "old").write_bytes(library)
    (tmp_path / "new").write_bytes(with_equal_offsets(library))
    with (tmp_path / "old").open("rb") as old, (tmp_path / "new").open("rb") as new:
        before, after = list(ELFFile(old).iter_sections()), list(ELFFile(new).iter_sections())
        assert [section.name for section in before] == [section.name for section in after]
        for one, other in zip(before, after, strict=True):
            if one["sh_type"] != "SHT_NOBITS":
                assert one.data() == other.data(), one.name
            assert other["sh_offset"] % max(other["sh_addralign"], 1) == 0, one.name
    assert Tables.of(with_equal_offsets(library)).sections % 8 == 0


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (None, 0, "ran on smoke"),
        (trial.NoInterpreterError("no emulator"), 0, "BUILT, NOT RUN: no emulator"),
        (ValueError("no py.typed"), 1, "WRONG: no py.typed"),
        (subprocess.CalledProcessError(1, "smoke", stderr="failed"), 1, "FAILED: failed"),
    ],
)
def test_status_of_a_release(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception | None,
    status: int,
    says: str,
) -> None:
    wheels = [tmp_path / "one.whl", tmp_path / "two.whl"]
    for path in wheels:
        path.touch()

    def check(path: Path, target: build.Target) -> None:
        # The second one is right.
        if error is not None and path == wheels[0]:
            raise error

    monkeypatch.setattr(build, "build", lambda target, versions, out: wheels)
    monkeypatch.setattr(command, "check", check)
    monkeypatch.setattr(trial, "run", lambda path, target, python: "smoke")
    assert command._make(GNU, ("3.12", "3.13"), tmp_path) == status
    _, first, second = capsys.readouterr().out.splitlines()
    assert says in first
    assert "ran on smoke" in second


def test_target_that_cannot_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(target: build.Target, versions: object, out: Path) -> list[Path]:
        raise subprocess.CalledProcessError(7, "maturin")

    monkeypatch.setattr(build, "build", fail)
    assert command._make(GNU, ("3.13",), tmp_path) == 1
    assert "FAILED to build, status 7" in capsys.readouterr().out


def test_first_target_that_fails_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr(stage, "prepare", lambda out: file)
    monkeypatch.setattr(stage, "pkg_info", lambda source: b"")
    monkeypatch.setattr(stage, "licence_files", lambda source: {})
    monkeypatch.setattr(fallback, "build", lambda *arguments: file)
    statuses = [1, 0]
    monkeypatch.setattr(command, "_make", lambda target, versions, out: statuses.pop(0))
    monkeypatch.setattr(sys, "argv", ["release", "--targets", "x86_64-gnu", "x86_64-musl", "--out", str(tmp_path)])
    assert command.main() == 1
    assert statuses == []
