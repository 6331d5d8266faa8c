"""`--reload`: a change of a file starts the application again; nothing else does."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from oneloop.http import reloading
from oneloop.http.links import Links, silent_mounts
from oneloop.http.options import Options
from oneloop.http.reloading import Watching
from tests.http.service import APPS, Service, read_all

pytestmark = pytest.mark.time_limit(180)


def test_a_change_starts_it_again(tmp_path: Path) -> None:
    (tmp_path / "other.txt").touch()
    with Service(tmp_path, "--reload", "--reload-delay", "0.05") as service:
        # Said by another process, before or behind what the server says.
        while "Will watch for changes in" not in service.log.text:
            service.log.read_more(1.0)
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


def quiet(service: Service) -> int:
    """Wait until the service says nothing more; return how many workers were started, or failed to."""
    text = ""
    while text != service.log.text:
        text = service.log.text
        for _ in range(4):
            service.log.read_more(0.2)
    return text.count("Started server process") + text.count("failed to start")


@pytest.mark.parametrize("arguments", [(), ("--limit-max-requests", "1")], ids=["SIGHUP", "a limit"])
def test_what_replaces_a_worker_is_not_replaced_itself(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with Service(tmp_path, "--reload", *arguments) as service:
        if arguments:
            service.get("/")
        else:
            service.send(signal.SIGHUP)
        service.log.wait_for(r"Worker \[\d+\] ended with status 0")
        assert quiet(service) == 2
        assert service.end() == 0


@pytest.mark.parametrize("second", [APPS, "broken("], ids=["works", "broken"])
def test_changes_while_the_old_worker_ends(tmp_path: Path, second: str) -> None:
    waits = ("--timeout-graceful-shutdown", "60")
    with Service(tmp_path, "--reload", "--reload-delay", "0.05", *waits) as service:
        waiting = service.held("/wait")
        for number, source in enumerate((APPS, second), 1):
            for _ in range(50):
                (tmp_path / "apps.py").write_text(source)
                service.log.read_more(0.2)
                if service.log.text.count("Detected changes") >= number:
                    break
        service.log.wait_for("Started server process" if second == APPS else "failed to start")
        started = quiet(service)
        (tmp_path / "go").touch()
        assert read_all(waiting).startswith(b"HTTP/1.1 200 OK")
        assert quiet(service) == started
        if second != APPS:
            (tmp_path / "apps.py").write_text(APPS)
            service.log.wait_for("Application startup complete")
        assert service.get("/").isdecimal()
        assert service.end() == 0


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


def test_a_link_that_is_left_out(tmp_path: Path) -> None:
    folder, other = tmp_path / "app", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    (folder / "shared").symlink_to(other)
    options = Options(reload=True, reload_dirs=[str(folder)], reload_excludes=[str(folder / "shared")])
    assert not Watching(options).counts(str(folder / "shared" / "x.py"))
    assert not Watching(options).counts(str(other / "x.py"))


def test_a_folder_in_another_is_watched_with_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    options = Options(reload=True, reload_dirs=[str(tmp_path / "deep"), str(tmp_path)])
    assert Watching(options).folders == [tmp_path]


class Told:
    """A `Watching` of a folder in the test's own process: what it reports."""

    def __init__(self, folder: Path) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.ours.settimeout(60)
        watching = Watching(Options(reload=True, reload_dirs=[str(folder)], reload_delay=0))
        self.thread = threading.Thread(target=watching.run, args=(self.theirs,))
        self.thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.ours.close()
        self.thread.join(60)
        self.theirs.close()

    def wait_for(self, change: Callable[[], object]) -> list[str]:
        """Make a change until it is seen: the watch does not tell when it has begun. Returns the paths."""
        self.ours.settimeout(1.5)
        for _ in range(40):
            change()
            try:
                return self.ours.recv(65536).decode().splitlines()
            except TimeoutError:
                continue
        raise AssertionError("nothing was reported")


def replace_link(link: Path, target: str) -> None:
    """As kubelet and deployments do."""
    new = link.with_name("..new")
    new.symlink_to(target)
    new.replace(link)


def write(path: Path) -> None:
    path.write_text(f"x = {time.monotonic_ns()}\n")


def module_elsewhere(folder: Path, other: Path) -> Callable[[], object]:
    write(other / "real.py")
    (folder / "linked.py").symlink_to(other / "real.py")
    return lambda: write(other / "real.py")


def module_elsewhere_is_renamed(folder: Path, other: Path) -> Callable[[], object]:
    """As editors write."""
    write(other / "real.py")
    (folder / "linked.py").symlink_to(other / "real.py")

    def change() -> None:
        write(other / "new.py")
        (other / "new.py").replace(other / "real.py")

    return change


def chain(folder: Path, other: Path) -> Callable[[], object]:
    write(other / "real.py")
    (other / "second").symlink_to("real.py")
    (folder / "linked.py").symlink_to(other / "second")
    return lambda: write(other / "real.py")


def directory_elsewhere(folder: Path, other: Path) -> Callable[[], object]:
    (other / "deep").mkdir()
    write(other / "deep" / "real.py")
    # Leads back: it must not be followed for ever.
    (other / "deep" / "up").symlink_to(other)
    (folder / "package").symlink_to(other)
    return lambda: write(other / "deep" / "real.py")


def new_file_in_a_directory_elsewhere(folder: Path, other: Path) -> Callable[[], object]:
    (folder / "package").symlink_to(other)
    return lambda: write(other / f"new_{time.monotonic_ns()}.py")


def kubernetes(folder: Path, other: Path) -> Callable[[], object]:
    for version in ("..1", "..2"):
        (folder / version).mkdir()
        write(folder / version / "app.py")
    (folder / "..data").symlink_to("..1")
    (folder / "app.py").symlink_to("..data/app.py")
    versions = itertools.cycle(["..2", "..1"])
    return lambda: replace_link(folder / "..data", next(versions))


def link_that_comes_later(folder: Path, other: Path) -> Callable[[], object]:
    write(other / "real.py")
    steps = itertools.count()

    def change() -> None:
        if next(steps) == 2:
            # Not named as what counts, so it is no change itself.
            (folder / "later").symlink_to(other)
        write(other / "real.py")

    return change


def another_name_in_the_same_directory(folder: Path, other: Path) -> Callable[[], object]:
    """What inotify reports has a name that does not count."""
    write(folder / "settings.py.dev")
    (folder / "settings.py").symlink_to("settings.py.dev")
    return lambda: write(folder / "settings.py.dev")


def beside_links_to_themselves(folder: Path, other: Path) -> Callable[[], object]:
    write(other / "real.py")
    for number in range(6):
        (other / f"loop{number}").symlink_to(f"loop{number}")
    (folder / "package").symlink_to(other)
    return lambda: write(other / "real.py")


LINKED = [
    (another_name_in_the_same_directory, "settings.py"),
    (beside_links_to_themselves, "package/real.py"),
    (module_elsewhere, "linked.py"),
    (module_elsewhere_is_renamed, "linked.py"),
    (chain, "linked.py"),
    (directory_elsewhere, "package/deep/real.py"),
    (new_file_in_a_directory_elsewhere, "package/new_"),
    (kubernetes, "app.py"),
    (link_that_comes_later, "later/real.py"),
]


@pytest.mark.parametrize(("prepare", "path"), LINKED)
def test_what_links_lead_to(tmp_path: Path, prepare: Callable[[Path, Path], Callable[[], object]], path: str) -> None:
    folder, other = tmp_path / "app", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    change = prepare(folder, other)
    with Told(folder) as told:
        assert any(found.startswith(str(folder / path)) for found in told.wait_for(change))


def test_a_watched_directory_that_is_a_link(tmp_path: Path) -> None:
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        write(tmp_path / version / "app.py")
    (tmp_path / "current").symlink_to("1")
    versions = itertools.cycle(["2", "1"])
    with Told(tmp_path / "current") as told:
        found = told.wait_for(lambda: replace_link(tmp_path / "current", next(versions)))
        assert found == [str(tmp_path / "current" / "app.py")]
        # What is written behind the link now is seen, too.
        assert told.wait_for(lambda: write(tmp_path / "current" / "app.py"))


def replace_folder(folder: Path) -> None:
    (folder.parent / "new").mkdir()
    folder.rename(folder.parent / f"old_{time.monotonic_ns()}")
    (folder.parent / "new").rename(folder)


def make_again(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def replace_above(folder: Path) -> None:
    """A deployment that has the watched folder in it."""
    above = folder.parent
    above.rename(above.with_name(f"old_{time.monotonic_ns()}"))
    folder.mkdir(parents=True)


def remove_above(folder: Path) -> None:
    shutil.rmtree(folder.parent)
    folder.mkdir(parents=True)


@pytest.mark.parametrize("exchange", [replace_folder, make_again, replace_above, remove_above])
def test_a_watched_directory_that_is_replaced(
    tmp_path: Path, exchange: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one is watched as the first one was, with the links in it."""
    monkeypatch.setattr(Watching, "_poll", None)
    folder, other = tmp_path / "service" / "app", tmp_path / "other"
    folder.mkdir(parents=True)
    other.mkdir()
    later = folder / "later.py"
    with Told(folder) as told:
        told.wait_for(lambda: write(folder / "app.py"))
        for _ in range(2):
            exchange(folder)
            # Not only once.
            for _ in range(2):
                while str(later) not in told.wait_for(lambda: write(later)):
                    pass
        (folder / "linked.py").symlink_to(other / "real.py")
        # The first is that the link itself is there.
        for _ in range(2):
            while str(folder / "linked.py") not in told.wait_for(lambda: write(other / "real.py")):
                pass


def test_a_watched_directory_that_comes_with_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    numbers = itertools.count()

    def deploy() -> None:
        new = tmp_path / f"new_{next(numbers)}"
        new.mkdir()
        (new / "app.py").touch()
        folder.rename(new.with_name(f"{new.name}_old"))
        new.rename(folder)

    with Told(folder) as told:
        for _ in range(2):
            assert set(told.wait_for(deploy)) == {str(folder / "app.py")}


def test_a_watched_directory_that_comes_with_its_links(tmp_path: Path) -> None:
    """Nothing is reported of the watched directory itself: the one above is replaced."""
    folder, new, other = tmp_path / "service" / "app", tmp_path / "new" / "app", tmp_path / "other"
    for made in (folder, new, other):
        made.mkdir(parents=True)
    # Its own time is none of a file that counts.
    (new / "shared").symlink_to(other)
    with Told(folder) as told:
        told.wait_for(lambda: write(folder / "app.py"))
        folder.parent.rename(tmp_path / "old")
        new.parent.rename(folder.parent)
        while str(folder / "shared" / "real.py") not in told.wait_for(lambda: write(other / "real.py")):
            pass


def refuse(*_: object, **__: object) -> object:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_directory_that_cannot_be_watched_again_comes_with_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, new = tmp_path / "app", tmp_path / "new"
    folder.mkdir()
    new.mkdir()
    (new / "later.py").touch()
    with Told(folder) as told:
        told.wait_for(lambda: write(folder / "app.py"))
        monkeypatch.setattr(reloading, "watch", refuse)
        folder.rename(tmp_path / "old")
        new.rename(folder)
        # Once: another change would be found by comparing.
        while str(folder / "later.py") not in told.wait_for(lambda: None):
            pass
        # What is removed is a change, too.
        (folder / "later.py").unlink()
        while str(folder / "later.py") not in told.wait_for(lambda: None):
            pass


def test_links_in_a_directory_that_is_polled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reloading, "watch", refuse)
    folder, other = tmp_path / "app", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    with Told(folder) as told:
        told.wait_for(lambda: write(folder / "app.py"))
        # Not named as what counts, so it is no change itself.
        (folder / "later").symlink_to(other)
        while str(folder / "later" / "real.py") not in told.wait_for(lambda: write(other / "real.py")):
            pass


class Stirred(asyncio.Event):
    """As while something is made or removed all the time."""

    def clear(self) -> None:
        pass


async def test_links_are_looked_at_however_busy_the_directory_is(tmp_path: Path) -> None:
    folder, other = tmp_path / "app", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    write(other / "real.py")
    (folder / "linked.py").symlink_to(other / "real.py")
    watching = Watching(Options(reload=True, reload_dirs=[str(folder)]))
    changed: asyncio.Queue[str] = asyncio.Queue()
    stirred = Stirred()
    stirred.set()
    looking = asyncio.ensure_future(watching._watch_links(changed, stirred))
    while changed.empty():
        write(other / "real.py")
        await asyncio.sleep(0.1)
    assert changed.get_nowait() == str(folder / "linked.py")
    looking.cancel()


def test_nothing_is_reported_twice_or_without_a_change(tmp_path: Path) -> None:
    folder, other = tmp_path / "app", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    write(other / "real.py")
    (folder / "linked.py").symlink_to(other / "real.py")
    (folder / "nowhere.py").symlink_to("none")
    (folder / "text").symlink_to(other / "real.txt")
    write(folder / "own.py")
    (folder / "near.py").symlink_to("own.py")
    links = Links([str(folder)], [], lambda path: path.endswith(".py"))
    assert links.find()
    assert links.changes() == []
    assert links.changes() == []
    write(other / "real.py")
    assert links.changes() == [str(folder / "linked.py")]
    assert links.changes() == []
    # The time of the link itself changes with its owner.
    write(other / "real.py")
    os.chown(folder / "linked.py", os.getuid(), os.getgid(), follow_symlinks=False)
    assert links.changes() == [str(folder / "linked.py")]
    (other / "real.py").unlink()
    assert links.changes() == [str(folder / "linked.py")]
    write(other / "real.py")
    assert links.changes() == [str(folder / "linked.py")]
    # inotify reports these.
    write(folder / "own.py")
    write(folder / "new.py")
    (folder / "new.py").replace(folder / "own.py")
    write(other / "second.py")
    replace_link(folder / "linked.py", str(other / "second.py"))
    assert links.changes() == []
    for name in ("linked", "nowhere", "near"):
        (folder / f"{name}.py").unlink()
    assert not links.find()
    assert links.changes() == []


MOUNTS = r"""
22 1 8:1 / / rw - ext4 /dev/sda rw
23 22 0:30 / /srv rw - fuse.sshfs host: rw
24 22 0:31 / /app/with\040blank rw - 9p host rw
25 22 0:32 / /app/deep/local rw - tmpfs tmpfs rw
26 22 0:33 / /covered rw - nfs4 host:/ rw
27 26 8:2 / /covered rw - ext4 /dev/sdb rw
28 22 0:34 / /home rw shared:1 - virtiofs host rw
""".strip().splitlines()


@pytest.mark.parametrize(
    ("folder", "found"),
    [
        ("/", ["/srv", "/app/with blank", "/covered", "/home"]),
        ("/app", ["/app/with blank"]),
        ("/app/deep", []),
        ("/app/with blank/x", ["/app/with blank/x"]),
        ("/application", []),
        ("/srv", ["/srv"]),
        ("/covered/x", []),
        ("/home/me", ["/home/me"]),
    ],
)
def test_mounts_that_others_change(folder: str, found: list[str]) -> None:
    assert silent_mounts(folder, MOUNTS) == found
