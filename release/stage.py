"""Prepares the stage: the folder with the sources from which a release is built.

It has the content of the source distribution. The README has no links to other files there, and the licences of the
crates are added. The wheels are built from this folder, which shows that the source distribution is complete.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

from release import licences, readme
from release.project import BUILD, ROOT, metadata, version

STAGE = BUILD / "source"


def environment() -> dict[str, str]:
    """Return the environment for cargo and maturin, in which programs of this virtual environment come first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "VIRTUAL_ENV": sys.prefix}


def sdist(source: Path, out: Path) -> Path:
    """Make the source distribution of a folder.

    Args:
        source: the folder with the sources.
        out: the folder for the source distribution.

    Returns:
        The source distribution.
    """
    out.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["maturin", "sdist", "--out", str(out)], cwd=source, env=environment(), check=True, stderr=subprocess.DEVNULL
    )
    return out / f"{metadata(source)['name']}-{version(source)}.tar.gz"


def prepare(out: Path) -> Path:
    """Fill the stage and make the source distribution.

    Args:
        out: the folder for the source distribution.

    Returns:
        The source distribution.
    """
    wanted = _content(sdist(ROOT, BUILD / "raw"))
    wanted.pop("PKG-INFO")
    text = wanted["README.md"].decode()
    wanted["README.md"] = readme.without_relative_links(text).encode()
    wanted[licences.NAME] = licences.third_party(ROOT).encode()
    _fill(STAGE, wanted)
    return sdist(STAGE, out)


def pkg_info(archive: Path) -> bytes:
    """Return the metadata of a source distribution."""
    return _content(archive)["PKG-INFO"]


def licence_files(archive: Path) -> dict[str, bytes]:
    """Return the licence files of a source distribution by name."""
    return {name: text for name, text in _content(archive).items() if name.startswith("LICENSE-")}


def _content(archive: Path) -> dict[str, bytes]:
    """The files of a source distribution by their paths inside its top folder."""
    found = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member)
            if file is not None:
                found[member.name.partition("/")[2]] = file.read()
    return found


def _fill(folder: Path, wanted: dict[str, bytes]) -> None:
    """Write only the files that differ, because cargo compiles files with a new date again. Remove all other files."""
    if not (folder / ".git").exists():
        folder.mkdir(parents=True, exist_ok=True)
        # The checkout's .gitignore excludes everything below .build. It does not apply inside another repository.
        subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    for file in folder.rglob("*"):
        name = str(file.relative_to(folder))
        if file.is_file() and name not in wanted and not name.startswith(".git/"):
            file.unlink()
    for name, content in wanted.items():
        file = folder / name
        if not file.exists() or file.read_bytes() != content:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
