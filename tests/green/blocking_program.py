# ruff: noqa: E402 - patching comes before the imports
"""The patched program of `test_blocking.py`. Prints as JSON how often another green thread ran during each call.

    python blocking_program.py WHERE

WHERE the calls are made: "thread", a green thread; "coroutine" or "callback", of a loop that a green thread runs.
"""

from __future__ import annotations

import faulthandler

faulthandler.dump_traceback_later(50, exit=True)

import _thread
import time
from collections.abc import Callable

start_os_thread, os_sleep = _thread.start_new_thread, time.sleep

from oneloop.green import monkey

monkey.patch_all()

import asyncio
import atexit
import concurrent.futures
import contextlib
import fcntl
import json
import multiprocessing
import multiprocessing.connection
import os
import queue
import select
import selectors
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
from typing import Any

import oneloop.http
from oneloop import green

SHORT_S = 0.03
LONG = [sys.executable, "-S", "-c", f"import time; time.sleep({SHORT_S})"]

CALLS: dict[str, Callable[[], object]] = {}


def call(name: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    def enter(function: Callable[[], object]) -> Callable[[], object]:
        CALLS[name] = function
        return function

    return enter


def later(function: Callable[..., object], *args: Any) -> None:
    """Call a function soon, in an OS thread that is not patched."""

    def run() -> None:
        os_sleep(SHORT_S)
        function(*args)

    start_os_thread(run, ())


def pipe() -> int:
    """Return the reading end of a pipe that becomes readable soon."""
    reader, writer = os.pipe()
    later(os.write, writer, b"x")
    return reader


def pair() -> socket.socket:
    """Return a socket that becomes readable soon."""
    ours, theirs = socket.socketpair()
    kept.append(theirs)
    later(os.write, theirs.fileno(), b"x")
    return ours


def child() -> int:
    """Return the pid of a child that ends soon."""
    return os.posix_spawn(LONG[0], LONG, os.environ)


kept: list[Any] = []
folder = tempfile.mkdtemp()
atexit.register(shutil.rmtree, folder)

CALLS["time.sleep"] = lambda: time.sleep(SHORT_S)
CALLS["select.select"] = lambda: select.select([pipe()], [], [])
CALLS["socket.recv"] = lambda: pair().recv(1)
CALLS["socket.recv_into"] = lambda: pair().recv_into(bytearray(1))
CALLS["socket.recvfrom"] = lambda: pair().recvfrom(1)
CALLS["socket.recvmsg"] = lambda: pair().recvmsg(1)
CALLS["socket.makefile"] = lambda: pair().makefile("rb").read(1)
CALLS["socket.getaddrinfo"] = lambda: socket.getaddrinfo("localhost", 80)
CALLS["subprocess.run"] = lambda: subprocess.run(LONG, check=True)
CALLS["subprocess.check_output"] = lambda: subprocess.check_output(LONG)
CALLS["subprocess.getoutput"] = lambda: subprocess.getoutput(f"sleep {SHORT_S}")
CALLS["os.popen"] = lambda: os.popen(f"sleep {SHORT_S}").read()
CALLS["os.waitpid"] = lambda: os.waitpid(child(), 0)
CALLS["os.wait"] = lambda: (child(), os.wait())
CALLS["os.wait3"] = lambda: (child(), os.wait3(0))
CALLS["os.wait4"] = lambda: os.wait4(child(), 0)
CALLS["os.waitid"] = lambda: os.waitid(os.P_PID, child(), os.WEXITED)
CALLS["os.system"] = lambda: os.system(f"sleep {SHORT_S}")
CALLS["os.read"] = lambda: os.read(pipe(), 1)
CALLS["os.eventfd_read"] = lambda: os.eventfd_read(counter())
CALLS["os.splice"] = lambda: os.splice(pipe(), os.open("/dev/null", os.O_WRONLY), 1)
CALLS["os.writev"] = lambda: os.writev(full_pipe(), [b"x"])
CALLS["os.sendfile"] = lambda: os.sendfile(full_pipe(), os.open(__file__, os.O_RDONLY), 0, 1)
CALLS["os.readv"] = lambda: os.readv(pipe(), [bytearray(1)])
CALLS["open"] = lambda: open(named_pipe(), "rb", buffering=0)
CALLS["os.open"] = lambda: os.open(named_pipe(), os.O_RDONLY)
CALLS["open().read"] = lambda: open(pipe(), "rb", buffering=0).read(1)
CALLS["multiprocessing.connection.wait"] = lambda: multiprocessing.connection.wait([pipe()])
CALLS["multiprocessing.connection.Connection.recv_bytes"] = lambda: mp_connection().recv_bytes()
CALLS["multiprocessing.Lock.acquire"] = lambda: mp_lock().acquire()
CALLS["concurrent.futures.Future.result"] = lambda: (
    concurrent.futures.ThreadPoolExecutor(1).submit(time.sleep, SHORT_S).result()
)
if sys.version_info >= (3, 14):
    # What runs there is not patched. Functions are pickled by their names, so patched ones cannot be.
    CALLS["concurrent.futures.InterpreterPoolExecutor.submit().result"] = lambda: (
        concurrent.futures.InterpreterPoolExecutor(1).submit(os.system, f"sleep {SHORT_S}").result()
    )
CALLS["threading.Thread.join"] = lambda: started(time.sleep, SHORT_S).join()
CALLS["threading.Lock.acquire"] = lambda: held(threading.Lock()).acquire()
CALLS["threading.RLock.acquire"] = lambda: held_rlock().acquire()
CALLS["threading.Semaphore.acquire"] = lambda: held(threading.Semaphore()).acquire()
CALLS["threading.Event.wait"] = lambda: event().wait()


def named_pipe() -> str:
    """Return the path of a named pipe that is soon opened for writing."""
    path = f"{tempfile.mkdtemp(dir=folder)}/pipe"
    os.mkfifo(path)
    later(lambda: kept.append(os.open(path, os.O_WRONLY)))
    return path


def counter() -> int:
    """Return an eventfd that soon has a value."""
    number = os.eventfd(0)
    later(os.eventfd_write, number, 1)
    return number


def mp_connection() -> Any:
    ours, theirs = multiprocessing.Pipe()
    later(theirs.send_bytes, b"x")
    return ours


def mp_lock() -> Any:
    lock = multiprocessing.Lock()
    lock.acquire()
    later(lock.release)
    return lock


def started(*call: Any) -> threading.Thread:
    thread = threading.Thread(target=call[0], args=call[1:])
    thread.start()
    return thread


def held(lock: Any) -> Any:
    lock.acquire()
    later(lock.release)
    return lock


def held_rlock() -> Any:
    """Return a lock that another green thread holds for a short time."""
    lock, begun = threading.RLock(), threading.Event()

    def hold() -> None:
        with lock:
            begun.set()
            time.sleep(SHORT_S)

    started(hold)
    begun.wait()
    from_now_on(0)
    return lock


def event() -> threading.Event:
    made = threading.Event()
    later(made.set)
    return made


@call("select.poll")
def poll() -> None:
    polled = select.poll()
    polled.register(pipe(), select.POLLIN)
    assert polled.poll()


@call("select.epoll")
def epoll() -> None:
    with select.epoll() as polled:
        polled.register(pipe(), select.EPOLLIN)
        assert polled.poll()


@call("selectors.DefaultSelector")
def selector() -> None:
    with selectors.DefaultSelector() as chosen:
        chosen.register(pipe(), selectors.EVENT_READ)
        assert chosen.select()


@call("socket.accept")
def accept() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def connect() -> None:
            kept.append(monkey.get_original("socket", "socket")())
            kept[-1].connect(server.getsockname())

        later(connect)
        server.accept()


@call("socket.create_connection")
def connect() -> None:
    with monkey.get_original("socket", "socket")() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        socket.create_connection(("localhost", server.getsockname()[1])).close()


@call("oneloop.http.get")
def fetch() -> None:
    """By the client of plain code."""
    server = monkey.get_original("socket", "socket")()
    server.bind(("127.0.0.1", 0))
    server.listen()

    def answer() -> None:
        with server, server.accept()[0] as peer:
            peer.recv(4096)
            os_sleep(SHORT_S)
            peer.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")

    start_os_thread(answer, ())
    host, port = server.getsockname()
    assert oneloop.http.get(f"http://{host}:{port}").status_code == 204


@call("queue.Queue.get")
def get() -> None:
    items: queue.Queue[int] = queue.Queue()
    later(items.put, 1)
    assert items.get()


@call("queue.SimpleQueue.get")
def simple_get() -> None:
    items: queue.SimpleQueue[int] = queue.SimpleQueue()
    later(items.put, 1)
    assert items.get()


@call("threading.Condition.wait")
def condition() -> None:
    made = threading.Condition()
    with made:
        assert not made.wait(SHORT_S)


@call("threading.Barrier.wait")
def barrier() -> None:
    made = threading.Barrier(2)
    threading.Timer(SHORT_S, made.wait).start()
    made.wait()


@call("subprocess.Popen.communicate")
def communicate() -> None:
    with subprocess.Popen(LONG, stdout=subprocess.PIPE) as process:
        process.communicate()


@call("multiprocessing.Process.join")
def process() -> None:
    made = multiprocessing.get_context("spawn").Process(target=os.getpid)
    made.start()
    made.join()


def full_pipe() -> int:
    """Return the writing end of a full pipe that has room soon."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writer, True)
    later(os.read, reader, 65_536)
    return writer


CALLS["os.write"] = lambda: os.write(full_pipe(), b"x")


def locked_file() -> int:
    """Return a file that another process locks, with lockf and flock, for a short time."""
    path = f"/tmp/oneloop-blocking-{os.getpid()}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.unlink(path)
    source = (
        "import fcntl, time\nfcntl.lockf(0, fcntl.LOCK_EX)\nother = open('/proc/self/fd/0', 'r+')\n"
        f"fcntl.flock(other, fcntl.LOCK_EX)\nprint(flush=True)\ntime.sleep({SHORT_S * 3})"
    )
    locker = subprocess.Popen([sys.executable, "-S", "-c", source], stdin=fd, stdout=subprocess.PIPE)
    assert locker.stdout is not None
    locker.stdout.readline()
    kept.append(locker)
    return fd


CALLS["fcntl.lockf"] = lambda: fcntl.lockf(from_now_on(locked_file()), fcntl.LOCK_EX)
CALLS["fcntl.flock"] = lambda: fcntl.flock(from_now_on(locked_file()), fcntl.LOCK_EX)
# l_type, l_whence, l_start, l_len, l_pid of fcntl_locking(2), as 64-bit Linux lays them out.
WHOLE_FILE = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
CALLS["fcntl.fcntl"] = lambda: fcntl.fcntl(from_now_on(locked_file()), fcntl.F_SETLKW, WHOLE_FILE)
CALLS["os.lockf"] = lambda: os.lockf(from_now_on(locked_file()), os.F_LOCK, 0)


def coming_signal() -> list[int]:
    """Return the number of a blocked signal that comes soon."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    later(os.kill, os.getpid(), signal.SIGUSR1)
    return [signal.SIGUSR1]


CALLS["signal.sigwait"] = lambda: signal.sigwait(coming_signal())
CALLS["signal.sigwaitinfo"] = lambda: signal.sigwaitinfo(coming_signal())
CALLS["signal.sigtimedwait"] = lambda: signal.sigtimedwait(coming_signal(), 5)


@call("sqlite3.Connection.execute")
def execute() -> None:
    path = f"{tempfile.mkdtemp(dir=folder)}/database"
    with (
        contextlib.closing(sqlite3.connect(path, check_same_thread=False)) as other,
        contextlib.closing(sqlite3.connect(path)) as ours,
    ):
        other.execute("BEGIN EXCLUSIVE")
        later(other.commit)
        from_now_on(0)
        ours.execute("CREATE TABLE made (number)")


@call("signal.pause")
def pause() -> None:
    signal.signal(signal.SIGUSR2, lambda *_: None)
    later(os.kill, os.getpid(), signal.SIGUSR2)
    signal.pause()


@call("input")
def read_line() -> None:
    reader, writer = os.pipe()
    os.dup2(reader, 0)
    later(os.write, writer, b"line\n")
    print(input(), file=sys.stderr)


count = 0
"""How often the other green thread ran."""
count_before = 0


def from_now_on(argument: int) -> int:
    """Count from now on: the preparation of a call may itself wait."""
    global count_before
    count_before = count
    return argument


async def in_coroutine(function: Callable[[], int]) -> int:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    result = function()
    assert (asyncio.get_running_loop(), asyncio.current_task()) == (loop, task)
    await asyncio.sleep(0)
    return result


async def in_callback(function: Callable[[], int]) -> int:
    loop = asyncio.get_running_loop()
    called: asyncio.Future[int] = loop.create_future()

    def call() -> None:
        try:
            result = function()
            assert (asyncio.get_running_loop(), asyncio.current_task()) == (loop, None)
        except BaseException as error:
            called.set_exception(error)
        else:
            called.set_result(result)

    loop.call_soon(call)
    return await called


WHERE: dict[str, Callable[[Callable[[], int]], int]] = {
    "thread": lambda function: function(),
    "coroutine": lambda function: asyncio.run(in_coroutine(function)),
    "callback": lambda function: asyncio.run(in_callback(function)),
}


def measured(function: Callable[[], object]) -> int:
    """How often another green thread runs while a green thread calls a function."""
    is_over = False

    def counting() -> None:
        global count
        while not is_over:
            count += 1
            green.sleep(0)

    def calling() -> int:
        from_now_on(0)
        function()
        return count - count_before

    counter = green.spawn(counting)
    try:
        return int(green.spawn(WHERE[sys.argv[1]], calling).get())
    finally:
        is_over = True
        counter.get()


if __name__ == "__main__":
    print(json.dumps({name: measured(function) for name, function in CALLS.items()}))
