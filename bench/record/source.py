"""What was measured: the commit, uncommitted changes, and a digest of the code of a suite.

The digest is that of the files' contents, so it needs no git and does not change with a commit that changes other code.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

#: Written by the record itself, so a change of them is no change of what is measured.
WRITTEN = ("bench/record/record.json", "README.md", "docs/")
_CODE = (".rs", ".py", ".pyi", ".go", ".js", ".toml", ".lock")
_DIGITS = 16


class GitError(Exception):
    """git could not say what is measured."""


def _git(root: Path, *args: str) -> str:
    try:
        done = subprocess.run(["git", *args], cwd=root, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise GitError(f"git {args[0]}: {error}") from error
    return done.stdout


def commit(root: Path) -> str:
    """The commit of the working tree. Raises GitError."""
    return _git(root, "rev-parse", "--short=12", "HEAD").strip()


def changed(root: Path) -> list[str]:
    """Files with uncommitted changes, less those that the record writes. Raises GitError."""
    lines = _git(root, "status", "--porcelain", "--untracked-files=all").splitlines()
    names = (line[3:].rpartition(" -> ")[2].strip('"') for line in lines)
    return [name for name in names if not name.startswith(WRITTEN)]


def files(root: Path, pattern: str) -> Iterator[Path]:
    """The code that matches: a folder with all below it, or files by pattern. Tests do not count."""
    is_folder = (root / pattern).is_dir()
    for path in sorted((root / pattern).rglob("*") if is_folder else root.glob(pattern)):
        parts = path.relative_to(root).parts
        if path.suffix in _CODE and path.is_file() and "tests" not in parts and path.name != "tests.rs":
            yield path


def digest(root: Path, pattern: str) -> str:
    """A digest of the code that matches."""
    found = hashlib.sha256()
    for path in files(root, pattern):
        found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:_DIGITS]


def digests(root: Path, patterns: Iterable[str]) -> dict[str, str]:
    """The digest of each."""
    return {pattern: digest(root, pattern) for pattern in patterns}
