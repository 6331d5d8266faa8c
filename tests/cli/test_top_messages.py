"""What `oneloop top` says of sockets that it cannot or may not ask, and what it shows all the same."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from oneloop.cli import asking, keys, screen, top
from tests.cli.command import LIMIT_S
from tests.cli.test_screen import loop, process
from tests.cli.test_top import ONELOOP

ANOTHER_USER = 12345


@contextmanager
def answering(path: Path, answer: bytes, times: int = 1) -> Iterator[None]:
    """A socket that gives this answer; `is_in_use` connects once too."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            for _ in range(times):
                try:
                    connection, _ = listener.accept()
                except OSError:
                    # The test has failed.
                    return
                with connection:
                    # To those that only look whether somebody listens, nothing can be sent.
                    try:
                        connection.sendall(answer)
                    except BrokenPipeError:
                        continue

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        except BaseException:
            listener.shutdown(socket.SHUT_RDWR)
            raise
        finally:
            thread.join()


def snapshot(pid: int) -> bytes:
    return json.dumps({**process(pid, 1.0, loop()), "format": asking.FORMAT, "parent": 1}).encode()


@pytest.mark.parametrize("interval", ["0", "-1", "nan"])
def test_intervals_that_are_none(interval: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        top.main(["--interval", interval])
    assert ended.value.code == 2
    assert "must be greater than 0" in capsys.readouterr().err


def test_process_of_another_user_is_for_its_owner_and_root(monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + ANOTHER_USER)
    with pytest.raises(asking.TopError, match="belongs to another user"):
        top._owner(os.getpid())
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert top._owner(os.getpid()) == own


def test_link_in_the_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    assert top._living(str(tmp_path / "folder"), os.geteuid(), top.Asker(LIMIT_S)) == {}
    with pytest.raises(asking.TopError, match=r"or (is )?not a "):
        top._living(str(tmp_path / "link"), os.geteuid(), top.Asker(LIMIT_S))


def test_nothing_is_removed_from_the_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That user could put another file in the place of the socket while root looks."""
    dead = tmp_path / "1.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(dead))
    owner = os.geteuid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: owner + ANOTHER_USER)
        assert top._living(str(tmp_path), owner, top.Asker(LIMIT_S)) == {}
    assert dead.exists()
    assert top._living(str(tmp_path), owner, top.Asker(LIMIT_S)) == {}
    assert not dead.exists()


def test_bad_sockets_and_files_do_not_hide_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "evil\x1b[2J.sock").touch()
    # A socket that is still being made.
    (tmp_path / "7.sock.7.new").touch()
    with answering(tmp_path / "bad.sock", b"{}", 2), answering(tmp_path / "good.sock", snapshot(5), 2):
        found = top._living(str(tmp_path), os.geteuid(), top.Asker(LIMIT_S))
    assert list(found) == [str(tmp_path / "good.sock")]
    first, second = sorted(capsys.readouterr().err.splitlines())
    assert first == f"oneloop top: {tmp_path}/bad.sock is not a stats socket of oneloop"
    assert second == rf"oneloop top: {tmp_path}/evil\x1b[2J.sock: the path exists and is not a socket"


def test_name_of_a_socket_does_not_command_the_terminal() -> None:
    with pytest.raises(asking.TopError, match=r"there is no socket evil\\x1b\[2J\."):
        top._find("evil\x1b[2J", top.Asker(LIMIT_S))


def test_folder_that_is_closed_to_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> list[str]:
        raise PermissionError(errno.EACCES, "refused", path)

    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(asking.TopError, match="only its owner may watch"):
        top._living(str(tmp_path), os.geteuid(), top.Asker(LIMIT_S))


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (TimeoutError(), "does not accept connections"),
        (BlockingIOError(), "does not accept connections"),
        (ConnectionRefusedError(), "has ended"),
        (FileNotFoundError(), "has ended"),
        (PermissionError(), "only its owner may watch"),
        (OSError(errno.EIO, "broken"), "broken"),
    ],
)
def test_reasons(monkeypatch: pytest.MonkeyPatch, error: OSError, says: str) -> None:
    def fail(self: socket.socket, path: str) -> None:
        raise error

    monkeypatch.setattr(socket.socket, "connect", fail)
    with pytest.raises(asking.TopError, match=says) as raised:
        asking.ask("evil\x1b[2J")
    assert str(raised.value).isprintable()


def watched(monkeypatch: pytest.MonkeyPatch, looks: int, process_: str | None, found: list[list[str]]) -> list[Any]:
    """What `_watch` shows until somebody presses q, as (answers, before); each answer is its path."""
    shown: list[Any] = []
    asker = top.Asker(LIMIT_S)
    monkeypatch.setattr(asker, "answers", list)
    monkeypatch.setattr(top, "_find", lambda process, asker: found.pop(0))
    monkeypatch.setattr(keys.Keys, "wait", lambda self, interval_s: "q" if len(shown) == looks else "")
    monkeypatch.setattr(screen.Screen, "show", lambda self, answers, before: shown.append((answers, before)))
    top._watch(["a"], process_, 1.0, asker)
    return shown


def test_each_look_is_compared_with_the_last_and_finds_new_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = watched(monkeypatch, 3, "12", [["a", "b"], ["b"]])
    assert shown == [(["a"], None), (["a", "b"], ["a"]), (["b"], ["a", "b"])]
    assert watched(monkeypatch, 2, "x.sock", []) == [(["a"], None), (["a"], ["a"])]


def test_worker_that_ends_is_left_out(tmp_path: Path) -> None:
    with answering(tmp_path / "s", snapshot(5)):
        [answer] = top.Asker(LIMIT_S).answers([str(tmp_path / "gone"), str(tmp_path / "s")])
    assert answer["pid"] == 5
    with pytest.raises(asking.TopError, match="has ended"):
        top.Asker(LIMIT_S).answers([str(tmp_path / "gone")])


@pytest.mark.parametrize("words", [["--once"], ["--json"], ["--interval", "0.01"]], ids=" ".join)
def test_reader_that_has_closed_the_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    # Without a buffer, nothing is left to be written at the end.
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        with answering(tmp_path / "s", snapshot(5)):
            command = [*ONELOOP, "top", *words, str(tmp_path / "s")]
            done = subprocess.run(
                command, stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S, check=False
            )
    finally:
        os.close(theirs)
    assert (done.returncode, done.stderr) == (0, "")
