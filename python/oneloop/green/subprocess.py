"""`subprocess`: the standard library's module, with a `Popen` that lets green threads run while it waits.

Starting a child blocks as in the standard library, until the child executes its program. Names that are not defined
here come from the standard library's module.
"""

from __future__ import annotations

import contextlib
import os as _os
import select as _select
import subprocess as _stock
from time import monotonic as _monotonic
from types import FunctionType
from typing import TYPE_CHECKING, Any

from oneloop.green import children
from oneloop.green.fileobject import FileObject
from oneloop.green.greenlet import Greenlet
from oneloop.green.hub import Waiter, get_hub, has_hub, wait_for
from oneloop.green.links import linkproxy
from oneloop.green.pipes import hand_over, open_pipe

if TYPE_CHECKING:
    from collections.abc import Callable

# The functions of the standard library's module use a patched `Popen` without further changes.
__implements__ = ["Popen"]
__all__ = [
    "DEVNULL",
    "PIPE",
    "STDOUT",
    "CalledProcessError",
    "CompletedProcess",
    "FileObject",
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
# A pipe that poll reports as writable accepts this many bytes without blocking, even in blocking mode.
_PIPE_BYTES = getattr(_select, "PIPE_BUF", 512)


class Popen(_stock.Popen):  # type: ignore[type-arg]
    """Like `subprocess.Popen`. Use its pipes in green threads of the OS thread that created it."""

    def __init__(self, args: Any, bufsize: int | None = -1, *rest: Any, **kwargs: Any) -> None:
        self._bufsize = bufsize
        self._ends: tuple[int, ...] = ()
        self._watch: Greenlet | None = None
        super().__init__(args, bufsize, *rest, **kwargs)  # type: ignore[arg-type]

    # -- links -----------------------------------------------------------------------------------------

    def rawlink(self, callback: Callable[[Any], object]) -> None:
        """Make the hub call `callback(self)` when the child has ended. For `wait` and `iwait` of green threads."""
        if self._watch is None:
            self._watch = Greenlet.spawn(self.wait)
        self._watch.rawlink(linkproxy(callback, self))

    def unlink(self, callback: Callable[[Any], object]) -> None:
        """Remove a link."""
        if self._watch is not None:
            self._watch.unlink(linkproxy(callback, self))

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
        # Our ends are open. Hide them from the base class's constructor, which would open them again.
        return tuple(-1 if index in _OURS else end for index, end in enumerate(self._ends))

    def _open_pipes(self, unopened: set[int]) -> None:
        # The constructor has checked the type.
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
                # `open_pipe` closes the descriptor if it fails.
                unopened.remove(fd)
                setattr(self, name, open_pipe(fd, mode, bufsize, arguments))

    def _close_ends(self: Any, unopened: set[int], *given: Any) -> None:
        """Close everything after a pipe could not be opened."""
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
            # Blocking is fine: this OS thread has no green threads.
            status: int = super()._wait(timeout)  # type: ignore[misc]
            return status
        if self.returncode is None:
            children.wait_changed(self.pid, 0, self._is_over, timeout)
            if self.returncode is None:
                assert timeout is not None
                raise TimeoutExpired(self.args, timeout)
        return self.returncode

    def _is_over(self: Any) -> bool:
        # The lock is not held during the wait.
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
            # Output that was read before a timeout is kept for the next call.
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
    """Descriptors whose readiness is reported by the loop."""

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
    """Like `_Watched`, for an OS thread without green threads. It blocks the thread."""

    def __init__(self) -> None:
        self._poll = _poll()

    def add(self, fd: int, for_writing: bool) -> None:
        self._poll.register(fd, _select.POLLOUT if for_writing else _select.POLLIN)

    def remove(self, fd: int, for_writing: bool) -> None:
        self._poll.unregister(fd)

    def wait(self, timeout: float | None) -> set[int]:
        # In milliseconds, limited to what poll(2) accepts.
        milliseconds = None if timeout is None else min(timeout * 1000, _LONGEST_POLL_MS)
        return {fd for fd, _ in self._poll.poll(milliseconds)}


class _Exchange:
    """The reading and writing of `communicate`. A file is used only when it is known to be ready.

    A program may have replaced our files by blocking ones, so nothing is read or written before that.
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
        """Wait, and transfer what is ready. False if the time is up."""
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
        """Stop using a file, and close it."""
        self._forget(fd)
        file = self.files.pop(fd)
        with contextlib.suppress(BrokenPipeError):
            file.close()

    def _forget(self, fd: int) -> None:
        self._readiness.remove(fd, self.files[fd] is self._process.stdin)

    def stop(self) -> None:
        """Stop watching all files."""
        for fd in self.files:
            self._forget(fd)


# The indices of our ends and of the child's ends in the six values of `_get_handles`, and their position in the
# arguments of `_execute_child`.
_OURS = (1, 2, 4)
_THEIRS = (0, 3, 5)
_FIRST_END = 10
_PASS_FDS = 4


def _flush(stdin: Any) -> None:
    try:
        stdin.flush()
    except BrokenPipeError:
        # The child has stopped reading. Its exit status tells why.
        pass
    except ValueError:
        if not stdin.closed:
            raise


def _left(endtime: float | None) -> float | None:
    return None if endtime is None else endtime - _monotonic()


# The standard library's functions of the running Python version, using the `Popen` of this module.
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
