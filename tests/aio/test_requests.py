"""Requests: what they take, what they refuse, and how long they and their buffers live."""

from __future__ import annotations

import errno
import gc
import os
import select
import weakref
from pathlib import Path
from typing import Any

import pytest

from oneloop import aio


@pytest.mark.parametrize("buffer", [b"immutable", memoryview(b"immutable")])
def test_read_targets_must_be_writable(file: int, buffer: Any) -> None:
    with pytest.raises(BufferError):
        aio.Read(file, buffer)
    with pytest.raises(BufferError):
        aio.ReadV(file, [bytearray(1), buffer])


@pytest.mark.parametrize("buffer", ["text", None, 3, object()])
def test_buffers_must_have_memory(file: int, buffer: Any) -> None:
    for kind in (aio.Read, aio.Write):
        with pytest.raises(TypeError):
            kind(file, buffer)
    with pytest.raises(TypeError):
        aio.WriteV(file, [buffer])


def test_buffers_must_be_contiguous(file: int) -> None:
    with pytest.raises(BufferError):
        aio.Read(file, memoryview(bytearray(10))[::2])


def test_arguments_out_of_range(file: int) -> None:
    with pytest.raises(ValueError, match="offset is negative"):
        aio.Read(file, bytearray(1), -1)
    with pytest.raises(ValueError, match="length is 2, but the buffer has 1 bytes"):
        aio.Read(file, bytearray(1), 0, 2)
    with pytest.raises(OverflowError):
        aio.Read(file, bytearray(1), 0, -1)
    with pytest.raises(OverflowError):
        aio.Read(file, bytearray(1), 1 << 63)
    with pytest.raises(OverflowError, match="poll events"):
        aio.Poll(file, 1 << 16)
    with pytest.raises(OverflowError, match="poll events"):
        aio.Poll(file, -1)
    with pytest.raises(ValueError, match="priority"):
        aio.Read(file, bytearray(1), priority_class=8)
    with pytest.raises(ValueError, match="priority"):
        aio.Fsync(file, priority_value=1 << 13)


def test_files_have_a_number() -> None:
    with pytest.raises(AttributeError, match="fileno"):
        aio.Fsync(object())  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        aio.Fsync(1 << 40)


def test_requests_are_made_through_their_kinds() -> None:
    with pytest.raises(TypeError, match=r"cannot create|No constructor"):
        aio.Request()


def test_a_buffer_may_be_resized_until_it_is_submitted(context: aio.Context, pipe: tuple[int, int]) -> None:
    target = bytearray(4)
    read = aio.Read(pipe[0], target)
    target.extend(b"more")
    assert read.length == 8
    poll = aio.Poll(pipe[0], select.POLLIN)
    assert context.submit(poll) == 1
    os.write(pipe[1], b"12345678")
    context.get_events(1, 1)
    assert context.submit(read) == 1
    context.get_events(1, 1)
    assert target == b"12345678"
    target.clear()


def test_a_buffer_that_has_shrunk_below_the_length(context: aio.Context, file: int) -> None:
    target = bytearray(4)
    read = aio.Read(file, target, length=4)
    target.clear()
    with pytest.raises(ValueError, match="length is 4, but the buffer has 0 bytes"):
        context.submit(read)
    assert not read.in_flight


def test_a_buffer_is_pinned_until_its_event_is_returned(context: aio.Context, file: int) -> None:
    target = bytearray(4)
    read = aio.Read(file, target)
    context.submit(read)
    with pytest.raises(BufferError):
        target.extend(b"more")
    (event,) = context.get_events(1, 1)
    assert event.request is read
    assert target == b"0123"
    target.extend(b"more")


def test_a_request_that_the_program_drops_still_has_its_event(context: aio.Context, file: int) -> None:
    class Watched(bytearray):
        pass

    target = Watched(4)
    gone = weakref.ref(target)
    context.submit(aio.Read(file, target))
    del target
    gc.collect()
    assert gone() is not None
    (event,) = context.get_events(1, 1)
    assert isinstance(event.request, aio.Read)
    assert event.request.buffer == b"0123"
    del event
    gc.collect()
    assert gone() is None


def test_a_request_can_be_submitted_again_but_not_twice(context: aio.Context, pipe: tuple[int, int]) -> None:
    poll = aio.Poll(pipe[0], select.POLLIN)
    assert not poll.in_flight
    context.submit(poll)
    assert poll.in_flight
    assert "in flight" in repr(poll)
    with pytest.raises(ValueError, match="already in flight"):
        context.submit(poll)
    other = aio.Poll(pipe[1], select.POLLOUT)
    with pytest.raises(ValueError, match="already in flight"):
        context.submit(other, other)
    assert not other.in_flight
    os.write(pipe[1], b"x")
    context.get_events(1, 1)
    assert not poll.in_flight
    assert context.submit(poll) == 1
    (event,) = context.get_events(1, 1)
    assert event.request is poll


def test_what_was_not_taken_is_free_again(context: aio.Context, file: int) -> None:
    good, bad = aio.Fsync(file), aio.Fsync(9999)
    after = aio.Fsync(file)
    assert context.submit(good, bad, after) == 1
    assert not bad.in_flight
    assert not after.in_flight
    context.get_events(1, 1)
    with pytest.raises(OSError, match="Bad file descriptor") as caught:
        context.submit(bad, after)
    assert caught.value.errno == errno.EBADF
    assert caught.value.__notes__ == [f"submit to {context.engine}"]


def test_a_closed_files_number_is_not_used(context: aio.Context, tmp_path: Path) -> None:
    """The kernel may have given the number to another file."""
    first = (tmp_path / "first").open("w+b", buffering=0)
    write = aio.Write(first, b"secret")
    first.close()
    with (tmp_path / "second").open("w+b", buffering=0):
        with pytest.raises(ValueError, match="closed file"):
            context.submit(write)
    assert (tmp_path / "second").read_bytes() == b""


def test_cycles_through_a_request_are_collected(file: int) -> None:
    class File:
        request: aio.Request

        def fileno(self) -> int:
            return file

    made = File()
    made.request = aio.Fsync(made)
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None


def test_representations(context: aio.Context, file: int) -> None:
    assert repr(aio.Read(7 if file != 7 else 8, bytearray(1), 5)).endswith("offset=5>")
    assert repr(context) == f"<Context engine={context.engine} max_jobs=64>"
    context.submit(aio.Fsync(file))
    (event,) = context.get_events(1, 1)
    assert repr(event) == f"<Event <Fsync {file} offset=0> response=0>"
