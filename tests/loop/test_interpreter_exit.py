"""Interpreter shutdown with loops in every state: no crash, no hang, no noise but asyncio's own warnings."""

from __future__ import annotations

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
