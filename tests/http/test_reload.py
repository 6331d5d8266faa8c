"""`--reload`: a change of a file starts the application again; nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from oneloop.http.options import Options
from oneloop.http.reloading import Watching
from tests.http.service import APPS, Service

pytestmark = pytest.mark.time_limit(180)


def test_a_change_starts_it_again(tmp_path: Path) -> None:
    (tmp_path / "other.txt").touch()
    with Service(tmp_path, "--reload", "--reload-delay", "0.05") as service:
        service.log.wait_for("Will watch for changes in")
        first = service.get("/")
        # The watch may not stand yet: it says nothing of itself. So the file is written until it is seen.
        source = APPS.replace("str(os.getpid())", "'changed ' + str(os.getpid())")
        for _ in range(50):
            (tmp_path / "apps.py").write_text(source)
            service.log.read_more(0.2)
            if "Detected changes" in service.log.text:
                break
        service.log.wait_for("Detected changes in '.*apps.py'. Reloading...")
        service.log.wait_for("Application startup complete")
        changed = service.get("/")
        assert changed.startswith("changed ")
        assert first not in changed

        (tmp_path / "other.txt").write_text("no reason")
        (tmp_path / "apps.py").write_text("broken(")
        service.log.wait_for("failed to start: it ended with status 3. The next change of a file starts it again")
        (tmp_path / "apps.py").write_text(APPS)
        service.log.wait_for("Application startup complete")
        assert service.get("/").isdecimal()
        assert service.end() == 0
    assert "other.txt" not in service.log.text


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("a/b.py", True),
        ("a/b.txt", False),
        ("a/b.html", True),
        ("a/.b.py", False),
        ("a/~b.py", False),
        ("a/b.pyc", False),
        ("a/test_b.py", False),
    ],
)
def test_names(path: str, counts: bool) -> None:
    options = Options(reload=True, reload_includes=["*.html"], reload_excludes=["test_*"])
    assert Watching(options).counts(path) is counts


def test_folders_that_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "generated").mkdir()
    options = Options(reload=True, reload_dirs=[str(tmp_path)], reload_excludes=[str(tmp_path / "generated")])
    watching = Watching(options)
    assert watching.folders == [tmp_path]
    assert watching.counts(str(tmp_path / "x.py"))
    assert not watching.counts(str(tmp_path / "generated" / "x.py"))


def test_a_folder_in_another_is_watched_with_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    options = Options(reload=True, reload_dirs=[str(tmp_path / "deep"), str(tmp_path)])
    assert Watching(options).folders == [tmp_path]
