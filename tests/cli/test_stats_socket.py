"""The stats socket in its own process: its file, its folder, its peers, and the snapshot that it sends."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import oneloop
from oneloop import registry, snapshot, stats_socket
from tests.cli.command import PYTHON, run

ANOTHER_USER = 12345


@pytest.fixture(autouse=True)
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The default folder is in the test's folder; no socket remains."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    yield
    stats_socket.close()


def dead_socket(path: Path) -> None:
    """The socket of a process that was killed."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def test_permissions_are_set_before_the_socket_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = os.rename
    modes: list[int] = []

    def look_and_rename(old: str, new: str) -> None:
        modes.append(stat.S_IMODE(os.stat(old).st_mode))
        rename(old, new)

    monkeypatch.setattr(os, "rename", look_and_rename)
    stats_socket.open(str(tmp_path / "s"))
    assert modes == [0o600]


def test_socket_that_gets_no_name_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(old: str, new: str) -> None:
        raise OSError(errno.EACCES, "refused", new)

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(PermissionError, match="refused"):
        stats_socket.open(str(tmp_path / "s"))
    assert list(tmp_path.iterdir()) == []
    assert stats_socket.path() is None


def test_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "oneloop"
    folder.mkdir(0o700)
    user = os.geteuid() + ANOTHER_USER
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(PermissionError, match="of this user with mode 700"):
        stats_socket.open()
    assert list(folder.iterdir()) == []


def test_another_programs_file_at_the_path_stays(tmp_path: Path) -> None:
    path = Path(stats_socket.open(str(tmp_path / "s")))
    path.unlink()
    path.touch()
    stats_socket.close()
    assert path.exists()


def test_file_that_somebody_has_removed_is_no_error_at_the_end(tmp_path: Path) -> None:
    Path(stats_socket.open(str(tmp_path / "s"))).unlink()
    stats_socket.close()
    assert stats_socket.path() is None


def test_longest_path(tmp_path: Path) -> None:
    # The socket is made under a longer name than it has later.
    left = stats_socket.LONGEST_PATH_BYTES - len(f"{tmp_path}/.{os.getpid()}.new")
    with pytest.raises(OSError, match="1 bytes too long"):
        stats_socket.open(str(tmp_path / ("x" * (left + 1))))
    path = str(tmp_path / ("x" * left))
    assert stats_socket.open(path) == path


def test_relative_path_is_removed_in_another_folder_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert stats_socket.open("s") == str(tmp_path / "s")
    monkeypatch.chdir("/")
    stats_socket.close()
    assert not (tmp_path / "s").exists()


def test_socket_in_a_folder_has_the_process_id_as_its_name(tmp_path: Path) -> None:
    assert stats_socket.open(str(tmp_path)) == str(tmp_path / f"{os.getpid()}.sock")


def test_link_to_a_socket_is_refused(tmp_path: Path) -> None:
    dead_socket(tmp_path / "dead")
    (tmp_path / "link").symlink_to(tmp_path / "dead")
    with pytest.raises(FileExistsError, match="not a socket"):
        stats_socket.is_in_use(str(tmp_path / "link"))
    assert (tmp_path / "dead").exists()


@pytest.mark.parametrize("name", ["4194305.sock", "name.sock", "4194306.sock.d"])
def test_stray_files_do_not_keep_the_socket_from_opening(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "oneloop"
    folder.mkdir(0o700)
    (folder / name).touch()
    stats_socket.open()
    assert sorted(entry.name for entry in folder.iterdir()) == sorted([name, f"{os.getpid()}.sock"])


def test_two_programs_that_remove_the_same_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that start together find the socket of one that was killed."""
    folder = tmp_path / "oneloop"
    folder.mkdir(0o700)
    dead_socket(folder / "4194305.sock")
    unlink = os.unlink

    def unlink_second(path: str) -> None:
        unlink(path)
        unlink(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlink_second)
        stats_socket.open()
    assert [entry.name for entry in folder.iterdir()] == [f"{os.getpid()}.sock"]


def test_folder_of_each_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = os.geteuid(), os.geteuid() + ANOTHER_USER
    monkeypatch.setattr("tempfile.tempdir", "/t")
    there: set[str] = set()
    monkeypatch.setattr(os.path, "isdir", lambda path: path in there)
    assert stats_socket.folder() == stats_socket.folder(own) == str(tmp_path / "oneloop")
    assert stats_socket.folder(other) == f"/t/oneloop-{other}"
    there.add(f"/run/user/{other}/oneloop")
    assert stats_socket.folder(other) == f"/run/user/{other}/oneloop"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert stats_socket.folder() == f"/t/oneloop-{own}"


class Peer:
    """The kernel's word for who has connected."""

    size = 12

    def __init__(self, user: int, group: int) -> None:
        self._user = user
        self._group = group

    def unpack(self, data: bytes) -> tuple[int, int, int]:
        assert len(data) == self.size
        return 1, self._user, self._group


@pytest.mark.parametrize(
    ("user", "group", "has_response"), [(777, 12, True), (0, 12, True), (12, 777, False), (12, 0, False)]
)
def test_owner_and_root_are_answered(
    monkeypatch: pytest.MonkeyPatch, user: int, group: int, has_response: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 777)
    monkeypatch.setattr(stats_socket, "_PEER", Peer(user, group))
    ours, theirs = socket.socketpair()
    with theirs:
        stats_socket._answer(ours.detach())
        assert bool(theirs.recv(1)) == has_response


def test_peer_that_has_gone_is_no_error() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    stats_socket._answer(ours.detach())


@pytest.mark.parametrize("value", ["", "0"])
def test_empty_variable_opens_nothing(value: str, tmp_path: Path) -> None:
    code = "import oneloop, sys; oneloop.Loop().close(); print('oneloop.stats_socket' in sys.modules)"
    done = run(*PYTHON, "-c", code, cwd=tmp_path, env={"ONELOOP_STATS_SOCKET": value})
    assert (done.stdout, done.stderr) == ("False\n", "")


def of(loop: oneloop.Loop) -> dict[str, Any]:
    """The part of a snapshot that describes a loop."""
    [number] = [number for number, other in registry.loops() if other is loop]
    [found] = [one for one in snapshot.take()["loops"] if one["number"] == number]
    return dict(found)


def test_state_of_a_loop() -> None:
    loop = oneloop.Loop()
    states = [of(loop)["state"]]
    loop.call_soon(lambda: states.append(of(loop)["state"]))
    loop.call_soon(loop.stop)
    loop.run_forever()
    states.append(of(loop)["state"])
    loop.close()
    states.append(of(loop)["state"])
    assert states == ["stopped", "busy", "stopped", "closed"]


@pytest.mark.parametrize("argv", [[Path("x"), 1], None])
def test_argv_of_programs_that_change_it(monkeypatch: pytest.MonkeyPatch, argv: list[object] | None) -> None:
    if argv is None:
        monkeypatch.delattr(sys, "argv")
    else:
        monkeypatch.setattr(sys, "argv", argv)
    assert json.loads(snapshot.line())["argv"] == ([] if argv is None else ["x", "1"])


@pytest.mark.parametrize(
    "file", ["/lib/asyncio/queues.py", f"{Path(oneloop.__file__).parent}/sockets.py", "<frozen x>"]
)
def test_place_is_one_of_the_program(file: str) -> None:
    found: dict[str, Callable[[], FrameType]] = {}
    exec(compile("import sys\ndef waits():\n    return sys._getframe()", file, "exec"), found)
    place = snapshot._place(found["waits"]())
    assert place is not None
    assert place.startswith("test_place_is_one_of_the_program (test_stats_socket.py:")


def test_loops_may_be_made_while_they_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[int, Callable[[], None]] = {}

    def make_another() -> None:
        made[len(made) + 1] = make_another

    make_another()
    monkeypatch.setattr(registry, "_loops", made)
    assert registry.loops() == []


def test_forked_child_has_none_of_the_parents_loops(tmp_path: Path) -> None:
    code = """
import oneloop, os
from oneloop import registry
loop = oneloop.Loop()
assert len(registry.loops()) == 1
pid = os.fork()
if not pid:
    os._exit(len(registry.loops()) + registry.has_made_loops())
print(os.waitpid(pid, 0)[1])
loop.close()
"""
    done = run(*PYTHON, "-c", code, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_thread_is_stopped_during_a_fork(tmp_path: Path) -> None:
    code = """
import os
from oneloop import stats_socket

calls = []

class Socket:
    def stop(self): calls.append("stop")
    def start(self): calls.append("start")

stats_socket._State.socket = Socket()
pid = os.fork()
if not pid:
    os._exit(stats_socket._State.socket is not None or calls != ["stop"])
print(os.waitpid(pid, 0)[1], calls)
stats_socket.close()
"""
    done = run(*PYTHON, "-c", code, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("0 ['stop', 'start']\n", "")
