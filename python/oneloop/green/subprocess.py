"""`subprocess`: the standard library's, with a `Popen` that waits, reads and writes while other green threads go on.

Starting a child takes as long as it does there: until the child has begun its program. Names that are not defined here
are those of the standard library's module.
"""

from __future__ import annotations

import contextlib
import os as _os
import select as _select
import subprocess as _stock
from time import monotonic as _monotonic
from types import FunctionType
from typing import Any

from oneloop.green import children
from oneloop.green.hub import Waiter, get_hub, has_hub, wait_for
from oneloop.green.pipes import hand_over, open_pipe

# The functions of the standard library's module find a patched `Popen` there by themselves.
__implements__ = ["Popen"]
__all__ = [
    "DEVNULL",
    "PIPE",
    "STDOUT",
    "CalledProcessError",
    "CompletedProcess",
    "Popen",
    "SubprocessError",
    "TimeoutExpired",
    "call",
    "check_call",
    "check_output",
    "getoutput",
    "getstatusoutput",
    "run",
]

DEVNULL = _stock.DEVNULL
PIPE = _stock.PIPE
STDOUT = _stock.STDOUT
CalledProcessError = _stock.CalledProcessError
CompletedProcess = _stock.CompletedProcess
SubprocessError = _stock.SubprocessError
TimeoutExpired = _stock.TimeoutExpired

_close = _os.close
_poll = _select.poll
_read = _os.read
_write = _os.write

_READ_BYTES = 64 * 1024
_LONGEST_POLL_MS = 1 << 30
# A pipe that is ready takes so much without blocking, whatever its flags.
_PIPE_BYTES = getattr(_select, "PIPE_BUF", 512)


class Popen(_stock.Popen):  # type: ignore[type-arg]
    """See `subprocess.Popen`. Its pipes are for the green threads of the thread that made it."""

    def __init__(self, args: Any, bufsize: int | None = -1, *rest: Any, **kwargs: Any) -> None:
        self._bufsize = bufsize
        self._ends: tuple[int, ...] = ()
        super().__init__(args, bufsize, *rest, **kwargs)  # type: ignore[arg-type]

    # -- pipes -----------------------------------------------------------------------------------------

    def _get_handles(self, stdin: Any, stdout: Any, stderr: Any) -> tuple[int, ...]:
        for file in (stdin, stdout, stderr):
            if file is not None and file not in (PIPE, STDOUT, DEVNULL):
                hand_over(file)
        self._ends = super()._get_handles(stdin, stdout, stderr)  # type: ignore[misc]
        unopened = {self._ends[index] for index in _OURS} - {-1}
        try:
            self._open_pipes(unopened)
        except BaseException:
            self._close_ends(unopened, stdin, stdout, stderr)
            raise
        # Our ends are open: hidden from the constructor, which would open them too.
        return tuple(-1 if index in _OURS else end for index, end in enumerate(self._ends))

    def _open_pipes(self, unopened: set[int]) -> None:
        # Of the right type: the constructor has looked.
        bufsize = -1 if self._bufsize is None else self._bufsize
        text: dict[str, Any] | None = None
        input_text: dict[str, Any] | None = None
        if self.text_mode:  # type: ignore[attr-defined]
            text = {"encoding": self.encoding, "errors": self.errors}  # type: ignore[attr-defined]
            input_text = {**text, "write_through": True, "line_buffering": bufsize == 1}
            bufsize = -1 if bufsize == 1 else bufsize
        files = (("stdin", "wb", input_text), ("stdout", "rb", text), ("stderr", "rb", text))
        for index, (name, mode, arguments) in zip(_OURS, files, strict=True):
            fd = self._ends[index]
            if fd != -1:
                # Closed by `open_pipe`, if it fails.
                unopened.remove(fd)
                setattr(self, name, open_pipe(fd, mode, bufsize, arguments))

    def _close_ends(self: Any, unopened: set[int], *given: Any) -> None:
        """A pipe cannot be opened: nothing of them stays."""
        for file in (self.stdin, self.stdout, self.stderr):
            if file is not None:
                file.close()
        theirs = {self._ends[index] for index, wanted in zip(_THEIRS, given, strict=True) if wanted == PIPE}
        for fd in {*unopened, *theirs, getattr(self, "_devnull", -1)} - {-1}:
            _close(fd)

    def _execute_child(self, *args: Any) -> None:
        before, after = args[:_FIRST_END], args[_FIRST_END + len(self._ends) :]
        for fd in args[_PASS_FDS]:
            hand_over(fd)
        super()._execute_child(*before, *self._ends, *after)  # type: ignore[misc]

    # -- waiting ---------------------------------------------------------------------------------------

    def _wait(self, timeout: float | None) -> int:
        if not has_hub():
            # No green thread is here that could run meanwhile.
            status: int = super()._wait(timeout)  # type: ignore[misc]
            return status
        if self.returncode is None:
            children.wait_changed(self.pid, 0, self._is_over, timeout)
            if self.returncode is None:
                assert timeout is not None
                raise TimeoutExpired(self.args, timeout)
        return self.returncode

    def _is_over(self: Any) -> bool:
        # Nobody keeps the lock while he waits.
        with self._waitpid_lock:
            if self.returncode is None:
                pid, status = self._try_wait(_os.WNOHANG)
                if pid == self.pid:
                    self._handle_exitstatus(status)
        return self.returncode is not None

    def _communicate(self: Any, input: Any, endtime: float | None, orig_timeout: float | None) -> tuple[Any, Any]:  # noqa: A002
        if self.stdin and not self._communication_started:
            _flush(self.stdin)
            if not input:
                with contextlib.suppress(BrokenPipeError):
                    self.stdin.close()
        if not self._communication_started:
            # What was read before a timeout is kept for the next call.
            self._fileobj2output: dict[Any, list[bytes]] = {file: [] for file in (self.stdout, self.stderr) if file}
        self._save_input(input)
        exchange = _Exchange(self)
        try:
            while exchange.files:
                if not exchange.step(endtime):
                    self._check_timeout(
                        endtime,
                        orig_timeout,
                        self._fileobj2output.get(self.stdout),
                        self._fileobj2output.get(self.stderr),
                        skip_check_and_raise=True,
                    )
        finally:
            exchange.stop()
        try:
            self.wait(timeout=_left(endtime))
        except TimeoutExpired as late:
            late.timeout = orig_timeout  # type: ignore[assignment]
            raise
        return self._output_of(self.stdout), self._output_of(self.stderr)

    def _output_of(self: Any, file: Any) -> Any:
        if file is None:
            return None
        data = b"".join(self._fileobj2output[file])
        return self._translate_newlines(data, file.encoding, file.errors) if self.text_mode else data


class _Watched:
    """The loop tells which descriptors are ready."""

    def __init__(self) -> None:
        self._hub = get_hub()
        self._loop = self._hub.asyncio_loop
        self._waiter = Waiter(self._hub)
        self._ready: set[int] = set()

    def add(self, fd: int, for_writing: bool) -> None:
        (self._loop._add_writer if for_writing else self._loop._add_reader)(fd, self._note, fd)

    def remove(self, fd: int, for_writing: bool) -> None:
        (self._loop._remove_writer if for_writing else self._loop._remove_reader)(fd)

    def _note(self, fd: int) -> None:
        self._ready.add(fd)
        self._waiter.wake()

    def wait(self, timeout: float | None) -> set[int]:
        wait_for(self._waiter, timeout)
        ready, self._ready = self._ready, set()
        return ready


class _Polled:
    """The same for a thread without green threads, which blocks."""

    def __init__(self) -> None:
        self._poll = _poll()

    def add(self, fd: int, for_writing: bool) -> None:
        self._poll.register(fd, _select.POLLOUT if for_writing else _select.POLLIN)

    def remove(self, fd: int, for_writing: bool) -> None:
        self._poll.unregister(fd)

    def wait(self, timeout: float | None) -> set[int]:
        # In milliseconds, and no more than poll(2) takes.
        milliseconds = None if timeout is None else min(timeout * 1000, _LONGEST_POLL_MS)
        return {fd for fd, _ in self._poll.poll(milliseconds)}


class _Exchange:
    """What `communicate` reads and writes: each file when it is known to be ready.

    Files that a program has put in the place of ours may block: nobody reads or writes before.
    """

    def __init__(self, process: Any) -> None:
        self._process = process
        self._readiness = _Watched() if has_hub() else _Polled()
        self.files: dict[int, Any] = {}
        for file in process._fileobj2output:
            if not file.closed:
                self._enter(file)
        if process.stdin and process._input and not process.stdin.closed:
            self._enter(process.stdin)

    def _enter(self, file: Any) -> None:
        fd = file.fileno()
        self._readiness.add(fd, file is self._process.stdin)
        self.files[fd] = file

    def step(self, endtime: float | None) -> bool:
        """Wait, and move what can be moved. False if the time is up."""
        left = _left(endtime)
        if left is not None and left < 0:
            return False
        for fd in self._readiness.wait(left) & self.files.keys():
            file = self.files[fd]
            if file is self._process.stdin:
                self._write(fd)
            else:
                self._read(fd, file)
        return True

    def _read(self, fd: int, file: Any) -> None:
        try:
            data = _read(fd, _READ_BYTES)
        except BlockingIOError:
            return
        if data:
            self._process._fileobj2output[file].append(data)
        else:
            self._leave(fd)

    def _write(self, fd: int) -> None:
        process = self._process
        offset = process._input_offset
        try:
            process._input_offset += _write(fd, memoryview(process._input).cast("b")[offset : offset + _PIPE_BYTES])
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._leave(fd)
        else:
            if process._input_offset >= memoryview(process._input).nbytes:
                self._leave(fd)

    def _leave(self, fd: int) -> None:
        """It is over; the file is closed."""
        self._forget(fd)
        file = self.files.pop(fd)
        with contextlib.suppress(BrokenPipeError):
            file.close()

    def _forget(self, fd: int) -> None:
        self._readiness.remove(fd, self.files[fd] is self._process.stdin)

    def stop(self) -> None:
        """Watch no file any more."""
        for fd in self.files:
            self._forget(fd)


# The places of our ends and of the child's among the six that `_get_handles` gives, and where they stand among
# `_execute_child`'s arguments.
_OURS = (1, 2, 4)
_THEIRS = (0, 3, 5)
_FIRST_END = 10
_PASS_FDS = 4


def _flush(stdin: Any) -> None:
    try:
        stdin.flush()
    except BrokenPipeError:
        # Who has stopped reading tells why with its exit status.
        pass
    except ValueError:
        if not stdin.closed:
            raise


def _left(endtime: float | None) -> float | None:
    return None if endtime is None else endtime - _monotonic()


# The standard library's functions, with the module's `Popen`: they are its own for each version of Python.
_names: dict[str, Any] = {**vars(_stock), "Popen": Popen}


def _with_our_popen(name: str) -> Any:
    function = getattr(_stock, name)
    ours = FunctionType(function.__code__, _names, name, function.__defaults__, function.__closure__)
    ours.__kwdefaults__ = function.__kwdefaults__
    ours.__doc__ = function.__doc__
    _names[name] = ours
    return ours


call = _with_our_popen("call")
check_call = _with_our_popen("check_call")
run = _with_our_popen("run")
check_output = _with_our_popen("check_output")
getstatusoutput = _with_our_popen("getstatusoutput")
getoutput = _with_our_popen("getoutput")


def __getattr__(name: str) -> Any:
    return getattr(_stock, name)
