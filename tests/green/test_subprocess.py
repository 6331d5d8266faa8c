"""Children with pipes: other green threads run while one waits; otherwise as in the standard library."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.green import subprocess as green_subprocess
from oneloop.green.exceptions import BlockingSwitchOutError
from oneloop.green.hub import get_hub, has_hub
from oneloop.green.subprocess import PIPE, STDOUT, TimeoutExpired
from tests import children

# A type checker cannot know which pipes exist.
Popen: Any = green_subprocess.Popen

BIG = bytes(range(256)) * 4096


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


# Starts quickly, and ends when its input ends.
CAT = ["cat"]


@pytest.fixture(params=["hub", "no hub"], autouse=True)
def hub(request: pytest.FixtureRequest, own_hub: None) -> bool:
    """Whether the thread has a hub. Without one, calls block the thread."""
    if request.param == "hub":
        get_hub()
    return bool(request.param == "hub")


@pytest.fixture
def beside(hub: bool) -> Any:
    """Counts the turns of another green thread."""
    turns: list[None] = []

    def run() -> None:
        while True:
            turns.append(None)
            green.sleep(0)

    running = green.spawn(run)
    yield turns
    running.kill()


def waits(turns: list[None], function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function, and check that others have run during the call."""
    before = len(turns)
    result = function(*args, **kwargs)
    assert len(turns) > before
    return result


# -- waiting -----------------------------------------------------------------------------------------


def test_others_run_while_one_waits(beside: list[None]) -> None:
    process = Popen(["sh", "-c", "sleep 0.02; exit 3"])
    assert process.poll() is None
    assert waits(beside, process.wait) == 3
    assert (process.poll(), process.returncode) == (3, 3)


def test_waiting_for_a_while(beside: list[None]) -> None:
    process = Popen(CAT, stdin=PIPE)
    with pytest.raises(TimeoutExpired) as late:
        waits(beside, process.wait, timeout=0.01)
    assert late.value.timeout == 0.01
    with pytest.raises(TimeoutExpired):
        process.wait(0)
    process.kill()
    assert process.wait(timeout=10) == -signal.SIGKILL
    # The process has ended, and its id may have been reused.
    process.send_signal(signal.SIGTERM)
    process.terminate()
    process.stdin.close()


def test_several_wait() -> None:
    process = Popen(CAT, stdin=PIPE)
    waiting = [green.spawn(process.wait) for _ in range(3)]
    green.sleep(0.001)
    process.stdin.close()
    assert [one.get() for one in waiting] == [0, 0, 0]


@pytest.mark.parametrize("is_known", [True, False], ids=["an old kernel", "built with the headers of an old kernel"])
def test_without_pidfds(monkeypatch: pytest.MonkeyPatch, is_known: bool) -> None:
    def refused(pid: int, flags: int = 0) -> int:
        raise OSError(38, "not here")

    if is_known:
        monkeypatch.setattr(os, "pidfd_open", refused)
    else:
        monkeypatch.delattr(os, "pidfd_open")
    process = Popen(CAT, stdin=PIPE)
    waiting = green.spawn(process.wait)
    green.sleep(0.001)
    process.stdin.close()
    assert waiting.get() == 0


def test_killed_while_it_waits() -> None:
    process = Popen(CAT, stdin=PIPE)
    waiting = green.spawn(process.wait)
    green.sleep(0.001)
    waiting.kill()
    process.terminate()
    assert process.wait() == -signal.SIGTERM
    process.stdin.close()


def test_a_status_that_is_gone() -> None:
    process = Popen(["true"])
    os.waitpid(process.pid, 0)
    # As in the standard library.
    assert process.wait() == 0


def test_a_coroutine_may_not_wait() -> None:
    async def main() -> None:
        process = Popen(["sleep", "30"], stdout=PIPE)
        with pytest.raises(BlockingSwitchOutError):
            process.wait()
        with pytest.raises(BlockingSwitchOutError):
            process.communicate()
        process.kill()
        assert await get_hub().asyncio_loop.run_green(process.wait) == -signal.SIGKILL
        process.stdout.close()

    oneloop.run(main())


# -- pipes -------------------------------------------------------------------------------------------


def test_lines_to_and_fro(beside: list[None]) -> None:
    with Popen(CAT, stdin=PIPE, stdout=PIPE) as process:
        for line in (b"one\n", b"two\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline() == line
        reading = green.spawn(process.stdout.readline)
        waits(beside, green.sleep, 0.001)
        process.stdin.write(b"three\n")
        process.stdin.flush()
        assert reading.get() == b"three\n"
    assert process.returncode == 0
    assert process.stdout.closed


def test_more_than_a_pipe_holds(beside: list[None]) -> None:
    with Popen(CAT, stdin=PIPE, stdout=PIPE) as process:

        def write() -> None:
            process.stdin.write(BIG)
            process.stdin.close()

        writing = green.spawn(write)
        assert waits(beside, process.stdout.read) == BIG
        writing.get()


@pytest.mark.parametrize("bufsize", [-1, 0, 1, 512, None])
def test_sizes_of_buffers(bufsize: int | None) -> None:
    text = bufsize == 1
    with Popen(CAT, bufsize, stdin=PIPE, stdout=PIPE, text=text) as process:
        process.stdin.write("line\n" if text else b"line\n")
        if bufsize not in (0, 1):
            process.stdin.flush()
        line = process.stdout.readline()
        process.stdin.close()
        assert line == ("line\n" if text else b"line\n")
        if bufsize == 0:
            assert isinstance(process.stdout, io.RawIOBase)
            assert process.stdout.readall() == b""
            assert process.stdout.read() == b""


def test_line_buffering_is_for_text() -> None:
    with pytest.warns(RuntimeWarning, match="line buffering") as warned:
        process = Popen(CAT, 1, stdin=PIPE)
    assert {one.filename for one in warned} == {__file__}
    process.stdin.close()
    process.wait()


@pytest.mark.parametrize(
    "mode", [{"text": True}, {"encoding": "utf-16"}, {"errors": "replace"}, {"universal_newlines": True}]
)
def test_text(mode: dict[str, Any]) -> None:
    encoding = mode.get("encoding", "utf-8")
    code = f"import os; os.write(1, 'a\\r\\nb\\n\\xe4'.encode({encoding!r}))"
    for module in (subprocess, green_subprocess):
        process = module.Popen(python(code), stdout=PIPE, **mode)
        assert process.stdout.read() == "a\nb\nä"
        process.stdout.close()
        process.wait()
        assert module.run(python(code), stdout=PIPE, **mode).stdout == "a\nb\nä"


def test_pipes_are_what_the_standard_library_opens() -> None:
    for module in (subprocess, green_subprocess):
        with module.Popen(CAT, stdin=PIPE, stdout=PIPE) as process:
            for file, kind, mode in (
                (process.stdin, io.BufferedWriter, "wb"),
                (process.stdout, io.BufferedReader, "rb"),
            ):
                assert isinstance(file, kind)
                assert file.name == file.fileno()
                assert file.mode == mode
                assert not file.isatty()
                assert not file.seekable()
                assert file.readable() is (mode == "rb")
                assert file.writable() is (mode == "wb")
            raw = process.stdout.raw
            with pytest.raises(io.UnsupportedOperation):
                raw.write(b"x")
            with pytest.raises(io.UnsupportedOperation):
                process.stdin.raw.read(1)
        with pytest.raises(ValueError, match="closed file"):
            raw.read(1)
        with pytest.raises(ValueError, match="closed file"):
            raw.fileno()
        assert "closed" in repr(raw)


def test_closed_while_it_is_read() -> None:
    process = Popen(CAT, 0, stdin=PIPE, stdout=PIPE)
    assert "mode='rb'" in repr(process.stdout)
    reading = green.spawn(process.stdout.read, 1)
    green.sleep(0.001)
    process.stdout.close()
    with pytest.raises(OSError, match="closed in another greenlet"):
        reading.get()
    process.stdin.close()
    process.wait()


def test_the_other_end_is_closed() -> None:
    process = Popen(["sh", "-c", "exec <&-; echo"], stdin=PIPE, stdout=PIPE)
    assert process.stdout.read() == b"\n"
    with pytest.raises(BrokenPipeError):
        process.stdin.write(BIG)
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.stdout.close()
    process.wait()


def test_a_pipe_of_one_child_to_another() -> None:
    """The standard input of the program must be in blocking mode."""
    first = Popen(["sh", "-c", "sleep 0.02; echo x"], stdout=PIPE)
    second = Popen(CAT, stdin=first.stdout, stdout=PIPE, stderr=STDOUT)
    third = Popen(CAT, stdin=second.stdout.fileno(), stdout=PIPE)
    first.stdout.close()
    second.stdout.close()
    assert third.communicate() == (b"x\n", None)
    assert [one.wait() for one in (first, second, third)] == [0, 0, 0]


def test_a_pipe_that_is_shared_is_still_ours(beside: list[None]) -> None:
    process = Popen(CAT, 0, stdin=PIPE, stdout=PIPE)
    with Popen(["true"], pass_fds=[process.stdin.fileno(), process.stdout.fileno()]) as other:
        other.wait()
    assert os.get_blocking(process.stdout.fileno())
    reading = green.spawn(process.stdout.read, 100)
    waits(beside, green.sleep, 0.001)
    assert process.stdin.write(b"x") == 1
    assert reading.get() == b"x"

    def write() -> None:
        left = memoryview(BIG)
        while left:
            left = left[process.stdin.write(left) :]
        process.stdin.close()

    writing = green.spawn(write)
    assert waits(beside, process.stdout.readall) == BIG
    writing.get()
    process.stdout.close()
    process.wait()


# -- communicate -------------------------------------------------------------------------------------


def test_all_three_pipes(beside: list[None]) -> None:
    code = "import sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data); sys.stderr.buffer.write(data)"
    process = Popen(python(code), stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert waits(beside, process.communicate, BIG) == (BIG, BIG)
    assert process.returncode == 0
    assert process.stdin.closed


def test_only_some_pipes() -> None:
    assert Popen(CAT, stdin=PIPE, stdout=PIPE).communicate(b"in", timeout=10) == (b"in", None)
    assert Popen(["sh", "-c", "echo out; echo err >&2"], stderr=PIPE, stdout=PIPE, text=True).communicate() == (
        "out\n",
        "err\n",
    )
    assert Popen(["sh", "-c", "echo err >&2"], stderr=PIPE).communicate() == (None, b"err\n")
    assert Popen(CAT, stdin=PIPE).communicate(b"") == (None, None)


def test_what_was_read_before_the_time_was_up_is_kept() -> None:
    process = Popen(["sh", "-c", "echo first; cat"], stdin=PIPE, stdout=PIPE, stderr=PIPE)
    ours, theirs = os.pipe()
    waiting = Popen(["sh", "-c", f"echo first; cat /dev/fd/{ours}"], pass_fds=[ours], stdout=PIPE)
    os.close(ours)
    with pytest.raises(TimeoutExpired) as late:
        waiting.communicate(timeout=0.1)
    assert late.value.timeout == 0.1
    assert late.value.output in (None, b"first\n")
    os.write(theirs, b"second")
    os.close(theirs)
    assert waiting.communicate() == (b"first\nsecond", None)
    assert process.communicate(b"second") == (b"first\nsecond", b"")
    with pytest.raises(ValueError, match="Cannot send input after starting communication"):
        process.communicate(b"more")


def test_input_is_sent_on_after_a_timeout() -> None:
    process = Popen(["sh", "-c", "sleep 0.05; cat"], stdin=PIPE, stdout=PIPE)
    with pytest.raises(TimeoutExpired):
        process.communicate(BIG, timeout=0.01)
    assert process.communicate() == (BIG, None)


def test_nobody_reads_the_input() -> None:
    process = Popen(["sh", "-c", "exec <&-; echo gone"], stdin=PIPE, stdout=PIPE)
    assert process.communicate(BIG) == (b"gone\n", None)


def test_it_closes_its_output_and_goes_on() -> None:
    process = Popen(["sh", "-c", "exec >&- 2>&-; exec sleep 30"], stdout=PIPE, stderr=PIPE)
    with pytest.raises(TimeoutExpired) as late:
        process.communicate(timeout=0.05)
    assert late.value.timeout == 0.05
    process.kill()
    assert process.communicate() == (b"", b"")


def test_killed_in_the_midst_of_it() -> None:
    process = Popen(CAT, stdin=PIPE, stdout=PIPE)
    exchanging = green.spawn(process.communicate, None)
    process.stdout.fileno()
    green.sleep(0)
    exchanging.kill()
    process.kill()
    process.stdout.close()
    process.stdin.close()
    process.wait()


# -- starting ----------------------------------------------------------------------------------------


def test_a_program_that_is_not_there() -> None:
    for module in (subprocess, green_subprocess):
        with pytest.raises(FileNotFoundError, match="/nothing/here"):
            module.Popen(["/nothing/here"], stdin=PIPE, stdout=PIPE, stderr=PIPE)
        with pytest.raises(TypeError, match="bufsize must be an integer"):
            module.Popen(CAT, "1")
        with pytest.raises(subprocess.SubprocessError, match="Exception occurred in preexec_fn"):
            module.Popen(CAT, preexec_fn=lambda: 1 / 0)


def test_pipes_that_cannot_be_opened() -> None:
    with pytest.raises(LookupError, match="unknown encoding"):
        Popen(CAT, stdin=PIPE, stdout=subprocess.DEVNULL, stderr=PIPE, encoding="no-such")
    with pytest.raises(LookupError, match="unknown encoding"):
        Popen(CAT, stdout=PIPE, stderr=STDOUT, encoding="no-such")


def test_how_it_starts() -> None:
    code = "import os; print(os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid(), oct(os.umask(0)), os.getcwd())"
    for module in (subprocess, green_subprocess):
        done = module.run(
            python(code), start_new_session=True, umask=0o27, cwd="/", capture_output=True, text=True, check=True
        )
        assert done.stdout == "True True 0o27 /\n"
        done = module.run(python(code), process_group=0, stdout=PIPE, env={}, text=True, check=True)
        assert done.stdout.startswith("False True")


def test_the_functions(beside: list[None]) -> None:
    assert waits(beside, green_subprocess.call, "sleep 0.2; exit 3", shell=True) == 3
    with pytest.raises(subprocess.CalledProcessError):
        green_subprocess.check_call(["false"])
    assert waits(beside, green_subprocess.check_output, "sleep 0.01; cat", shell=True, input=b"in") == b"in"
    assert waits(beside, green_subprocess.getoutput, "sleep 0.01; echo out") == "out"
    assert green_subprocess.getstatusoutput("echo out; exit 3") == (3, "out")
    done = waits(beside, green_subprocess.run, ["sh", "-c", "sleep 0.01; echo out"], capture_output=True)
    assert (type(done), done.stdout) == (subprocess.CompletedProcess, b"out\n")
    with pytest.raises(TimeoutExpired) as late:
        green_subprocess.run(["sleep", "30"], timeout=0.01)
    assert type(late.value) is subprocess.TimeoutExpired
    with pytest.raises(subprocess.CalledProcessError):
        green_subprocess.run(["false"], check=True)


def test_a_timeout_of_green_threads_ends_the_child() -> None:
    before = children.living()
    with green.Timeout(0.05, False):
        green_subprocess.run(["sleep", "30"])
    assert children.living() == before


def test_many_at_once() -> None:
    running = [green.spawn(green_subprocess.check_output, ["echo", str(number)]) for number in range(10)]
    assert [int(one.get()) for one in running] == list(range(10))


def test_a_thread_without_green_threads() -> None:
    outputs: list[Any] = []

    def run() -> None:
        outputs.append(green_subprocess.check_output(["sh", "-c", "sleep 0.01; echo out"]))
        outputs.append(green_subprocess.run(CAT, input=BIG, capture_output=True, timeout=20).stdout)
        with Popen(CAT, 0, stdin=PIPE, stdout=PIPE) as process:
            process.stdin.write(b"x")
            outputs.append(process.stdout.read(1))
            with pytest.raises(TimeoutExpired):
                process.wait(0.001)
        # It blocks the thread: no hub is needed.
        outputs.append(has_hub())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert outputs == [b"out\n", BIG, b"x", False]


def test_patched_in_place_of_the_standard_librarys(monkeypatch: pytest.MonkeyPatch, beside: list[None]) -> None:
    for name in green_subprocess.__implements__:
        monkeypatch.setattr(subprocess, name, getattr(green_subprocess, name))
    assert waits(beside, subprocess.run, ["sh", "-c", "sleep 0.02; echo x"], capture_output=True).stdout == b"x\n"

    async def main() -> tuple[bytes, int | None]:
        import asyncio

        process = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE)
        output, _ = await process.communicate(BIG)
        return output, process.returncode

    assert oneloop.run(main()) == (BIG, 0)


def test_names_of_the_standard_library() -> None:
    assert issubclass(Popen, subprocess.Popen)
    assert green_subprocess.list2cmdline is subprocess.list2cmdline
    assert {*subprocess.__all__} <= {*green_subprocess.__all__}
    with pytest.raises(AttributeError):
        green_subprocess.nothing  # noqa: B018


def test_a_wait_that_times_out_leaves_no_link() -> None:
    with Popen(["sleep", "60"]) as child:
        for _ in range(3):
            assert green.wait([child], timeout=0.001) == []
        assert child._watch is not None
        assert not child._watch.has_links()
        child.kill()
        assert green.wait([child], timeout=30) == [child]
