"""Interpreter shutdown with loops in every state: no crash, no hang, no noise but asyncio's own warnings."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import programs

STATES = {
    "never run": "loop = new_loop()",
    "run and kept": "loop = new_loop(); loop.run_until_complete(asyncio.sleep(0))",
    "current": "loop = new_loop(); asyncio.set_event_loop(loop)",
    "things are ready": "loop = new_loop(); loop.call_soon(print); loop.call_later(1, print)",
    "in a cycle": "loop = new_loop(); loop.me = loop; loop.call_soon(lambda: loop)",
    "in a module that is torn down": "loop = new_loop(); sys.kept = loop",
    "listening": """
async def listen():
    return await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
loop = new_loop()
server = loop.run_until_complete(listen())
""",
    "connected": """
async def connect():
    pair = socket.socketpair()
    return [await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=end) for end in pair]
loop = new_loop()
kept = loop.run_until_complete(connect())
kept[0][0].write(b"x" * 10_000_000)
""",
    "reading": """
pair = socket.socketpair()
loop = new_loop()
loop.add_reader(pair[0].fileno(), print)
""",
    "a task is pending": """
async def wait():
    await asyncio.sleep(1000)
loop = new_loop()
task = loop.create_task(wait())
loop.run_until_complete(asyncio.sleep(0))
""",
    "running in a daemon thread": """
loop = new_loop()
started = threading.Event()
loop.call_soon(started.set)
def busy():
    loop.call_soon(busy)
loop.call_soon(busy)
threading.Thread(target=loop.run_forever, daemon=True).start()
started.wait()
""",
    "idle in a daemon thread": """
loop = new_loop()
started = threading.Event()
loop.call_soon(started.set)
threading.Thread(target=loop.run_forever, daemon=True).start()
started.wait()
""",
    "exit from a callback": """
loop = new_loop()
loop.call_soon(sys.exit, 0)
loop.run_forever()
""",
    "used by atexit": """
import atexit
loop = new_loop()
atexit.register(lambda: (loop.run_until_complete(asyncio.sleep(0)), loop.close()))
""",
    "used by a finaliser": """
class Last:
    def __del__(self):
        try:
            loop.call_soon_threadsafe(print)
        except RuntimeError:
            pass
loop = new_loop()
sys.last_one = Last()
""",
}


@pytest.mark.parametrize("state", STATES)
def test_exit(loop_name: str, state: str) -> None:
    done = programs.run(loop_name, STATES[state] + "\nprint('end of program', flush=True)", options=("-W", "ignore"))
    assert done.returncode == 0, done.stderr
    if state != "exit from a callback":
        assert "end of program" in done.stdout
    # A destroyed pending task is told of; nothing else may be.
    assert "Traceback" not in done.stderr, done.stderr
    assert "Fatal" not in done.stderr, done.stderr


def test_unclosed_loops_and_transports_warn(loop_name: str) -> None:
    body = """
    async def connect():
        pair = socket.socketpair()
        return [await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=end) for end in pair]
    loop = new_loop()
    kept = loop.run_until_complete(connect())
    del kept
    import gc
    loop.remove_reader  # the loop is still there
    del loop
    gc.collect()
    """
    done = programs.run(loop_name, body, options=("-W", "always::ResourceWarning"))
    assert done.returncode == 0, done.stderr
    assert "ResourceWarning: unclosed event loop" in done.stderr, done.stderr
    assert "ResourceWarning: unclosed transport" in done.stderr, done.stderr


FREED_LAST = """
loop = new_loop()
{use}
# Modules that something else keeps are cleared in the opposite order of their imports, and sys is the last.
sys.kept = list(sys.modules.values())
os.loop = loop
del loop
"""
USES = {
    "nothing": "",
    "signal handlers": "loop.add_signal_handler(signal.SIGUSR1, print)",
    "callbacks": "loop.call_soon(print); loop.call_later(1, print)",
    "a child process": """
async def start():
    return await asyncio.create_subprocess_exec("true")
sys.process = loop.run_until_complete(start())
""",
    "a server": """
async def listen():
    return await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
sys.server = loop.run_until_complete(listen())
""",
    "a task": "sys.task = loop.create_task(asyncio.sleep(3600)); loop.run_until_complete(asyncio.sleep(0))",
}


@pytest.mark.parametrize("use", USES)
def test_a_loop_that_is_freed_after_its_modules_were_cleared(loop_name: str, use: str) -> None:
    """The names of the loop's modules are None then."""
    done = programs.run(loop_name, FREED_LAST.format(use=USES[use]), options=("-W", "ignore"))
    assert done.returncode == 0, done.stderr
    for noise in ("NoneType", "Exception ignored", "Fatal"):
        assert noise not in done.stderr, done.stderr


# Everything that a loop can have open, left as it is at the end of the program.
LEFT_OPEN = """
import asyncio, os, socket, sys, threading
{new_loop}

async def serve(reader, writer):
    writer.write(await reader.read(100))

async def main():
    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    unix_server = await loop.create_unix_server(asyncio.Protocol, "\\0oneloop-exit-%d" % os.getpid())
    streams = [await asyncio.open_connection(*server.sockets[0].getsockname()) for _ in range(3)]
    for reader, writer in streams:
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
    large = streams[0][1]
    large.write(bytes(20_000_000))
    datagrams = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0))
    ends = os.pipe()
    pipes = [
        await loop.connect_read_pipe(asyncio.Protocol, os.fdopen(ends[0], "rb", buffering=0)),
        await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(ends[1], "wb", buffering=0)),
    ]
    process = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    process.stdin.write(b"x")
    assert await process.stdout.readexactly(1) == b"x"
    ours, theirs = socket.socketpair()
    loop.add_reader(ours, print)
    ours.setblocking(False)
    timer = loop.call_later(3600, print)
    return server, unix_server, streams, datagrams, pipes, process, ours, theirs, timer

loop = new_event_loop()
kept = loop.run_until_complete(main())
print("end of program", flush=True)
"""
STOCK = "from asyncio import SelectorEventLoop as new_event_loop"
OURS = "from oneloop import new_event_loop"
# `oneloop run` makes what asyncio makes into ours.
EITHER = "from asyncio import new_event_loop"
NOISE = ("sys.meta_path is None", "ImportError", "Exception ignored", "Traceback", "Fatal")


def kinds_of_lines(text: str) -> set[str]:
    """What each line says, without the names, numbers and addresses in it."""
    without = re.sub(r"0x[0-9a-f]+|\d+|<[^>]*>+", "", text)
    return {line.split(":")[0].strip() for line in without.splitlines()}


def stderr_of(folder: Path, text: str, *command: str, status: int = 0) -> str:
    """What a program says on stderr that prints "end of program" and no more."""
    path = folder / "app.py"
    path.write_text(text)
    done = programs.run_command(*command, str(path), cwd=folder, env={"PYTHONPATH": f"{programs.ROOT / 'python'}"})
    assert (done.returncode, done.stdout) == (status, "end of program\n"), done.stderr
    return done.stderr


@pytest.mark.parametrize("kept", ["in the module", "in a class", "in sys"])
@pytest.mark.parametrize("how", ["python app.py", "oneloop run app.py"])
def test_a_program_that_leaves_everything_open(tmp_path: Path, kept: str, how: str) -> None:
    """No line on stderr of a kind that stock asyncio's does not have."""
    keeps = {
        "in the module": "",
        "in a class": "class Keep:\n    kept = kept\n    loop = loop\n",
        "in sys": "sys.kept = loop, kept",
    }

    def app(new_loop: str) -> str:
        return LEFT_OPEN.format(new_loop=new_loop) + keeps[kept]

    expected = stderr_of(tmp_path, app(STOCK), sys.executable)
    if how == "python app.py":
        told = stderr_of(tmp_path, app(OURS), sys.executable)
    else:
        told = stderr_of(tmp_path, app(EITHER), sys.executable, "-m", "oneloop", "run")
    for noise in NOISE:
        assert noise not in told or noise in expected, told
    assert kinds_of_lines(told) <= kinds_of_lines(expected), told


ENDED_BY_AN_EXCEPTION = """
import asyncio, socket
{new_loop}

ours, theirs = socket.socketpair()
ours.setblocking(False)

async def main():
    global transport
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
    await asyncio.sleep(0)
    await fail(loop, transport)

async def fail(loop, transport):
    print("end of program", flush=True)
    raise LookupError("the end")

loop = new_event_loop()
loop.run_until_complete(main())
"""


def test_a_program_that_ends_by_an_exception(tmp_path: Path) -> None:
    """Its traceback holds the loop, a transport and its socket, which the collector meets in an order of its own."""
    expected = stderr_of(tmp_path, ENDED_BY_AN_EXCEPTION.format(new_loop=STOCK), sys.executable, status=1)
    told = stderr_of(tmp_path, ENDED_BY_AN_EXCEPTION.format(new_loop=OURS), sys.executable, status=1)
    assert kinds_of_lines(told) <= kinds_of_lines(expected), told


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 7)])
def test_a_signal_ends_the_wait_for_a_thread(number: signal.Signals, status: int) -> None:
    """A look-up whose name servers are dead, for example: it takes half a minute, whoever has given it up."""
    program = """
import asyncio, atexit, os, signal, threading
import oneloop
from oneloop.files.engine import current

begun = threading.Event()

def work():
    begun.set()
    threading.Event().wait(100)

async def main():
    working = asyncio.ensure_future(current().call(work))
    while not begun.is_set():
        await asyncio.sleep(0)
    working.cancel()

oneloop.run(main())
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
# What was registered last is called first.
atexit.register(os.write, 1, b"at exit\\n")
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "at exit\n"
            process.send_signal(number)
            _, errors = process.communicate(timeout=50)
        finally:
            process.kill()
    assert process.returncode == status, errors
    assert ("KeyboardInterrupt" in errors) == (number == signal.SIGINT)
