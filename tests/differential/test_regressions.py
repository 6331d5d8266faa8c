"""Programs that once showed a difference, shrunk. Those that still do are marked, and say what is left to do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.differential.comparison import compare
from tests.differential.program import Body

PROGRAMS: dict[str, Body] = {
    "call_later(0) behind call_soon": [("soon", "c1", None, [("soon", "c2", None, []), ("later", "c3", 0, None, [])])],
    "the past behind call_soon": [("soon", "c1", None, [("at", "c2", -1, None, []), ("threadsafe", "c3", None, [])])],
    "deadlines in virtual time": [
        ("virtual",),
        ("later", "c1", 1, None, [("later", "c2", 0, "x", []), ("soon", "c3", None, [])]),
        ("at", "c4", 1, None, []),
        ("run_for", 2.25),
    ],
    "interrupt before events": [
        ("soon", "c1", None, [("soon", "c2", None, [("raise", "interrupt")])]),
        ("soon", "c3", None, [("kill",)]),
        ("on_signal", "s1", []),
        ("run", 2),
    ],
    "interrupt before due timers": [
        ("later", "c1", 0, None, []),
        ("soon", "c2", None, [("soon", "c3", None, []), ("raise", "interrupt")]),
    ],
    "interrupt before timers that it made": [
        ("soon", "c1", None, [("soon", "c2", None, []), ("later", "c3", 0.0, None, []), ("raise", "exit")])
    ],
    "interrupt before timers made since": [
        ("soon", "c1", None, [("raise", "exit")]),
        ("run", 1),
        ("at", "c2", 0, None, []),
    ],
    "interrupt before bytes sent since": [
        ("connect", "w1", "tcp", "wire", {}),
        ("soon", "c1", None, [("raise", "exit")]),
        ("run", 1),
        ("peer_send", "w1", 1),
    ],
    "write, then close": [
        ("connect", "w1", "small", "wire", {}),
        ("connect", "w2", "small", "wire", {"made": [("write", "w1", 1, "bytes"), ("call", "w1", "close")]}),
    ],
    "write, then the peer leaves": [
        ("connect", "w1", "small", "wire", {}),
        ("soon", "c1", None, [("write", "w1", 1, "bytes"), ("peer_close", "w1")]),
    ],
    "write to a peer that has left": [
        ("connect", "w1", "unix", "wire", {"made": [("peer_reset", "w1"), ("write", "w1", 1, "memoryview")]})
    ],
    "write, then read by the peer": [
        ("connect", "w1", "unix", "wire", {"made": [("write", "w1", 1, "bytes"), ("peer_read", "w1", 10)]}),
        ("write", "w1", 2, "bytearray"),
        ("peer_read", "w1", 10),
    ],
    "write, then abort": [
        ("connect", "w1", "unix", "wire", {"made": [("write", "w1", 1, "bytes"), ("call", "w1", "abort")]}),
        ("peer_read", "w1", 10),
    ],
    "close behind a full buffer": [
        ("connect", "w1", "unix", "wire", {}),
        ("write", "w1", 300000, "bytes"),
        ("peer_read", "w1", 250000),
        ("call", "w1", "close"),
    ],
    "writelines behind a full buffer": [
        ("connect", "w1", "unix", "wire", {}),
        ("write", "w1", 300000, "bytes"),
        ("peer_read", "w1", 125000),
        ("writelines", "w1", [(1,)]),
    ],
    "warning of lost writes": [
        ("connect", "w1", "unix", "wire", {}),
        ("call", "w1", "close"),
        *[("write", "w1", 1, "bytes") for _ in range(4)],
        ("write", "w1", 0, "bytes"),
    ],
    "context of close": [
        ("connect", "w1", "unix", "wire", {}),
        ("soon", "c1", "x", [("call", "w1", "close")]),
    ],
    "context of abort": [("connect", "w1", "unix", "wire", {}), ("set_var", "r")],
    "context of reading": [
        ("connect", "w1", "unix", "buffered", {"made": [("set_var", "q")]}),
        ("peer_send", "w1", 1),
    ],
    "context of reading again": [
        ("connect", "w1", "small", "wire", {"made": [("call", "w1", "pause_reading"), ("peer_send", "w1", 1)]}),
        ("set_var", "r"),
        ("call", "w1", "resume_reading"),
    ],
    "context of resume_writing": [
        ("connect", "w1", "unix", "buffered", {"pause": [("peer_read", "w1", 250000)]}),
        ("soon", "c1", "y", [("write", "w1", 300000, "memoryview")]),
    ],
    "protocol without data_received": [("connect", "w1", "unix", "bare", {}), ("peer_send", "w1", 1)],
    "bad item": [("connect", "w1", "unix", "wire", {}), ("writelines", "w1", [(2,), (-1,)]), ("peer_read", "w1", 10)],
    "write_eof after a reset": [
        ("connect", "w1", "tcp", "wire", {"data": [("peer_reset", "w1"), ("call", "w1", "write_eof")]}),
        ("peer_send", "w1", 1),
    ],
    "reader replaced in the tick of its event": [
        ("pair", "p1", "unix"),
        ("pair", "p2", "small"),
        ("writer", "p1", "r1", [("writer", "p2", "r2", [])]),
    ],
    "reader replaced before the tick": [
        ("pair", "p1", "small"),
        ("peer_reset", "p1"),
        ("threadsafe", "c1", None, [("reader", "p1", "r1", [])]),
        ("reader", "p1", "r2", []),
    ],
    "sock_sendall of nothing": [
        ("pair", "k1", "unix"),
        ("peer_close", "k1"),
        ("task", "t1", None, [("sock_sendall", "k1", 0)]),
    ],
    "sock_recv keeps what came before the close": [
        ("pair", "k1", "small"),
        ("task", "t1", None, [("sock_recv_into", "k1", 1)]),
        ("task", "t2", None, [("task", "t3", None, [("peer_send", "k1", 1)])]),
    ],
    "context of a gathered write that fails": [
        ("connect", "w1", "tcp", "wire", {}),
        ("peer_close", "w1"),
        ("soon", "c1", None, [("write", "w1", 1, "bytes"), ("write", "w1", 1, "bytes")]),
        ("set_var", "p"),
    ],
    "sock_sendall goes on by itself": [
        ("pair", "k1", "small"),
        ("task", "t1", None, [("sock_sendall", "k1", 8750)]),
        ("task", "t2", None, [("peer_read", "k1", 15625)]),
        ("run", 2),
        ("peer_read", "k1", 1),
    ],
    "pipe paused and resumed in the tick of its event": [
        ("pipe", "w1", "in", {}),
        ("peer_close", "w1"),
        ("soon", "c1", None, [("call", "w1", "pause_reading"), ("call", "w1", "resume_reading")]),
    ],
    "factory that raises": [("serve", "s1", "tcp", "refuses", {}, True), ("dial", "w1", "s1")],
    "socket of a lost accepted connection": [
        ("serve", "s1", "tcp", "buffered", {}, True),
        ("dial", "w1", "s1"),
        ("call", "w1", "close"),
        ("settle",),
        ("extra", "w1"),
    ],
    "threads": [
        ("connect", "w1", "unix", "wire", {}),
        ("pair", "p1", "unix"),
        ("meanwhile", [("reader", "p1", "r1", [("take_now", "p1", 100)])]),
        ("meanwhile", [("peer_send", "p1", 1)]),
        ("settle",),
        ("meanwhile", [("call", "w1", "close")]),
        ("settle",),
    ],
}

# Differences that docs/reference/differences-from-asyncio.md lists.
OPEN: set[str] = {
    "factory that raises",
    "sock_sendall goes on by itself",
    "sock_recv keeps what came before the close",
}


def programs() -> list[Any]:
    marks = {name: [pytest.mark.xfail(strict=True, reason="a listed difference")] for name in OPEN}
    return [pytest.param(body, id=name, marks=marks.get(name, [])) for name, body in PROGRAMS.items()]


@pytest.mark.parametrize("body", programs())
def test_program(body: Body) -> None:
    verdict = compare(body)
    assert verdict.what == "same", f"{verdict.what}\n{verdict.text()}"
