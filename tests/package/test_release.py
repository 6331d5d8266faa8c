"""What a release uploads: metadata, licences, the wheel for other systems. `make wheels` tries the native wheels."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.parser import BytesParser
from pathlib import Path
from textwrap import dedent

import pytest

import oneloop
from oneloop.cli import docs
from release import archive, fallback, licences, readme
from release.build import TARGETS, VERSIONS
from release.elf import loaded_segments, with_equal_offsets
from release.project import ROOT, metadata, version
from release.stage import sdist

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_no_address_is_that_of_a_repository_that_does_not_exist() -> None:
    assert "urls" not in metadata()
    for name in ("check", "serve"):
        parser = importlib.import_module(f"oneloop.cli.{name}").parser()
        assert "://" not in parser.format_help()
        assert f"oneloop docs reference/{name}" in " ".join(parser.format_help().split())
        assert f"reference/{name}" in docs.pages()


def test_version_is_stated_once() -> None:
    stated = version()
    assert oneloop.__version__ == stated
    assert "version" in metadata()["dynamic"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(r"^## (\S+?)(,|$)", changes, re.MULTILINE)
    assert found is not None
    assert found.group(1) == stated
    for crate in ROOT.glob("crates/*/Cargo.toml"):
        assert "version.workspace = true" in crate.read_text(encoding="utf-8"), crate
    files = {*ROOT.glob("python/oneloop/**/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"}
    # The results of benchmarks name the version that was measured.
    for file in files - {ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "benchmarks-raw.md"}:
        assert not re.search(rf"oneloop[-_ =\"']+v?{re.escape(stated)}\b", file.read_text(encoding="utf-8")), file


def test_links_of_the_readme_work_outside_the_repository() -> None:
    assert any(target.startswith("docs/") for target in readme.links(README))
    changed = readme.without_relative_links(README)
    for target in readme.links(changed):
        assert target.startswith(("https://", "#")), target
    assert readme.without_relative_links(changed) == changed


def test_the_plain_loop_needs_nothing_and_all_is_every_extra() -> None:
    table = metadata()
    extras = dict(table["optional-dependencies"])
    assert table.get("dependencies", []) == []
    assert extras.pop("all") == [f"oneloop[{','.join(extras)}]"]
    assert set(extras) == {"green", "check"}


def test_versions_of_python_are_those_of_the_classifiers() -> None:
    named = [line.rpartition(" ")[2] for line in metadata()["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert named == list(VERSIONS)
    assert metadata()["requires-python"] == f">={VERSIONS[0]}"
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    main, smoke = re.search(r"^main=(\S+)\nsmoke=\((.*)\)$", ci, re.MULTILINE).groups()  # type: ignore[union-attr]
    assert main in VERSIONS
    assert smoke.split() == [VERSIONS[0], VERSIONS[-1]]


def test_targets_are_two_processors_with_both_libraries() -> None:
    assert sorted(TARGETS) == ["aarch64-gnu", "aarch64-musl", "x86_64-gnu", "x86_64-musl"]
    for target in TARGETS.values():
        assert target.tag in ("manylinux_2_17", "musllinux_1_2")


@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")
def test_every_crate_has_its_licence_in_the_file() -> None:
    crates = licences.linked_crates(ROOT)
    text = licences.third_party(ROOT)
    assert {"ring", "rustls", "rustls-webpki", "httparse", "pyo3"} <= {crate["name"] for crate in crates}
    assert not {"pyo3-build-config", "cc", "pyo3-macros", "syn"} & {crate["name"] for crate in crates}
    for crate in crates:
        assert licences.licence_files(crate), crate["name"]
        assert f"- {crate['name']} {crate['version']}: " in text
    # nghttp2 is inside of a crate.
    assert "Tatsuhiro Tsujikawa" in text


def test_a_library_keeps_its_memory_when_its_segments_move() -> None:
    spread = (ROOT / "python" / "oneloop").glob("_native*.so")
    data = next(spread).read_bytes()
    moved = with_equal_offsets(data)
    assert all(offset == address for offset, address, _ in loaded_segments(moved))
    for (old, _, size), (new, address, new_size) in zip(loaded_segments(data), loaded_segments(moved), strict=True):
        assert (new, size) == (address, new_size)
        if old:  # the first segment has the headers, which say where the others are
            assert moved[new : new + size] == data[old : old + size]
    assert with_equal_offsets(moved) == moved


def test_a_changed_library_can_be_loaded(tmp_path: Path) -> None:
    original = next((ROOT / "python" / "oneloop").glob(f"_native.{sys.implementation.cache_tag}*.so"))
    (tmp_path / original.name).write_bytes(with_equal_offsets(original.read_bytes()))
    program = "import _native; print(_native.__version__)"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == version()


def test_a_library_that_is_not_elf_is_refused() -> None:
    with pytest.raises(ValueError, match="not an ELF file"):
        with_equal_offsets(b"\x7fELF\x01\x01" + bytes(100))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution."""
    pytest.importorskip("maturin")
    return sdist(ROOT, tmp_path_factory.mktemp("source"))


def test_source_distribution_has_the_pages_as_files(source: Path) -> None:
    with tarfile.open(source) as tar:
        members = {member.name.partition("/")[2]: member for member in tar}
    for name in docs.pages():
        assert members[f"python/oneloop/documents/{name}.md"].isreg(), name


@pytest.fixture(scope="module")
def other_wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel for other systems, from the metadata of the source distribution."""
    folder = tmp_path_factory.mktemp("release")
    from release.stage import licence_files, pkg_info

    return fallback.build(pkg_info(source), licence_files(source), version(), folder)


@pytest.fixture(scope="module")
def other_python(other_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean environment with the wheel for other systems."""
    folder = tmp_path_factory.mktemp("other") / "venv"
    venv.create(folder)
    target = next((folder / "lib").glob("python*/site-packages"))
    with zipfile.ZipFile(other_wheel) as files:
        files.extractall(target)
    return folder / "bin" / "python"


def run(python: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(python), "-I", *options, "-c", dedent(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_other_systems_get_the_same_metadata(other_wheel: Path) -> None:
    files = archive.read(other_wheel)
    found = BytesParser().parsebytes(files[f"oneloop-{version()}.dist-info/METADATA"])
    assert (found["Name"], found["Version"]) == ("oneloop", version())
    assert found.get_all("Provides-Extra") == ["all", "check", "green"]
    assert f"oneloop-{version()}.dist-info/licenses/LICENSE-MIT" in files


def test_other_systems_run_asyncio_with_one_warning(other_python: Path) -> None:
    done = run(
        other_python,
        """
        import asyncio, warnings
        import oneloop

        async def main():
            return type(asyncio.get_running_loop()).__module__, asyncio.get_running_loop().get_debug()

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            print(oneloop.run(main()))
            print(oneloop.run(main(), debug=True, loop_factory=asyncio.SelectorEventLoop))
        for warning in caught:
            print(warning.category.__name__, warning.filename, warning.message)
        """,
    )
    first, second, warned = done.stdout.splitlines()
    assert (first, second) == ("('asyncio.unix_events', False)", "('asyncio.unix_events', True)")
    assert warned.startswith("RuntimeWarning <string> oneloop.run is asyncio.run on this system. ")
    assert "pip install --no-binary oneloop oneloop" in warned


def test_other_systems_have_no_other_name_and_say_so(other_python: Path) -> None:
    names = sorted({*oneloop.__all__, "aio", "check", "files", "green", "http", "tls"} - {"run", "__version__"})
    done = run(
        other_python,
        f"""
        import importlib, oneloop
        assert (oneloop.__version__, oneloop.__all__) == ({version()!r}, ["__version__", "run"])
        for name in {names}:
            assert not hasattr(oneloop, name), name
            try:
                getattr(oneloop, name)
            except AttributeError as error:
                assert f"there is no oneloop.{{name}} on this system" in str(error), error
            for statement in (f"from oneloop import {{name}}", f"import oneloop.{{name}}"):
                try:
                    exec(statement)
                except ImportError as error:
                    assert f"there is no oneloop.{{name}} on this system" in str(error), error
                else:
                    raise AssertionError(statement)
        assert not hasattr(oneloop, "nothing")
        """,
        "-W",
        "error",
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("platform.python_implementation = lambda: 'PyPy'", "this is Linux x86_64, PyPy "),
        ("sysconfig.get_config_vars()['Py_GIL_DISABLED'] = 1", " (free-threaded). "),
    ],
)
def test_systems_for_which_it_cannot_be_built_are_not_told_to_build_it(
    other_python: Path, made: str, said: str
) -> None:
    program = f"""
        import platform, sys, sysconfig
        platform.system, platform.machine, sys.platform = lambda: "Linux", lambda: "x86_64", "linux"
        {made}
        import oneloop
        oneloop.Loop
        """
    done = run(other_python, program)
    assert said in done.stderr
    assert done.stderr.endswith("PyPy and free-threaded builds are not supported.\n")
    assert "pip" not in done.stderr.splitlines()[-1]


def test_other_systems_have_a_command_that_says_so(other_python: Path) -> None:
    command = [str(other_python), "-I", "-m", "oneloop", "run", "app.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("oneloop: the command does not exist on this system. ")
