"""Contexts: how many requests they take, which engine they get, how they end, and fork."""

from __future__ import annotations

import errno
import gc
import os
import select
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from oneloop import aio
from tests import programs

Engine = Literal["ring", "aio"]


def test_attributes(engine: Engine) -> None:
    context = aio.Context(3, engine=engine)
    assert (context.engine, context.max_jobs, context.in_flight, context.closed) == (engine, 3, 0, False)
    context.close()
    assert context.closed
    context.close()
    assert "closed" in repr(context)


def test_with_closes_and_may_find_it_closed(engine: Engine) -> None:
    with aio.Context(3, engine) as context:
        assert not context.closed
    assert context.closed
    with pytest.raises(ZeroDivisionError):
        with aio.Context(3, engine) as context:
            context.close()
            raise ZeroDivisionError
    assert context.closed


def test_use_after_close(engine: Engine, file: int) -> None:
    context = aio.Context(3, engine)
    request = aio.Fsync(file)
    context.close()
    uses: list[Callable[[], object]] = [
        lambda: context.submit(request),
        context.submit,
        lambda: context.get_events(0, 1),
        lambda: context.get_events(1, 1, 1),
        lambda: context.cancel(request),
    ]
    for use in uses:
        with pytest.raises(ValueError, match=r"closed|not in flight"):
            use()
    assert not request.in_flight
    assert context.in_flight == 0


@pytest.mark.parametrize("jobs", [0, -1, 1 << 32])
def test_room_that_cannot_be_had(engine: Engine, jobs: int) -> None:
    with pytest.raises(ValueError, match="max_jobs must be from 1 to"):
        aio.Context(jobs, engine)


def test_wrong_arguments(file: int) -> None:
    with pytest.raises(ValueError, match='unknown engine "threads": use "ring" or "aio"'):
        aio.Context(1, "threads")  # type: ignore[arg-type]
    with aio.Context(1) as context:
        for wrong in (None, file, object()):
            request: Any = wrong
            with pytest.raises(TypeError):
                context.submit(aio.Fsync(file), request)
        assert context.in_flight == 0


def test_no_requests_are_no_system_call(context: aio.Context) -> None:
    assert context.submit() == 0
    assert context.get_events(0, 100) == ()


def test_no_more_than_max_jobs_are_taken(engine: Engine, pipe: tuple[int, int]) -> None:
    with aio.Context(3, engine) as context:
        polls = [aio.Poll(pipe[0], select.POLLIN) for _ in range(5)]
        assert context.submit(*polls) == 3
        assert [poll.in_flight for poll in polls] == [True] * 3 + [False] * 2
        with pytest.raises(BlockingIOError) as caught:
            context.submit(*polls[3:])
        assert caught.value.errno == errno.EAGAIN
        os.write(pipe[1], b"x")
        assert len(context.get_events(3, 5)) == 3
        assert context.submit(*polls[3:]) == 2
        context.get_events(2, 2)


def test_the_machines_limit_for_kernel_aio() -> None:
    limit = int(Path("/proc/sys/fs/aio-max-nr").read_text())
    with pytest.raises(OSError, match=r"fs\.aio-max-nr") as caught:
        aio.Context(limit + 1, "aio")
    assert caught.value.errno == errno.EAGAIN


def test_closing_lets_writes_finish_and_cancels_what_waits(engine: Engine, file: int, pipe: tuple[int, int]) -> None:
    context = aio.Context(8, engine)
    poll, write = aio.Poll(pipe[0], select.POLLIN), aio.Write(file, b"X" * 10)
    assert context.submit(poll, write) == 2
    began = time.monotonic()
    context.close()
    assert time.monotonic() - began < 60
    assert os.pread(file, 10, 0) == b"X" * 10
    assert not poll.in_flight
    assert not write.in_flight


def test_closing_ends_a_read_that_would_wait_for_ever(pipe: tuple[int, int]) -> None:
    context = aio.Context(8, "ring")
    target = bytearray(4)
    context.submit(aio.Read(pipe[0], target))
    began = time.monotonic()
    context.close()
    assert time.monotonic() - began < 60
    target.extend(b"not pinned any more")


def test_what_nobody_closes_is_told_of_and_ended(engine: Engine, pipe: tuple[int, int]) -> None:
    context = aio.Context(8, engine)
    poll = aio.Poll(pipe[0], select.POLLIN)
    context.submit(poll)
    with pytest.warns(ResourceWarning, match=r"unclosed oneloop\.aio\.Context for 8 jobs"):
        del context
    assert not poll.in_flight


def test_the_exception_under_way_survives(engine: Engine) -> None:
    def fail() -> None:
        context = aio.Context(8, engine)
        try:
            raise KeyError("mine")
        finally:
            del context

    with pytest.warns(ResourceWarning), pytest.raises(KeyError, match="mine"):
        fail()


def test_contexts_leave_nothing_behind(engine: Engine, file: int) -> None:
    """Descriptors are audited after each test; here the memory that the kernel shares with each context of AIO."""

    def in_use() -> int:
        # Of this process; /proc/sys/fs/aio-nr would count those of others.
        return Path("/proc/self/maps").read_text().count("/[aio]")

    with aio.Context(16, "aio"):
        assert in_use() > 0
    before = in_use()
    for _ in range(50):
        with aio.Context(16, engine) as context:
            context.submit(aio.Read(file, bytearray(4)))
    assert in_use() <= before


def test_the_best_engine_is_the_ring() -> None:
    with aio.Context(1) as context:
        assert context.engine == "ring"


FORBIDDEN = """
from oneloop import aio
from tests import seccomp
import errno
def attempt(engine):
    try:
        with aio.Context(4, engine) as context:
            print(context.engine)
    except OSError as error:
        print(errno.errorcode[error.errno], error)
"""


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the filter knows two machines")
def test_where_io_uring_is_forbidden() -> None:
    shown = programs.run_ok(
        "oneloop",
        FORBIDDEN
        + """
seccomp.forbid("io_uring_setup")
attempt(None)
attempt("aio")
attempt("ring")
""",
    ).splitlines()
    assert shown[:2] == ["aio", "aio"]
    assert shown[2].startswith("EPERM")
    for word in ("io_uring", "seccomp", "Docker", "kernel.io_uring_disabled", "engine="):
        assert word in shown[2]


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the filter knows two machines")
def test_where_kernel_aio_is_forbidden() -> None:
    shown = programs.run_ok(
        "oneloop",
        FORBIDDEN
        + """
seccomp.forbid("io_setup")
attempt(None)
attempt("aio")
""",
    ).splitlines()
    assert shown[0] == "ring"
    assert shown[1].startswith("EPERM")
    assert "io_setup" in shown[1]


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the filter knows two machines")
def test_where_everything_is_forbidden() -> None:
    shown = programs.run_ok(
        "oneloop",
        FORBIDDEN
        + """
seccomp.forbid("io_uring_setup", "io_setup", error=errno.ENOSYS)
attempt(None)
attempt("ring")
""",
    ).splitlines()
    assert [line.split()[0] for line in shown] == ["ENOSYS", "ENOSYS"]
    assert "CONFIG_AIO" in shown[0]
    assert "does not provide io_uring" in shown[1]


OPTIONS = ("-W", "ignore::DeprecationWarning")


def test_the_child_of_a_fork_gets_clear_errors(engine: Engine) -> None:
    shown = programs.run_ok(
        "oneloop",
        f"""
        from oneloop import aio
        import select
        ours, theirs = os.pipe()
        context = aio.Context(4, {engine!r})
        target = bytearray(8)
        poll, read = aio.Poll(ours, select.POLLIN), aio.Read(os.memfd_create("file"), target)
        assert context.submit(poll, read) == 2
        pid = os.fork()
        if pid == 0:
            refused = 0
            for use in [
                lambda: context.submit(aio.Fsync(ours)),
                lambda: context.get_events(1, 1),
                lambda: context.cancel(poll),
                lambda: context.in_flight,
            ]:
                try:
                    use()
                except RuntimeError as error:
                    refused += "parent process" in str(error)
            assert refused == 4, refused
            assert not context.closed
            context.close()
            assert context.closed
            target.extend(b"not pinned any more")
            # A context of its own works.
            with aio.Context(4, {engine!r}) as own:
                own.submit(aio.Fsync(os.memfd_create("own")))
                assert own.get_events(1, 1)[0].result() == 0
            del context
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        os.write(theirs, b"x")
        assert {{event.request for event in context.get_events(2, 2)}} == {{poll, read}}
        context.close()
        print("parent lives")
        """,
        options=OPTIONS,
    )
    assert shown == "parent lives\n"


def test_the_child_may_forget_its_copy(engine: Engine) -> None:
    shown = programs.run_ok(
        "oneloop",
        f"""
        from oneloop import aio
        import gc, select, warnings
        ours, theirs = os.pipe()
        context = aio.Context(4, {engine!r})
        poll = aio.Poll(ours, select.POLLIN)
        context.submit(poll)
        pid = os.fork()
        if pid == 0:
            warnings.simplefilter("error")
            del context, poll
            gc.collect()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        os.write(theirs, b"x")
        assert context.get_events(1, 1)[0].request is poll
        context.close()
        print("parent lives")
        """,
        options=OPTIONS,
    )
    assert shown == "parent lives\n"


def test_an_open_context_at_exit(engine: Engine) -> None:
    """Neither a crash nor a hang."""
    shown = programs.run_ok(
        "oneloop",
        f"""
        from oneloop import aio
        import select
        ours, theirs = os.pipe()
        context = aio.Context(4, {engine!r})
        context.submit(aio.Poll(ours, select.POLLIN))
        print("end", flush=True)
        """,
    )
    assert shown == "end\n"


def test_warnings_as_errors_do_not_break_the_end(engine: Engine) -> None:
    unraisable: list[Any] = []
    import sys

    before, sys.unraisablehook = sys.unraisablehook, unraisable.append
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            aio.Context(2, engine)
            gc.collect()
    finally:
        sys.unraisablehook = before
    assert [entry.exc_type for entry in unraisable] == [ResourceWarning]
