"""`python -m release.changes`: the news of a change, one file each in `changes`, and how a release gathers them.

A file is named after the part and the kind, `changes/PART.SLUG.KIND.md`, and has one paragraph for users. `gather`
moves them into CHANGELOG.md, below the heading of the version that is in Cargo.toml.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from release.project import ROOT, version

PARTS = {
    "loop": "The loop",
    "tls": "TLS",
    "files": "Files",
    "green": "Green threads",
    "server": "HTTP server",
    "client": "HTTP client",
    "check": "oneloop check",
    "command": "The command oneloop",
    "packages": "Packages and documents",
}
KINDS = ("added", "changed", "deprecated", "removed", "fixed", "upgrade")
"""`upgrade`: what a program must change; it comes first in the list of a version."""

# Commits of this day and later need a file. Earlier ones are in CHANGELOG.md.
FIRST_DAY = "2026-11-28"
CODE = ("python/oneloop/", "crates/")
NO_NEWS = "No-News:"
_NAME = re.compile(r"([a-z]+)\.([a-z0-9-]+)\.([a-z]+)\.md")
WIDTH = 120


@dataclass(frozen=True)
class News:
    """One change, for users."""

    part: str
    kind: str
    text: str


def read(path: Path) -> News:
    """Read a file of `changes`.

    Raises:
        ValueError: its name or its text is not as the head of this module says.
    """
    found = _NAME.fullmatch(path.name)
    if found is None or found[1] not in PARTS or found[3] not in KINDS:
        raise ValueError(f"{path.name}: not PART.SLUG.KIND.md; parts: {', '.join(PARTS)}; kinds: {', '.join(KINDS)}")
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if not lines or not text.endswith(".\n") or any(not line.strip() for line in lines):
        raise ValueError(f"{path.name}: not one paragraph that ends with a full stop")
    if len(max(lines, key=len)) > WIDTH - 2:
        raise ValueError(f"{path.name}: a line of more than {WIDTH - 2} characters")
    if lines[0].startswith(("-", "#", "*")):
        raise ValueError(f"{path.name}: a list or heading; the text is put into a list")
    return News(found[1], found[3], text.rstrip("\n"))


def all_news(folder: Path) -> list[News]:
    """Read all files of a folder, by part and kind."""
    news = [read(path) for path in sorted(folder.glob("*.md")) if path.name != "README.md"]
    return sorted(news, key=lambda one: (one.kind != "upgrade", list(PARTS).index(one.part), KINDS.index(one.kind)))


def written(news: list[News]) -> str:
    """Return the text for CHANGELOG.md: a heading for each part, and one for what a program must change."""
    text = ""
    heading = None
    for one in news:
        this = "Upgrade" if one.kind == "upgrade" else PARTS[one.part]
        if this != heading:
            heading = this
            text += f"\n### {heading}\n\n"
        text += "- " + one.text.replace("\n", "\n  ") + "\n"
    return text


def gather(root: Path, number: str) -> int:
    """Move the news into CHANGELOG.md, below the heading of version `number`. Return how many there were.

    Raises:
        ValueError: CHANGELOG.md has no such heading, or a file is wrong.
    """
    folder, changelog = root / "changes", root / "CHANGELOG.md"
    news = all_news(folder)
    text = changelog.read_text(encoding="utf-8")
    heading = re.search(rf"^## {re.escape(number)}(, .*)?\n", text, re.MULTILINE)
    if heading is None:
        raise ValueError(f"CHANGELOG.md has no heading '## {number}'")
    changelog.write_text(text[: heading.end()] + written(news) + text[heading.end() :], encoding="utf-8")
    for path in folder.glob("*.md"):
        if path.name != "README.md":
            path.unlink()
    return len(news)


def without_news(root: Path, first_day: str = FIRST_DAY) -> list[str]:
    """Return the commits that change the code, have no news, and do not say in their message that there are none.

    A merge is not looked at: its commits are. A later commit can say it for an earlier one: `No-News: COMMIT REASON`.

    Args:
        root: the work tree.
        first_day: commits that were written before, in UTC, need none.
    """
    log = [
        "git",
        "log",
        "--no-merges",
        "--name-only",
        "--date=format-local:%Y-%m-%d",
        "--format=%x00%h%x01%ad%x01%B%x01",
    ]
    done = subprocess.run(log, cwd=root, capture_output=True, text=True, check=True, env={**os.environ, "TZ": "UTC"})
    named = set(re.findall(rf"^{NO_NEWS} *([0-9a-f]{{7,40}})\b", done.stdout, re.MULTILINE))
    missing = []
    for commit in done.stdout.split("\0")[1:]:
        short, day, message, files = commit.split("\1")
        names = files.split()
        if (
            day >= first_day
            and any(name.startswith(CODE) for name in names)
            and not any(name.startswith(("changes/", "CHANGELOG.md")) for name in names)
            and not any(line.startswith(NO_NEWS) for line in message.splitlines())
            and not any(one.startswith(short) or short.startswith(one) for one in named)
        ):
            missing.append(f"{short} {message.splitlines()[0]}")
    return missing


def main() -> int:
    """Do what the command line says, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m release.changes", description=__doc__)
    parser.add_argument("what", choices=("check", "show", "gather"))
    what = parser.parse_args().what
    try:
        if what == "gather":
            print(f"{gather(ROOT, version())} changes are in CHANGELOG.md now")
            return 0
        news = all_news(ROOT / "changes")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    if what == "show":
        print(written(news), end="")
        return 0
    missing = without_news(ROOT) if (ROOT / ".git").exists() else []
    for commit in missing:
        print(f"no news in `changes`: {commit}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
