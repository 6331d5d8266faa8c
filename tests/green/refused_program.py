# ruff: noqa: E402 - patching comes before the imports
"""`python refused_program.py plain|patched`: how calls end that the standard library refuses, or with nothing to do.

Prints their outcomes as JSON: the error's class and number, or "returns"; "waits" if a call had to be interrupted.
"""

from __future__ import annotations

import json
import os
import sys

IS_PATCHED = sys.argv[1] == "patched"
if IS_PATCHED:
    from oneloop.green import monkey

    monkey.patch_all()

import concurrent.futures
import decimal
import fractions
import queue
import select
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

LIMIT_S = 3.0


class WaitsError(BaseException):
    """Raised in a call that waits."""


class Index:
    """An integer, for what takes one."""

    def __index__(self) -> int:
        return 0


TIMEOUTS = {
    "NaN": float("nan"),
    "infinity": float("inf"),
    "-infinity": -float("inf"),
    "1e300": 1e300,
    "1e12": 1e12,
    "2**70": 2**70,
    "-2**70": -(2**70),
    "-0.0": -0.0,
    "1e-12": 1e-12,
    "Decimal": decimal.Decimal("0.001"),
    "Fraction": fractions.Fraction(1, 1000),
    "text": "1",
    "bytes": b"1",
    "list": [],
    "complex": 1 + 0j,
    "Index": Index(),
}
ours, theirs = socket.socketpair()
held = threading.Lock()
held.acquire()
held_again = threading.RLock()
threading.Thread(target=held_again.acquire).start()
begins = threading.Event()
long = threading.Thread(target=begins.wait, daemon=True)
long.start()


def selected(kind: Callable[[], selectors.BaseSelector], timeout: Any) -> object:
    with kind() as selector:
        selector.register(ours, selectors.EVENT_READ)
        return selector.select(timeout)


def polled(made: Any, timeout: Any) -> object:
    made.register(ours, select.POLLIN)
    return made.poll(timeout)


def set_timeout(timeout: Any) -> None:
    ours.settimeout(timeout)
    try:
        ours.recv(1)
    finally:
        ours.settimeout(None)


def in_condition(timeout: Any) -> object:
    condition = threading.Condition()
    with condition:
        return condition.wait(timeout)


# Loops of the standard library that never end.
ENDLESS = {"Semaphore.acquire, NaN", "Barrier.wait, NaN", "Queue.get, NaN"}
TIMED: dict[str, Callable[[Any], object]] = {
    "time.sleep": time.sleep,
    "Event.wait": lambda timeout: threading.Event().wait(timeout),
    "Lock.acquire": lambda timeout: held.acquire(timeout=timeout),
    "RLock.acquire": lambda timeout: held_again.acquire(timeout=timeout),
    "Lock.acquire without waiting": lambda timeout: held.acquire(False, timeout),
    "Semaphore.acquire": lambda timeout: threading.Semaphore(0).acquire(timeout=timeout),
    "Condition.wait": in_condition,
    "Barrier.wait": lambda timeout: threading.Barrier(2).wait(timeout),
    "Thread.join": long.join,
    "Queue.get": lambda timeout: queue.Queue[int]().get(timeout=timeout),
    "SimpleQueue.get": lambda timeout: queue.SimpleQueue[int]().get(timeout=timeout),
    "select": lambda timeout: select.select([ours], [], [], timeout),
    "poll": lambda timeout: polled(select.poll(), timeout),
    "epoll.poll": lambda timeout: polled(select.epoll(), timeout),
    "EpollSelector": lambda timeout: selected(selectors.EpollSelector, timeout),
    "PollSelector": lambda timeout: selected(selectors.PollSelector, timeout),
    "SelectSelector": lambda timeout: selected(selectors.SelectSelector, timeout),
    "settimeout": set_timeout,
    "create_connection": lambda timeout: socket.create_connection(("127.0.0.1", 1), timeout),
    "Future.result": lambda timeout: concurrent.futures.Future[int]().result(timeout),
}


def full_pipe() -> int:
    number = os.pipe()[1]
    os.set_blocking(number, False)
    while True:
        try:
            os.write(number, bytes(4096))
        except BlockingIOError:
            os.set_blocking(number, True)
            return number


def blocking_pair(kind: int) -> int:
    one, other = socket.socketpair(type=kind)
    kept.append(other)
    os.set_blocking(one.fileno(), True)
    return one.detach()


kept: list[socket.socket] = []
pipe, full, null = os.pipe()[0], full_pipe(), os.open(os.devnull, os.O_RDWR)
stream, datagrams, terminal = blocking_pair(socket.SOCK_STREAM), blocking_pair(socket.SOCK_DGRAM), os.openpty()[1]
udp = socket.socket(type=socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", 0))

UNTIMED: dict[str, Callable[[], object]] = {
    "read nothing from a pipe": lambda: os.read(pipe, 0),
    "read nothing from a stream": lambda: os.read(stream, 0),
    "read nothing from a socket with datagrams": lambda: os.read(datagrams, 0),
    "read nothing from a terminal": lambda: os.read(terminal, 0),
    "read a negative length": lambda: os.read(pipe, -1),
    "readv of an empty buffer": lambda: os.readv(pipe, [bytearray()]),
    "readv without buffers": lambda: os.readv(pipe, []),
    "readv of a number": lambda: os.readv(pipe, 5),  # type: ignore[arg-type]
    "readv of bytes": lambda: os.readv(pipe, [b"x"]),  # type: ignore[list-item]
    "readv of an iterator": lambda: os.readv(pipe, iter([bytearray(1)])),  # type: ignore[arg-type]
    "write nothing": lambda: os.write(full, b""),
    "write text": lambda: os.write(full, "x"),  # type: ignore[arg-type]
    "writev of an empty buffer": lambda: os.writev(full, [b""]),
    "writev without buffers": lambda: os.writev(full, []),
    "writev of text": lambda: os.writev(full, ["x"]),  # type: ignore[list-item]
    "writev of an iterator": lambda: os.writev(full, iter([bytes(10_000)])),  # type: ignore[arg-type]
    "splice nothing": lambda: os.splice(pipe, null, 0),
    "splice a negative length": lambda: os.splice(pipe, null, -1),
    "sendfile from a pipe's end for writing": lambda: os.sendfile(full, full, 0, 1),
    "errors of UDP": lambda: udp.recv(1, socket.MSG_ERRQUEUE),
    "errors of a Unix socket": lambda: ours.recv(1, socket.MSG_ERRQUEUE),
}


def outcome(call: Callable[[], object]) -> object:
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        call()
    except WaitsError:
        return "waits"
    except Exception as error:
        return [type(error).__name__, getattr(error, "errno", None)]
    else:
        return "returns"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def interrupt(*_: object) -> None:
    raise WaitsError


signal.signal(signal.SIGALRM, interrupt)
outcomes = {
    f"{name}, {value}": outcome(lambda function=function, timeout=timeout: function(timeout))  # type: ignore[misc]
    for name, function in TIMED.items()
    for value, timeout in TIMEOUTS.items()
    if f"{name}, {value}" not in ENDLESS
}
outcomes.update((name, outcome(call)) for name, call in UNTIMED.items())
print(json.dumps(outcomes), flush=True)
# The green threads and OS threads that hold the locks.
os._exit(0)
