"""subprocess_exec and subprocess_shell: pipes, exit statuses, signals, no handler taken from the program."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import cancelled

if TYPE_CHECKING:
    from collections.abc import Callable

ECHO = "import sys; sys.stdout.write(sys.stdin.read())"


async def test_communicate(loop: asyncio.AbstractEventLoop) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ECHO, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    out, err = await process.communicate(b"hello" * 100_000)
    assert out == b"hello" * 100_000
    assert err is None
    assert process.returncode == 0


@pytest.mark.oneloop_only("asyncio chooses its way when it is imported")
async def test_python_without_pidfds(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built with the headers of an old kernel."""
    monkeypatch.delattr(os, "pidfd_open")
    process = await asyncio.create_subprocess_exec("cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert (await process.communicate(b"sent"))[0] == b"sent"
    assert process.returncode == 0


async def test_shell(loop: asyncio.AbstractEventLoop) -> None:
    process = await asyncio.create_subprocess_shell(
        "echo out; echo err >&2; exit 3", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert await process.communicate() == (b"out\n", b"err\n")
    assert process.returncode == 3


async def test_signals_and_exit_statuses(loop: asyncio.AbstractEventLoop) -> None:
    for act, status in (("kill", -signal.SIGKILL), ("terminate", -signal.SIGTERM), ("send_signal", -signal.SIGUSR1)):
        process = await asyncio.create_subprocess_exec("sleep", "1000")
        assert process.returncode is None
        if act == "send_signal":
            process.send_signal(signal.SIGUSR1)
        else:
            getattr(process, act)()
        assert await process.wait() == status


async def test_many_at_once(loop: asyncio.AbstractEventLoop) -> None:
    async def one(number: int) -> int:
        process = await asyncio.create_subprocess_shell(f"exit {number}")
        return await process.wait()

    assert await asyncio.gather(*(one(number) for number in range(50))) == list(range(50))


async def test_no_sigchld_handler_is_taken(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGCHLD, lambda *_: seen.append(1))
    try:
        handler = signal.getsignal(signal.SIGCHLD)
        process = await asyncio.create_subprocess_exec("true")
        assert signal.getsignal(signal.SIGCHLD) is handler
        assert await process.wait() == 0
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert seen


async def test_other_children_of_the_program_are_left_alone(loop: asyncio.AbstractEventLoop) -> None:
    other = subprocess.Popen(["sh", "-c", "exit 7"])
    process = await asyncio.create_subprocess_exec("true")
    assert await process.wait() == 0
    assert other.wait() == 7


async def test_a_child_that_the_program_reaped_itself(loop: asyncio.AbstractEventLoop, reported: Any) -> None:
    """Waitpid by somebody else: wait() still ends, with the status 255 that asyncio gives for an unknown one."""
    process = await asyncio.create_subprocess_exec("sleep", "1000")
    process.kill()
    try:
        await asyncio.to_thread(os.waitpid, process.pid, 0)
    except ChildProcessError:
        # The loop was quicker.
        assert await process.wait() == -signal.SIGKILL
    else:
        assert await process.wait() in (255, -signal.SIGKILL)
    reported.take()


async def test_protocol_calls_come_in_order(loop: asyncio.AbstractEventLoop) -> None:
    calls: list[Any] = []
    lost = asyncio.Event()

    class Recorder(asyncio.SubprocessProtocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            calls.append("made")

        def pipe_data_received(self, fd: int, data: bytes) -> None:
            calls.append((fd, data))

        def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
            calls.append(("pipe lost", fd, exc))

        def process_exited(self) -> None:
            calls.append("exited")

        def connection_lost(self, exc: Exception | None) -> None:
            calls.append(("lost", exc))
            lost.set()

    transport, _ = await loop.subprocess_shell(Recorder, "echo hello")
    await lost.wait()
    assert transport.get_pid() > 0
    assert transport.get_returncode() == 0
    assert calls[0] == "made"
    assert (1, b"hello\n") in calls
    assert "exited" in calls
    assert calls[-1] == ("lost", None)
    assert {("pipe lost", fd, None) for fd in (0, 1, 2)} <= {call for call in calls if isinstance(call, tuple)}
    transport.close()


async def test_closing_the_transport_kills(loop: asyncio.AbstractEventLoop) -> None:
    transport, _ = await loop.subprocess_exec(asyncio.SubprocessProtocol, "sleep", "1000")
    pid = transport.get_pid()
    transport.close()
    assert transport.is_closing()
    # Killed and reaped; a thread of asyncio may have done that, and tells the loop.
    while os.path.exists(f"/proc/{pid}") or transport.get_returncode() is None:
        await asyncio.sleep(0.001)


async def test_a_program_that_does_not_exist(loop: asyncio.AbstractEventLoop) -> None:
    for _ in range(20):
        with pytest.raises(FileNotFoundError):
            await asyncio.create_subprocess_exec("/no/such/program", stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.parametrize(
    "options",
    [{"universal_newlines": True}, {"shell": True}, {"bufsize": 1}, {"text": True}, {"encoding": "utf-8"}],
)
async def test_what_popen_may_but_asyncio_may_not(loop: asyncio.AbstractEventLoop, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each option has its own text
        await loop.subprocess_exec(asyncio.SubprocessProtocol, "true", **options)


async def test_wrong_programs(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises((TypeError, ValueError)):
        await loop.subprocess_shell(asyncio.SubprocessProtocol, 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        await loop.subprocess_exec(asyncio.SubprocessProtocol, 5)  # type: ignore[arg-type]


async def test_cancelling_at_every_step(loop: asyncio.AbstractEventLoop) -> None:
    """Cancelled after each number of ticks: no descriptor, child or task is left (the audit looks)."""

    async def whole() -> None:
        process = await asyncio.create_subprocess_exec(
            "cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            await process.communicate(b"x")
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            # The transport is closed at exit, but not its pipes when communicate() was cancelled.
            process._transport.close()  # type: ignore[attr-defined]

    for steps in range(15):
        task = await cancelled(whole(), steps)
        if not task.cancelled():
            assert task.exception() is None
    for _ in range(5):
        await asyncio.sleep(0.001)


def test_in_a_thread(loop: asyncio.AbstractEventLoop) -> None:
    async def one() -> bytes:
        process = await asyncio.create_subprocess_exec("echo", "thread", stdout=subprocess.PIPE)
        out, _ = await process.communicate()
        return out

    results: list[bytes] = []
    thread = threading.Thread(target=lambda: results.append(loop.run_until_complete(one())))
    thread.start()
    thread.join(60)
    assert results == [b"thread\n"]


@pytest.mark.skipif(
    sys.version_info < (3, 12), reason="before Python 3.12 stdin is a socket pair, whose opening this test does not see"
)
@pytest.mark.parametrize("pipe", [None, subprocess.PIPE], ids=["inherited", "pipes"])
async def test_no_descriptor_is_closed_twice(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, pipe: int | None
) -> None:
    """A second close would close what another thread has opened under the same number."""
    open_now: list[int] = []

    def noted(opens: Callable[..., Any]) -> Callable[..., Any]:
        def opening(*arguments: Any, **named: Any) -> Any:
            opened = opens(*arguments, **named)
            open_now.extend([opened] if isinstance(opened, int) else opened)
            return opened

        return opening

    def closing(fd: int, close: Callable[[int], None] = os.close) -> None:
        open_now.remove(fd)
        close(fd)

    with monkeypatch.context() as patched:
        for name in ("open", "pipe", "dup", "pidfd_open"):
            patched.setattr(os, name, noted(getattr(os, name)))
        patched.setattr(os, "close", closing)
        process = await asyncio.create_subprocess_exec(
            "cat", stdin=pipe or subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
        await process.communicate()
    assert process.returncode == 0


async def test_preexec_fn_and_start_new_session(loop: asyncio.AbstractEventLoop) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import os; print(os.getsid(0) == os.getpid(), os.environ['FROM_TEST'])",
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "FROM_TEST": "yes"},
    )
    out, _ = await process.communicate()
    assert out == b"True yes\n"
