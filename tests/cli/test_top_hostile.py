"""The stats socket and `oneloop top` against hostile peers: terminal codes, endless answers, forks, signals."""

from __future__ import annotations

import os
import signal
import socket
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from oneloop import stats_socket
from oneloop.cli import asking, screen
from tests.cli.command import PYTHON, run
from tests.cli.test_top import PLAIN, line, oneloop_top, running, runtime

__all__ = ["runtime"]

EVIL = "\x1b]0;owned\x07\x9b2J\n\udc80\u202e"


def answer(**changes: object) -> dict[str, Any]:
    seconds = ["busy_s", "recent_longest_callback_s", "longest_callback_s", "loop_lag_s"]
    counts = ["ticks", "callbacks", "bytes_in", "bytes_out", "open_transports", "green_threads", "file_operations"]
    loop: dict[str, object] = dict.fromkeys([*seconds, *counts], 0)
    names = {"recent_longest_callback_name": EVIL, "longest_callback_name": EVIL, "busy_with": EVIL}
    one = {"pid": 1, "argv": [EVIL], "oneloop": EVIL, "python": EVIL, "time_s": 0.0}
    return {**one, "loops": [{**loop, **names, "number": 1, "state": "busy", **changes}]}


@pytest.mark.parametrize("changes", [{}, {"state": EVIL}, {"busy_s": 5.0}])
def test_names_cannot_command_the_terminal(changes: dict[str, object]) -> None:
    text = screen.text([answer(**changes)], None)
    assert "owned" in text
    assert all(part.isprintable() for part in text.split("\n"))
    assert len(text.split("\n")) == 3
    text.encode()


def test_answer_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ANSWER_MAX_BYTES", 100)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b" " * 101)
                # Open until the other end has given up.
                connection.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(asking.TopError, match="too long"):
            asking.ask(str(tmp_path / "s"))
        thread.join()


def test_answer_that_drips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "LIMIT_S", 0.2)
    gone = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                # Ends on its own where `ask` does not.
                for _ in range(100):
                    if gone.wait(0.05):
                        return
                    try:
                        connection.send(b" ")
                    except BrokenPipeError:
                        # It has left already.
                        return

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(asking.TopError, match="has not answered"):
            asking.ask(str(tmp_path / "s"))
        gone.set()
        thread.join()


def test_full_queue_does_not_block(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as waits:
        listener.bind(str(tmp_path / "s"))
        listener.listen(0)
        waits.connect(str(tmp_path / "s"))
        assert stats_socket.is_in_use(str(tmp_path / "s"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_folder_of_another_user_is_not_believed(runtime: Path) -> None:
    runtime.mkdir(0o700)
    os.chown(runtime, 12345, 12345)
    done = oneloop_top()
    assert (done.returncode, "belongs to another user" in done.stderr) == (1, True)


def test_root_removes_nothing_for_others() -> None:
    with TemporaryDirectory(dir="/tmp") as folder:
        dead = Path(folder) / "1.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(dead))
        assert not stats_socket.is_in_use(str(dead), removes=False)
        assert dead.exists()
        assert not stats_socket.is_in_use(str(dead))
        assert not dead.exists()


@pytest.mark.parametrize("name", ["99999999999999999999.sock", "4194305.txt"])
def test_stray_files_do_not_keep_the_socket_from_opening(tmp_path: Path, runtime: Path, name: str) -> None:
    runtime.mkdir(0o700)
    (runtime / name).touch()
    with running(tmp_path, PLAIN, "--stats-socket") as process:
        assert line(process) == "ready"
        assert (runtime / f"{process.pid}.sock").exists()


FORKS = """
import os, socket, sys, threading, warnings
from oneloop import stats_socket

warnings.simplefilter("ignore")
path = stats_socket.open("s")
# Too long for the socket's buffer: the thread waits for the peer, which does not read.
sys.argv = ["x" * 4_000_000]
peer = socket.socket(socket.AF_UNIX)
peer.connect(path)
peer.recv(1)

def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)

threads = [threading.Thread(target=fork, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(60)
print(sum(thread.is_alive() for thread in threads), flush=True)
os._exit(0)
"""


def test_two_threads_fork_while_a_peer_does_not_read(tmp_path: Path) -> None:
    done = run(*PYTHON, "-c", FORKS, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


SIGNALS = """
import os, signal, socket
from oneloop import stats_socket

path = stats_socket.open("s")
with socket.socket(socket.AF_UNIX) as peer:
    # The thread runs from here on.
    peer.connect(path)
    while peer.recv(65536):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.kill(os.getpid(), signal.SIGUSR1)
print(int(signal.sigwait({signal.SIGUSR1})))
"""


def test_signals_that_the_program_blocks_stay_pending(tmp_path: Path) -> None:
    done = run(*PYTHON, "-c", SIGNALS, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{int(signal.SIGUSR1)}\n"), done.stderr
