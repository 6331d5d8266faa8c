"""`oneloop top` and the stats socket: who may look, what they see, and what is left behind. With real processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent
from typing import Any

import pytest

from oneloop.cli import asking, screen
from tests import programs
from tests.cli.command import LIMIT_S, ONELOOP_RUN

ONELOOP = (sys.executable, "-m", "oneloop")

# Says what the test waits for; ends when standard input does.
WAITS = """
import asyncio, sys

async def wait_for_the_test():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print("ready", flush=True)
    await reader.read()
"""


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the sockets of this test's programs."""
    # The path of a Unix socket has 107 bytes at most.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("ONELOOP_STATS_SOCKET", raising=False)
    monkeypatch.setenv("PYTHONWARNINGS", "")
    return tmp_path / "oneloop"


@contextmanager
def running(cwd: Path, text: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    (cwd / "program.py").write_text(WAITS + dedent(text))
    with (
        (cwd / "log").open("w") as log,
        subprocess.Popen(
            [*ONELOOP_RUN, *options, "program.py"],
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
            assert process.stdin is not None
            process.stdin.close()
            process.wait(LIMIT_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def oneloop_top(*words: str) -> subprocess.CompletedProcess[str]:
    return programs.run_command(*ONELOOP, "top", *words, limit_s=LIMIT_S)


def snapshot(*words: str) -> dict[str, Any]:
    done = oneloop_top("--json", *words)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


PLAIN = "asyncio.run(wait_for_the_test())"


def test_the_only_program_is_shown(tmp_path: Path, runtime: Path) -> None:
    with running(tmp_path, PLAIN, "--stats-socket") as process:
        assert line(process) == "ready"
        path = runtime / f"{process.pid}.sock"
        assert stat.S_IMODE(runtime.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        answer = snapshot()
        assert answer["format"] == asking.FORMAT
        assert (answer["pid"], answer["argv"]) == (process.pid, ["program.py"])
        [loop] = answer["loops"]
        assert loop["state"] == "sleeping"
        assert (loop["ticks"] > 0, loop["open_transports"], loop["thread"]) == (True, 1, "MainThread")
        assert (loop["busy_s"], loop["busy_with"]) == (None, None)
        for words in [], [str(process.pid)], [str(path)]:
            done = oneloop_top("--once", *words)
            assert done.returncode == 0, done.stderr
            assert "program.py" in done.stdout
            assert str(process.pid) in done.stdout
    assert process.returncode == 0
    # Nothing is left, and nothing was said.
    assert list(runtime.iterdir()) == []
    assert (tmp_path / "log").read_text() == ""


def test_blocked_loop_answers_and_says_where_it_is(tmp_path: Path, runtime: Path) -> None:
    text = """
        def blocks():
            print("ready", flush=True)
            sys.stdin.read()

        async def main():
            asyncio.get_running_loop().call_soon(blocks)
            await asyncio.sleep(0)

        asyncio.run(main())
    """
    with running(tmp_path, text, "--stats-socket") as process:
        assert line(process) == "ready"
        first = snapshot()["loops"][0]
        second = snapshot()["loops"][0]
        assert first["state"] == second["state"] == "busy"
        assert 0 < first["busy_s"] < second["busy_s"]
        assert first["ticks"] == second["ticks"]
        assert second["busy_with"].startswith("blocks (program.py:")
        assert "blocks (program.py:" in screen.text([{**snapshot(), "loops": [{**second, "busy_s": 7.0}]}], None)


def test_longest_callback_of_late_and_of_all(tmp_path: Path, runtime: Path) -> None:
    text = """
        import functools, time

        async def remarkable():
            time.sleep(0.3)

        async def main():
            await asyncio.create_task(remarkable(), name="the task")
            await wait_for_the_test()

        asyncio.run(main())
    """
    with running(tmp_path, text, "--stats-socket") as process:
        assert line(process) == "ready"
        loop = snapshot()["loops"][0]
        assert loop["longest_callback_name"] == "remarkable (the task)"
        assert loop["longest_callback_s"] >= 0.05


def test_several_loops_green_threads_and_a_closed_loop(tmp_path: Path, runtime: Path) -> None:
    pytest.importorskip("greenlet")
    text = """
        import threading
        from oneloop import green
        from oneloop.green import event

        def in_thread(started, ends):
            async def main():
                started.set()
                await asyncio.to_thread(ends.wait)
            asyncio.run(main())

        async def main():
            started, ends = threading.Event(), threading.Event()
            thread = threading.Thread(target=in_thread, args=(started, ends), name="second")
            thread.start()
            await asyncio.to_thread(started.wait)
            waiting = event.Event()
            threads = [green.spawn(waiting.wait) for _ in range(3)]
            await asyncio.sleep(0)
            await wait_for_the_test()
            waiting.set()
            for one in threads:
                await one
            ends.set()

        kept = asyncio.new_event_loop()
        kept.close()
        asyncio.run(main())
    """
    with running(tmp_path, text, "--stats-socket") as process:
        assert line(process) == "ready"
        loops = snapshot()["loops"]
        assert [loop["state"] for loop in loops] == ["closed", "sleeping", "sleeping"]
        assert [loop["thread"] for loop in loops] == [None, "MainThread", "second"]
        assert [loop["green_threads"] for loop in loops] == [0, 3, 0]
        shown = oneloop_top("--once").stdout.splitlines()
        # A title, the heads, and the loops that are open.
        assert len(shown) == 4
    assert process.returncode == 0, (tmp_path / "log").read_text()


def test_socket_at_a_path_and_from_the_environment(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.sock"
    with running(tmp_path, PLAIN, f"--stats-socket={path}") as process:
        assert line(process) == "ready"
        assert snapshot(str(path))["pid"] == process.pid
        # Another program at the same path gets a name of its own.
        monkeypatch.setenv("ONELOOP_STATS_SOCKET", str(path))
        with running(tmp_path, PLAIN) as second:
            assert line(second) == "ready"
            assert snapshot(f"{path}.{second.pid}")["pid"] == second.pid
            assert snapshot(str(path))["pid"] == process.pid
    assert [entry for entry in tmp_path.iterdir() if "sock" in entry.name] == []
    assert not runtime.exists()


def test_killed_programs_leave_nothing_that_matters(tmp_path: Path, runtime: Path) -> None:
    with running(tmp_path, PLAIN, "--stats-socket") as killed:
        assert line(killed) == "ready"
        killed.kill()
        killed.wait(LIMIT_S)
    stale = runtime / f"{killed.pid}.sock"
    assert stale.exists()
    done = oneloop_top("--once")
    assert done.returncode == 1
    assert "no program has a stats socket" in done.stderr
    assert "--stats-socket" in done.stderr
    assert not stale.exists()
    # The next program removes such files too.
    with running(tmp_path, PLAIN, "--stats-socket") as killed:
        assert line(killed) == "ready"
        killed.kill()
        killed.wait(LIMIT_S)
    with running(tmp_path, PLAIN, "--stats-socket") as process:
        assert line(process) == "ready"
        assert [entry.name for entry in runtime.iterdir()] == [f"{process.pid}.sock"]


def test_several_programs_are_listed(tmp_path: Path, runtime: Path) -> None:
    (tmp_path / "a").mkdir()
    with (
        running(tmp_path, PLAIN, "--stats-socket") as one,
        running(tmp_path / "a", f"import sys\nsys.argv.append('other')\n{dedent(PLAIN)}", "--stats-socket") as other,
    ):
        assert line(one) == line(other) == "ready"
        done = oneloop_top("--once")
        assert done.returncode == 1
        assert str(one.pid) in done.stderr
        assert str(other.pid) in done.stderr
        assert snapshot(str(other.pid))["pid"] == other.pid


def test_program_that_ends_while_it_is_watched(tmp_path: Path, runtime: Path) -> None:
    with running(tmp_path, PLAIN, "--stats-socket") as process:
        assert line(process) == "ready"
        with subprocess.Popen(
            [*ONELOOP, "top", "--interval", "0.01"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as watching:
            assert watching.stdout is not None
            assert watching.stderr is not None
            assert "program.py" in watching.stdout.readline()
            assert process.stdin is not None
            process.stdin.close()
            process.wait(LIMIT_S)
            text = watching.stdout.read()
            assert watching.wait(LIMIT_S) == 1
            assert "has ended" in watching.stderr.read()
            # From the second look on: rates.
            assert "ticks/s" in text or text.count("ticks") <= 1


def test_fork_keeps_the_parents_socket_and_its_warnings(tmp_path: Path, runtime: Path) -> None:
    text = """
        import os, warnings
        from oneloop import stats_socket

        loop = asyncio.new_event_loop()
        mine = stats_socket.path()
        # Python warns of a fork if there is a thread: there is none then.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pid = os.fork()
        if not pid:
            assert stats_socket.path() is None
            assert os.path.exists(mine)
            asyncio.run(asyncio.sleep(0))
            # Its own loop has opened its own.
            assert stats_socket.path() not in (None, mine)
            stats_socket.close()
            assert os.path.exists(mine)
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        loop.run_until_complete(wait_for_the_test())
        loop.close()
    """
    with running(tmp_path, text, "--stats-socket") as process:
        assert line(process) == "ready", (tmp_path / "log").read_text()
        assert snapshot()["pid"] == process.pid
    assert process.returncode == 0
    assert (tmp_path / "log").read_text() == ""


def test_threads_come_and_go_while_somebody_looks(tmp_path: Path, runtime: Path) -> None:
    text = """
        import os, threading

        def loops():
            for _ in range(50):
                asyncio.run(asyncio.sleep(0))

        async def main():
            threads = [threading.Thread(target=loops) for _ in range(3)]
            for thread in threads:
                thread.start()
            await wait_for_the_test()
            for thread in threads:
                thread.join()
            print(len(os.listdir("/proc/self/task")), flush=True)

        asyncio.run(main())
    """
    with running(tmp_path, text, "--stats-socket") as process:
        assert line(process) == "ready"
        for _ in range(20):
            assert asking.ask(str(runtime / f"{process.pid}.sock"))["pid"] == process.pid
    assert process.returncode == 0, (tmp_path / "log").read_text()


def test_api(tmp_path: Path, runtime: Path) -> None:
    text = """
        import os
        from oneloop import stats_socket

        before = set(os.listdir("/proc/self/fd"))
        for _ in range(3):
            path = stats_socket.open()
            assert stats_socket.open() == stats_socket.path() == path
            assert os.path.exists(path)
            stats_socket.close()
            stats_socket.close()
            assert stats_socket.path() is None
            assert not os.path.exists(path)
        assert set(os.listdir("/proc/self/fd")) == before
        assert len(os.listdir("/proc/self/task")) == 1
        assert os.path.dirname(path) == stats_socket.folder()
        with open("other", "w"):
            pass
        try:
            stats_socket.open("other")
        except OSError as error:
            print(error.strerror)
        asyncio.run(wait_for_the_test())
    """
    with running(tmp_path, text) as process:
        assert line(process) == "the path exists and is not a socket"
        assert line(process) == "ready"
    assert process.returncode == 0, (tmp_path / "log").read_text()


def test_path_that_no_socket_can_have(tmp_path: Path, runtime: Path) -> None:
    with running(tmp_path, PLAIN, f"--stats-socket={tmp_path / ('x' * 200)}") as process:
        assert line(process) == "ready"
    assert process.returncode == 0
    assert "bytes too long: " in (tmp_path / "log").read_text()


@pytest.mark.parametrize("wrong", ["mode", "file", "link"])
def test_folder_that_others_may_read_is_refused(tmp_path: Path, runtime: Path, wrong: str) -> None:
    if wrong == "mode":
        runtime.mkdir(mode=0o755)
        runtime.chmod(0o755)
    elif wrong == "file":
        runtime.touch()
    else:
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        runtime.symlink_to(tmp_path / "elsewhere")
    with running(tmp_path, PLAIN, "--stats-socket") as process:
        assert line(process) == "ready"
    # The program runs all the same.
    assert process.returncode == 0
    text = (tmp_path / "log").read_text()
    assert text.startswith("oneloop: the stats socket cannot be opened: ")
    assert str(runtime) in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_other_users_are_refused(tmp_path: Path, runtime: Path) -> None:
    # Not in tmp_path, whose parents are pytest's and closed to others.
    with TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        path = Path(folder) / "open.sock"
        refuse_another_user(tmp_path, path)


def refuse_another_user(tmp_path: Path, path: Path) -> None:
    with running(tmp_path, PLAIN, f"--stats-socket={path}") as process:
        assert line(process) == "ready"
        # As if somebody had changed the permissions: the peer's user is looked at too.
        path.chmod(0o666)
        code = f"""
import os, socket
os.setuid(12345)
sock = socket.socket(socket.AF_UNIX)
sock.connect({str(path)!r})
print(sock.recv(100))
"""
        done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False, cwd="/")
        assert done.stdout == "b''\n", done.stderr
        assert snapshot(str(path))["pid"] == process.pid


def test_workers_of_oneloop_serve(tmp_path: Path, runtime: Path) -> None:
    (tmp_path / "app.py").write_text("async def app(scope, receive, send):\n    raise RuntimeError\n")
    with socket.create_server(("127.0.0.1", 0)) as sock:
        fd = sock.fileno()
        command = [*ONELOOP, "serve", "--fd", str(fd), "--workers", "2", "--stats-socket", "app:app"]
        with subprocess.Popen(command, cwd=tmp_path, pass_fds=(fd,), stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            try:
                for text in server.stderr:
                    if "oneloop running on" in text:
                        break
                done = oneloop_top("--json", str(server.pid))
                answers = [json.loads(text) for text in done.stdout.splitlines()]
                assert {answer["parent"] for answer in answers} == {server.pid}
                assert len({answer["pid"] for answer in answers}) == 2
                shown = oneloop_top("--once").stdout
                assert all(str(answer["pid"]) in shown for answer in answers)
            finally:
                server.terminate()
                server.stderr.read()
                server.wait(LIMIT_S)
    assert list(runtime.iterdir()) == []


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "does not answer"),
        (b"{", "not a stats socket"),
        (b"[]", "not a stats socket"),
        (b'{"format": 99}', "reads only format 1"),
    ],
)
def test_answers_that_are_none(tmp_path: Path, answer: bytes, says: str) -> None:
    import threading

    path = str(tmp_path / "x.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        done = oneloop_top("--once", path)
        thread.join()
    assert done.returncode == 1
    assert says in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["4194305"], "no process 4194305"),
        (["nowhere.sock"], "no socket nowhere.sock"),
        ([str(os.getpid())], "has no stats socket"),
        ([], "no program has a stats socket"),
    ],
)
def test_nothing_to_show(runtime: Path, words: list[str], says: str) -> None:
    done = oneloop_top("--once", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr


def test_rates_are_those_between_two_looks() -> None:
    loop: dict[str, Any] = dict.fromkeys(
        ["ticks", "callbacks", "bytes_in", "bytes_out", "open_transports", "green_threads", "file_operations"], 0
    )
    loop.update(number=1, state="sleeping", busy_s=None, busy_with=None, loop_lag_s=0.002, longest_callback_s=1.5)
    loop.update(longest_callback_name="all", recent_longest_callback_s=0.0001, recent_longest_callback_name="late")
    before = {"pid": 1, "argv": ["x"], "time_s": 10.0, "oneloop": "1", "python": "3", "loops": [loop]}
    now = {**before, "time_s": 12.0, "loops": [{**loop, "ticks": 3000, "bytes_in": 4096}]}
    row = screen.text([now], [before]).splitlines()[-1].split()
    assert row == [
        "1",
        "1",
        "sleeping",
        "1,500",
        "0",
        "2.0",
        "ms",
        "2.0",
        "KiB",
        "0",
        "B",
        "0",
        "0",
        "0",
        "-",
        "100",
        "µs",
        "late",
    ]
    assert screen.text([now], None).endswith("1.5 s all")


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["/srv/shop/app.py", "--port", "80"], "/srv/shop/app.py --port 80"),
        (["/srv/" + "long/" * 12 + "app.py", "--port", "80"], "app.py --port 80"),
        (["/srv/" + "long/" * 12 + "uvicorn/__main__.py", "app:app"], "uvicorn app:app"),
        (["app.py", "x" * 60], "app.py " + "x" * 52 + "…"),
        (["/" * 70], "/" * 59 + "…"),
        ([], "?"),
    ],
)
def test_command_line_that_is_too_long(argv: list[str], shown: str) -> None:
    """The folder of the program is left out first."""
    assert screen.command({"argv": argv}) == shown


def test_rich_draws_on_a_terminal(tmp_path: Path, runtime: Path) -> None:
    import pty

    pytest.importorskip("rich")
    with running(tmp_path, PLAIN, "--stats-socket") as process:
        assert line(process) == "ready"
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [*ONELOOP, "top"], stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "160"}
        ) as watching:
            os.close(theirs)
            shown = b""
            while b"sleeping" not in shown:
                shown += os.read(ours, 65536)
            watching.send_signal(signal.SIGINT)
            with suppress(OSError):
                while os.read(ours, 65536):
                    pass
            assert watching.wait(LIMIT_S) == 0
        os.close(ours)
        assert "━".encode() in shown


@pytest.mark.parametrize(
    ("width", "missing"), [(200, set()), (80, {"files", "green"}), (60, {"files", "green", "calls"})]
)
def test_a_narrow_terminal_shows_the_longest_callback(width: int, missing: set[str]) -> None:
    heads = screen._HEADS
    row = [
        "123456",
        "1",
        "sleeping",
        "1,204",
        "1,377",
        "2.3 ms",
        "310.4 KiB",
        "12.6 MiB",
        "212",
        "0",
        "3",
        "4.1 ms handle",
    ]
    shown = [heads[column].removesuffix("/s") for column in screen._shown(heads, [row], width)]
    assert shown[0] == "process"
    assert shown[-1] == "longest"
    assert missing <= {head.removesuffix("/s") for head in heads} - set(shown)
    assert bool(missing) == (len(shown) < len(heads))
