"""Processes: fork, waitpid, spawn, and the loop while they run."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.green import children
from oneloop.green import os as green_os
from oneloop.green.exceptions import BlockingSwitchOutError
from oneloop.green.hub import get_hub, has_hub
from tests import programs

# Some of these children are watched by OS threads.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


@pytest.fixture(params=["pidfd", "thread"])
def watching(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the end of a child is detected."""
    if request.param == "thread":

        def refused(pid: int, flags: int = 0) -> int:
            raise PermissionError(1, "not in this sandbox")

        monkeypatch.setattr(os, "pidfd_open", refused)
    return str(request.param)


def child_that(ends_with: int, after: int | None = None) -> int:
    """A child that exits with a status; with `after`, when that descriptor is closed."""
    pid = os.fork()
    if pid == 0:
        if after is not None:
            os.read(after, 1)
        os._exit(ends_with)
    return pid


def held_child(ends_with: int) -> tuple[int, Callable[[], None]]:
    """A child that exits when the returned function is called."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(theirs)
        os.read(ours, 1)
        os._exit(ends_with)
    os.close(ours)
    return pid, lambda: os.close(theirs)


# -- waiting -----------------------------------------------------------------------------------------


def test_others_run_while_one_waits(watching: str) -> None:
    pid, release = held_child(3)
    waiting = green.spawn(green_os.waitpid, pid, 0)
    for _ in range(3):
        green.sleep(0.001)
    assert not waiting.ready()
    release()
    ended, status = waiting.get()
    assert (ended, os.waitstatus_to_exitcode(status)) == (pid, 3)


def test_a_signal_that_ended_it(watching: str) -> None:
    pid, release = held_child(0)
    waiting = green.spawn(green_os.waitpid, pid, 0)
    green.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    assert waiting.get() == (pid, signal.SIGKILL)
    release()


def test_any_child() -> None:
    pid, release = held_child(4)
    waiting = green.spawn(green_os.waitpid, -1, 0)
    green.sleep(0.001)
    assert not waiting.ready()
    release()
    assert waiting.get() == (pid, 4 << 8)
    with pytest.raises(ChildProcessError):
        green_os.waitpid(-1, 0)


def test_a_process_group() -> None:
    pid, release = held_child(5)
    os.setpgid(pid, pid)
    waiting = green.spawn(green_os.waitpid, -pid, 0)
    green.sleep(0.001)
    release()
    assert waiting.get() == (pid, 5 << 8)
    same, release = held_child(6)
    waiting = green.spawn(green_os.waitpid, 0, 0)
    green.sleep(0.001)
    release()
    assert waiting.get() == (same, 6 << 8)


def test_a_child_that_stops_and_goes_on() -> None:
    pid, release = held_child(0)
    waiting = green.spawn(green_os.waitpid, pid, os.WUNTRACED)
    green.sleep(0.001)
    os.kill(pid, signal.SIGSTOP)
    _, status = waiting.get()
    assert os.WIFSTOPPED(status)
    waiting = green.spawn(green_os.waitpid, pid, os.WCONTINUED)
    green.sleep(0.001)
    os.kill(pid, signal.SIGCONT)
    _, status = waiting.get()
    assert os.WIFCONTINUED(status)
    release()
    assert green_os.waitpid(pid, 0) == (pid, 0)


def test_without_waiting() -> None:
    pid, release = held_child(0)
    assert green_os.waitpid(pid, os.WNOHANG) == (0, 0)
    release()
    assert green_os.waitpid(pid, 0) == (pid, 0)
    with pytest.raises(ChildProcessError):
        green_os.waitpid(pid, os.WNOHANG)
    with pytest.raises(TypeError):
        green_os.waitpid("x", 0)  # type: ignore[arg-type]


def test_somebody_else_has_the_status(watching: str) -> None:
    pid, release = held_child(1)
    waiting = [green.spawn(green_os.waitpid, pid, 0) for _ in range(2)]
    green.sleep(0.001)
    release()
    green.joinall(waiting)
    told = [one.value for one in waiting if one.successful()]
    failed = [one.exception for one in waiting if not one.successful()]
    assert told == [(pid, 1 << 8)]
    assert [type(error) for error in failed] == [ChildProcessError]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_statuses_are_nobodys_where_sigchld_is_ignored(watching: str) -> None:
    old = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        pid, release = held_child(1)
        waiting = green.spawn(green_os.waitpid, pid, 0)
        green.sleep(0.001)
        release()
        with pytest.raises(ChildProcessError):
            waiting.get()
    finally:
        signal.signal(signal.SIGCHLD, old)


def test_killed_while_it_waits(watching: str) -> None:
    pid, release = held_child(0)
    waiting = green.spawn(green_os.waitpid, pid, 0)
    green.sleep(0.001)
    waiting.kill()
    assert isinstance(waiting.value, green.GreenletExit)
    with green.Timeout(0.001, False):
        green_os.waitpid(pid, 0)
    release()
    assert green_os.waitpid(pid, 0) == (pid, 0)


def test_no_time_at_all() -> None:
    pid, release = held_child(0)
    seen: list[str] = []

    def poll() -> Any:
        seen.append("asked")

    assert children.wait_changed(pid, 0, poll, timeout=0) is None
    assert len(seen) >= 2
    release()
    os.waitpid(pid, 0)


def test_a_coroutine_may_not_wait() -> None:
    pid, release = held_child(0)

    async def main() -> None:
        with pytest.raises(BlockingSwitchOutError, match="waitpid"):
            green_os.waitpid(pid, 0)
        release()
        assert await asyncio.get_running_loop().run_green(green_os.waitpid, pid, 0) == (pid, 0)  # type: ignore[attr-defined]

    oneloop.run(main())


def test_a_child_that_has_ended_is_no_wait() -> None:
    async def main() -> tuple[int, int]:
        pid = child_that(7)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
        return green_os.waitpid(pid, 0)

    assert oneloop.run(main())[1] == 7 << 8


def test_asyncio_has_children_beside(watching: str) -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        pid, release = held_child(2)
        ours = asyncio.ensure_future(loop.run_green(green_os.waitpid, pid, 0))
        process = await asyncio.create_subprocess_exec("/bin/sh", "-c", "exit 9")
        assert await process.wait() == 9
        release()
        assert await ours == (pid, 2 << 8)

    oneloop.run(main())


def test_the_programs_handler_of_sigchld_is_called() -> None:
    came: list[int] = []
    old = signal.signal(signal.SIGCHLD, lambda number, _: came.append(number))
    try:
        pid, release = held_child(8)
        waiting = green.spawn(green_os.waitpid, pid, 0)
        green.sleep(0.001)
        release()
        assert waiting.get() == (pid, 8 << 8)
        assert came == [signal.SIGCHLD]
    finally:
        signal.signal(signal.SIGCHLD, old)


def test_threads_have_hubs_of_their_own() -> None:
    children_of_all = [held_child(number) for number in range(3)]
    found: list[tuple[int, int]] = []

    def wait(pid: int) -> None:
        green.sleep(0)
        found.append(green_os.waitpid(pid, 0))
        get_hub().destroy()

    threads = [threading.Thread(target=wait, args=(pid,)) for pid, _ in children_of_all]
    for thread in threads:
        thread.start()
    for _, release in children_of_all:
        release()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted((pid, number << 8) for number, (pid, _) in enumerate(children_of_all))


def test_a_thread_without_green_threads_blocks() -> None:
    pid, release = held_child(3)
    found: list[Any] = []

    def wait() -> None:
        found.append(green_os.waitpid(pid, 0))
        found.append(has_hub())

    thread = threading.Thread(target=wait)
    thread.start()
    release()
    thread.join()
    assert found == [(pid, 3 << 8), False]


# -- watching ----------------------------------------------------------------------------------------


def test_a_watched_child(watching: str) -> None:
    told: list[Any] = []
    pid = green_os.fork_and_watch(told.append)
    if pid == 0:
        os._exit(6)
    while not told:
        green.sleep(0.001)
    (watcher,) = told
    assert (watcher.pid, watcher.rpid, os.waitstatus_to_exitcode(watcher.rstatus)) == (pid, pid, 6)
    # `waitpid` returns the kept status once.
    assert green_os.waitpid(pid, 0) == (pid, watcher.rstatus)
    with pytest.raises(ChildProcessError):
        green_os.waitpid(pid, 0)


def test_a_watched_child_that_is_waited_for_too(watching: str) -> None:
    told: list[Any] = []
    pid = green_os.fork_and_watch(told.append)
    if pid == 0:
        os._exit(6)
    assert green_os.waitpid(-1, 0) == (pid, 6 << 8)
    green.sleep(0.01)
    assert [watcher.rstatus for watcher in told] == [6 << 8]
    assert green_os.waitpid != os.waitpid


def test_a_watched_child_whose_status_is_taken_away() -> None:
    told: list[Any] = []
    pid = green_os.fork_and_watch(told.append)
    if pid == 0:
        os._exit(6)
    os.waitpid(pid, 0)
    while not told:
        green.sleep(0.001)
    assert (told[0].rpid, told[0].rstatus) == (pid, 0)


def test_a_watcher_that_is_stopped() -> None:
    told: list[Any] = []
    pid, release = held_child(0)
    watcher = green_os.ChildWatcher(get_hub(), pid, told.append)
    watcher.stop()
    watcher.stop()
    release()
    assert green_os.waitpid(pid, 0) == (pid, 0)
    assert told == []


def test_any_child_may_be_one_that_was_watched() -> None:
    told: list[Any] = []
    other, release = held_child(0)
    pid = green_os.fork_and_watch(told.append)
    if pid == 0:
        os._exit(1)
    while not told:
        green.sleep(0.001)
    assert green_os.waitpid(-1, 0) == (pid, 1 << 8)
    release()
    assert green_os.waitpid(-1, 0) == (other, 0)


@pytest.mark.parametrize("spawn", [green_os.posix_spawn_and_watch, green_os.posix_spawnp_and_watch])
def test_spawned_and_watched(spawn: Callable[..., int]) -> None:
    told: list[Any] = []
    pid = spawn("/bin/sh", ["sh", "-c", "exit 3"], os.environ, callback=told.append, loop=get_hub())
    assert green_os.waitpid(pid, 0) == (pid, 3 << 8)
    while not told:
        green.sleep(0.001)
    assert told[0].rstatus == 3 << 8


def test_spawned() -> None:
    pid = green_os.posix_spawn("/bin/sh", ["sh", "-c", "exit 3"], os.environ)
    assert green_os.waitpid(pid, 0) == (pid, 3 << 8)
    pid = green_os.posix_spawnp("sh", ["sh", "-c", "exit 4"], os.environ)
    assert green_os.waitpid(pid, 0) == (pid, 4 << 8)


def test_a_terminal() -> None:
    told: list[Any] = []
    pid, fd = green_os.forkpty_and_watch(told.append)
    if pid == 0:
        os.write(1, b"from the child")
        os._exit(0)
    assert green_os.tp_read(fd, 100) == b"from the child"
    green_os.waitpid(pid, 0)
    while not told:
        green.sleep(0.001)
    green_os.close(fd)
    get_hub().threadpool.kill()


# -- forking -----------------------------------------------------------------------------------------


def test_the_child_has_a_hub_of_its_own() -> None:
    green.sleep(0.001)
    parents = get_hub()
    pid = green.fork()
    if pid == 0:
        is_well = get_hub() is not parents
        green.joinall([green.spawn(green.sleep, 0.001) for _ in range(3)])
        os._exit(0 if is_well else 1)
    assert green_os.waitpid(pid, 0) == (pid, 0)
    green.reinit()
    assert get_hub() is parents


# The watchdog of these programs is a thread. A forked child would wait for it at exit.

FORKS_IN_A_GREEN_THREAD = """
    faulthandler.cancel_dump_traceback_later()
    from oneloop import green
    from oneloop.green import os as green_os

    def beside():
        for _ in range(3):
            green.sleep(0.001)
            print("beside", os.getpid() == parent, flush=True)

    def forks():
        pid = green_os.fork()
        if pid == 0:
            green.sleep(0.01)
            green.joinall([green.spawn(green.sleep, 0.001) for _ in range(3)])
            {ends}
            return
        _, status = green_os.waitpid(pid, 0)
        print("status", os.waitstatus_to_exitcode(status))

    parent = os.getpid()
    green.joinall([green.spawn(beside), green.spawn(forks)])
    print("over", os.getpid() == parent)
"""


@pytest.mark.parametrize(("ends", "status"), [("os._exit(3)", 3), ("sys.exit(4)", 4)])
def test_the_child_of_a_green_thread(ends: str, status: int) -> None:
    printed = programs.run_ok("oneloop", FORKS_IN_A_GREEN_THREAD.format(ends=ends)).splitlines()
    assert sorted(printed) == ["beside True"] * 3 + ["over True", f"status {status}"]


def test_the_child_of_a_green_thread_has_nothing_to_go_back_to() -> None:
    done = programs.run("oneloop", FORKS_IN_A_GREEN_THREAD.format(ends="pass"))
    assert sorted(done.stdout.splitlines()) == ["beside True"] * 3 + ["over True", "status 1"]
    assert "RuntimeError: a green thread called fork() and then ended in the child" in done.stderr


def test_the_child_of_a_green_thread_under_a_running_loop() -> None:
    body = """
    faulthandler.cancel_dump_traceback_later()
    import oneloop
    from oneloop.green import os as green_os

    def forks():
        pid = os.fork()
        if pid == 0:
            os._exit(3)
        return green_os.waitpid(pid, 0)[1] >> 8

    async def main():
        return await asyncio.get_running_loop().run_green(forks)

    print(oneloop.run(main()))
    """
    assert programs.run_ok("oneloop", body) == "3\n"


# -- descriptors -------------------------------------------------------------------------------------


def test_reading_and_writing_without_blocking() -> None:
    ours, theirs = os.pipe()
    assert green_os.make_nonblocking(ours) is True
    assert green_os.make_nonblocking(ours) is None
    green_os.make_nonblocking(theirs)
    reading = [green.spawn(green_os.nb_read, ours, 5) for _ in range(2)]
    green.sleep(0.001)
    assert green_os.nb_write(theirs, b"0123456789") == 10
    assert sorted(one.get() for one in reading) == [b"01234", b"56789"]
    sent = bytes(1 << 20)

    def write() -> None:
        left = memoryview(sent)
        while left:
            left = left[green_os.nb_write(theirs, left) :]
        green_os.close(theirs)

    writing = green.spawn(write)
    received = b"".join(iter(lambda: green_os.nb_read(ours, 4096), b""))
    assert received == sent
    writing.get()
    green_os.close(ours)


def test_closed_while_it_is_read() -> None:
    ours, theirs = os.pipe()
    green_os.make_nonblocking(ours)
    reading = green.spawn(green_os.nb_read, ours, 5)
    green.sleep(0.001)
    green_os.close(ours)
    with pytest.raises(OSError, match="closed in another greenlet"):
        reading.get()
    with pytest.raises(OSError, match="Bad file descriptor"):
        green_os.close(ours)
    with pytest.raises(TypeError):
        green_os.close("x")
    os.close(theirs)


def test_a_number_that_is_used_again() -> None:
    for _ in range(3):
        ours, theirs = os.pipe()
        green_os.make_nonblocking(ours)
        reading = green.spawn(green_os.nb_read, ours, 5)
        green.sleep(0.001)
        os.write(theirs, b"x")
        assert reading.get() == b"x"
        # The loop does not know about this.
        os.close(ours)
        os.close(theirs)


def test_reading_and_writing_in_real_threads() -> None:
    ours, theirs = os.pipe()
    reading = green.spawn(green_os.tp_read, ours, 5)
    green.sleep(0.001)
    assert not reading.ready()
    assert green_os.tp_write(theirs, b"x") == 1
    assert reading.get() == b"x"
    os.close(ours)
    os.close(theirs)
    get_hub().threadpool.kill()


def test_names_of_the_standard_library() -> None:
    assert green_os.getpid is os.getpid
    assert green_os.path is os.path
    with pytest.raises(AttributeError):
        green_os.nothing  # noqa: B018
    for name in (*green_os.__implements__, *green_os.__extensions__):
        assert callable(getattr(green_os, name))
    assert all(hasattr(os, name) for name in green_os.__implements__)


def test_nothing_is_kept_of_waits() -> None:
    pid, release = held_child(0)
    waiting = green.spawn(green_os.waitpid, pid, 0)
    green.sleep(0.001)
    release()
    waiting.get()
    del waiting
    gc.collect()
    assert not [
        one for one in gc.get_objects() if type(one).__module__ == "oneloop.green.children" and hasattr(one, "_fd")
    ]
    assert sys.getrefcount(get_hub()) < 10
