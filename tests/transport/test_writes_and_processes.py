"""Writes of a program that ends, is replaced or forks at once: the peer gets what asyncio's peer gets, exactly once.

The one documented exception: of several writes of one callback that ends the process by `os._exit`, `exec` or a signal,
those behind the first may be lost (docs/reference/differences-from-asyncio.md).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from tests import programs
from tests.transport.conftest import socket_pair

# Python 3.12 and later warn of fork in a process with threads, such as faulthandler's watchdog.
OPTIONS = ("-W", "ignore::DeprecationWarning")
LIMIT_S = 60.0

MAIN = """
# The watchdog is a thread, which a forked child lacks and would wait for at its exit.
faulthandler.cancel_dump_traceback_later()
signal.alarm({limit})
ours = socket.socket(fileno={fd})
GATE = {gate}
ours.setblocking(False)

async def main():
    global transport
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
    await asyncio.sleep(0)
    await act(loop, transport)

loop = new_loop()
"""


def received_from(loop: str, body: str, kind: str = "unix") -> bytes:
    """All that the peer of a program gets, up to the end of the stream.

    The peer reads nothing until the program says so, through its GATE, or has ended.

    The program's `act(loop, transport)` writes. Whatever becomes of its process, the test's is not touched.
    """
    ours, theirs = socket_pair(kind)
    received = bytearray()

    def read() -> None:
        os.read(gate[0], 1)
        theirs.setblocking(True)
        while data := theirs.recv(1 << 16):
            received.extend(data)

    gate = os.pipe()
    reader = threading.Thread(target=read)
    with theirs:
        with ours:
            text = MAIN.format(fd=ours.fileno(), gate=gate[1], limit=int(LIMIT_S)) + textwrap.dedent(body)
            process = subprocess.Popen(
                [sys.executable, *OPTIONS, "-c", programs.source(loop, text, LIMIT_S)],
                cwd=programs.ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[ours.fileno(), gate[1]],
                start_new_session=True,
            )
        os.close(gate[1])
        reader.start()
        try:
            _, errors = process.communicate(timeout=LIMIT_S + 10)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # a child of its own that did not end
            reader.join()
            os.close(gate[0])
    assert b"Fatal" not in errors, errors.decode()
    assert b"AssertionError" not in errors, errors.decode()
    return bytes(received)


ENDS = {
    "_exit": "os._exit(3)",
    "exec": 'os.execv("/bin/true", ["/bin/true"])',
    "kill": "os.kill(os.getpid(), signal.SIGKILL)",
    "abort": "faulthandler.disable(); os.abort()",
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_the_first_write_arrives_whatever_ends_the_process(loop_name: str, end: str, kind: str) -> None:
    body = f"""
    async def act(loop, transport):
        transport.write(b"last words")
        {ENDS[end]}
    loop.run_until_complete(main())
    """
    assert received_from(loop_name, body, kind) == b"last words"


@pytest.mark.parametrize("end", ENDS)
def test_the_writes_of_an_earlier_callback_arrive(loop_name: str, end: str) -> None:
    body = f"""
    async def act(loop, transport):
        transport.write(b"header,")
        transport.write(b"body")
        await asyncio.sleep(0)
        {ENDS[end]}
    loop.run_until_complete(main())
    """
    assert received_from(loop_name, body) == b"header,body"


@pytest.mark.oneloop_only("the documented exception: on stock asyncio all of them arrive")
@pytest.mark.parametrize("end", ENDS)
def test_only_writes_behind_the_first_of_the_last_callback_may_be_lost(loop_name: str, end: str) -> None:
    body = f"""
    async def act(loop, transport):
        transport.write(b"header,")
        transport.write(b"body")
        {ENDS[end]}
    loop.run_until_complete(main())
    """
    assert received_from(loop_name, body) in (b"header,", b"header,body")


@pytest.mark.parametrize("end", ["sys.exit(0)", "raise KeyboardInterrupt", "raise LookupError", "loop.stop()"])
def test_all_writes_arrive_before_an_orderly_end(loop_name: str, end: str) -> None:
    body = f"""
    async def act(loop, transport):
        transport.write(b"header,")
        transport.write(b"body")
        {end}
        await asyncio.sleep(0)
    loop.run_until_complete(main())
    """
    assert received_from(loop_name, body) == b"header,body"


# From Python 3.14 on the running loop is unset after a fork. Stock asyncio's task, left by SystemExit there, raises
# RuntimeError in its place ("... is not the running loop"), and the child sleeps for ever.
NO_EXCEPTION_LEAVES_A_STOCK_CHILD = pytest.mark.oneloop_only("its loop swallows SystemExit after a fork", since=(3, 14))

# What a child of fork does; each must end the child.
CHILDREN = {
    "_exit": "os._exit(0)",
    "sys.exit": "sys.exit(0)",
    "exception": 'raise LookupError("in the child")',
    "drops the transport": 'del transport; globals()["transport"] = None; import gc; gc.collect(); os._exit(0)',
    "closes the loop": """asyncio._set_running_loop(None)
            try:
                loop.stop()
                loop.close()
            except RuntimeError:
                pass
            os._exit(0)""",
    "returns from main": "return",
}
FORK = """
import os

async def act(loop, transport):
    {before}
    pid = os.fork()
    if pid == 0:
            {child}
    # The child is gone before anything further is written.
    assert os.waitpid(pid, 0)[0] == pid
    os.write(GATE, b"x")
    transport.write(b"parent,")
    transport.write(b"end")
    transport.close()
    while transport.get_write_buffer_size():
        await asyncio.sleep(0.001)
    await asyncio.sleep(0)

loop.run_until_complete(main())
"""


@NO_EXCEPTION_LEAVES_A_STOCK_CHILD
@pytest.mark.parametrize("child", CHILDREN)
@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_a_child_sends_nothing_that_its_parent_wrote(loop_name: str, child: str, kind: str) -> None:
    before = 'transport.write(b"one,"); transport.write(b"two,"); transport.write(b"three,")'
    body = FORK.format(before=before, child=CHILDREN[child])
    assert received_from(loop_name, body, kind) == b"one,two,three,parent,end"


def blocked_at_the_fork(loop_name: str, child: str) -> None:
    before = "transport.write(bytes(3_000_000)); transport.write(bytes(5)); assert transport.get_write_buffer_size()"
    received = received_from(loop_name, FORK.format(before=before, child=CHILDREN[child]))
    assert (len(received), received[-10:]) == (3_000_015, b"parent,end")
    assert not any(received[:-10])


# Children whose loop runs on: main() ends there, and the loop takes another turn to tell so.
RUN_ON = ("exception", "returns from main")


@NO_EXCEPTION_LEAVES_A_STOCK_CHILD
@pytest.mark.parametrize("child", [child for child in CHILDREN if child not in RUN_ON])
def test_a_queue_that_is_blocked_at_the_fork_is_sent_once(loop_name: str, child: str) -> None:
    blocked_at_the_fork(loop_name, child)


@pytest.mark.oneloop_only("stock asyncio's child sends from its copy of the queue in that turn, and the peer gets both")
@pytest.mark.parametrize("child", RUN_ON)
def test_a_queue_is_sent_once_when_the_child_runs_on(loop_name: str, child: str) -> None:
    blocked_at_the_fork(loop_name, child)


@pytest.mark.parametrize("several", [False, True])
def test_a_child_may_write(loop_name: str, several: bool) -> None:
    """Its own writes go out at once, on the socket that it shares; behind those of its parent."""
    child = 'transport.write(b"child,"); '
    if several:
        child += 'time.sleep(0.005); transport.write(b"again,"); '
    body = FORK.format(before='transport.write(b"one,"); transport.write(b"two,")', child=child + "os._exit(0)")
    expected = b"one,two,child,again,parent,end" if several else b"one,two,child,parent,end"
    assert received_from(loop_name, body) == expected


def test_a_child_of_a_child(loop_name: str) -> None:
    child = """transport.write(b"child,")
            pid = os.fork()
            if pid:
                os.waitpid(pid, 0)
            else:
                transport.write(b"grandchild,")
            os._exit(0)"""
    body = FORK.format(before='transport.write(b"one,"); transport.write(b"two,")', child=child)
    assert received_from(loop_name, body) == b"one,two,child,grandchild,parent,end"


@pytest.mark.parametrize(
    "run",
    [
        'os.system("true")',
        'subprocess.run(["/bin/true"])',
        "os.waitpid(os.spawnv(os.P_NOWAIT, '/bin/true', ['true']), 0)",
    ],
)
def test_programs_that_are_started_after_writes(loop_name: str, run: str) -> None:
    body = f"""
    import subprocess
    async def act(loop, transport):
        transport.write(b"one,")
        transport.write(b"two")
        {run}
        transport.close()
        await asyncio.sleep(0)
    loop.run_until_complete(main())
    """
    assert received_from(loop_name, body) == b"one,two"


@NO_EXCEPTION_LEAVES_A_STOCK_CHILD
def test_a_pipe_is_sent_once_as_well(loop_name: str) -> None:
    body = """
    import os
    async def main():
        loop = asyncio.get_running_loop()
        reading, writing = os.pipe()
        transport, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(writing, "wb", buffering=0))
        transport.write(b"one,")
        transport.write(b"two,")
        pid = os.fork()
        if pid == 0:
            sys.exit(0)
        os.waitpid(pid, 0)
        transport.write(b"three")
        transport.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        print(os.read(reading, 1000).decode(), flush=True)
    loop = new_loop()
    loop.run_until_complete(main())
    loop.close()
    """
    body = "faulthandler.cancel_dump_traceback_later()\nsignal.alarm(30)\n" + textwrap.dedent(body)
    done = programs.run(loop_name, body, options=OPTIONS)
    assert done.stdout == "one,two,three\n", done.stderr
