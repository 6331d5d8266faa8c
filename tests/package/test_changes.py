"""`release.changes`: the news of a change, and how a release gathers them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from release import changes
from release.project import ROOT

GOOD = "The loop no longer waits\nfor what is over.\n"


def folder_with(root: Path, **files: str) -> Path:
    """Write files, whose names have `__` for a dot and `_` for `-`."""
    folder = root / "changes"
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / (name.replace("__", ".").replace("_", "-") + ".md")).write_text(text)
    return folder


def test_the_news_of_this_tree_are_readable() -> None:
    changes.all_news(ROOT / "changes")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("loop__fixed", GOOD, r"not PART\.SLUG\.KIND"),
        ("engine__wait__fixed", GOOD, "parts: loop, tls"),
        ("loop__wait__mended", GOOD, "kinds: added"),
        ("loop__wait__fixed", "", "not one paragraph"),
        ("loop__wait__fixed", "No full stop\n", "not one paragraph"),
        ("loop__wait__fixed", "Two.\n\nParagraphs.\n", "not one paragraph"),
        ("loop__wait__fixed", "- A list.\n", "a list or heading"),
        ("loop__wait__fixed", "x" * 118 + ".\n", "more than 118"),
    ],
)
def test_wrong_news_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    folder = folder_with(tmp_path, **{name: text})
    with pytest.raises(ValueError, match=message):
        changes.all_news(folder)


def test_gather_writes_what_to_upgrade_first_and_each_part_once(tmp_path: Path) -> None:
    folder = folder_with(
        tmp_path,
        README="# News\n",
        files__one__fixed="Files.\n",
        loop__two__fixed=GOOD,
        loop__three__added="Added.\n",
        client__four__upgrade="Rename it.\n",
    )
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## 0.2.0, not released\n\n### Old\n\n## 0.1.0\n")
    assert changes.gather(tmp_path, "0.2.0") == 4
    assert (tmp_path / "CHANGELOG.md").read_text() == (
        "# Changes\n\n## 0.2.0, not released\n\n### Upgrade\n\n- Rename it.\n\n### The loop\n\n- Added.\n"
        "- The loop no longer waits\n  for what is over.\n\n### Files\n\n- Files.\n\n### Old\n\n## 0.1.0\n"
    )
    assert [path.name for path in folder.iterdir()] == ["README.md"]
    with pytest.raises(ValueError, match=r"no heading '## 0\.3\.0'"):
        changes.gather(tmp_path, "0.3.0")


def commit(root: Path, path: str, message: str, day: str = "2030-01-02") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(message)
    when = f"{day}T12:00:00+00:00"
    settings = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when, "HOME": str(root), "PATH": "/usr/bin:/bin"}
    git = ["git", "-c", "user.name=Test", "-c", "user.email=test@localhost"]
    for words in (["add", "-A"], ["commit", "-q", "-m", message]):
        subprocess.run([*git, *words], cwd=root, env=settings, check=True)


def test_commits_that_change_the_code_need_news(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    commit(tmp_path, "python/oneloop/a.py", "loop: before", day="2029-12-31")
    commit(tmp_path, "docs/a.md", "docs: no code")
    commit(tmp_path, "crates/engine/src/a.rs", "engine: nobody notices\n\nNo-News: renamed")
    assert changes.without_news(tmp_path, "2030-01-01") == []
    folder_with(tmp_path, loop__wait__fixed=GOOD)
    commit(tmp_path, "python/oneloop/b.py", "loop: with news")
    assert changes.without_news(tmp_path, "2030-01-01") == []
    commit(tmp_path, "crates/engine/src/b.rs", "engine: without")
    assert [line.split(" ", 1)[1] for line in changes.without_news(tmp_path, "2030-01-01")] == ["engine: without"]
