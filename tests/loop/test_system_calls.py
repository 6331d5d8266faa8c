"""What reaches the kernel, seen by strace: nothing from an idle loop, two sends for all writes of a callback."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

from tests import programs

pytestmark = [
    pytest.mark.oneloop_only("stock asyncio makes system calls of its own choice"),
    pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace"),
]

# What a program defines to mark a moment in its own trace.
MARK = """
def mark():
    try:
        os.stat("/oneloop-mark")
    except FileNotFoundError:
        pass
"""


def traced(loop: str, body: str, directory: Path) -> list[str]:
    """The system calls of the main thread between the program's first and second mark."""
    trace = directory / "trace"
    program = programs.source(loop, MARK + textwrap.dedent(body), 50)
    done = programs.run_command("strace", "-f", "-qq", "-o", str(trace), sys.executable, "-c", program)
    if "Operation not permitted" in done.stderr and "ptrace" in done.stderr:
        pytest.skip("this system does not permit ptrace")
    assert done.returncode == 0, done.stderr
    # "PID call(...) = result"
    lines = trace.read_text().splitlines()
    main = lines[0].split()[0]
    calls = [line.split(None, 1)[1] for line in lines if line.split()[0] == main]
    marks = [index for index, call in enumerate(calls) if "/oneloop-mark" in call]
    assert len(marks) == 2, done.stderr
    return [call for call in calls[marks[0] + 1 : marks[1]] if not call.startswith(("---", "+++"))]


def test_an_idle_loop_makes_no_system_call(loop_name: str, tmp_path: Path) -> None:
    """One wait, which a thread ends after a while; no tick, no timer, no wake-up in between."""
    calls = traced(
        loop_name,
        """
        loop = new_loop()
        loop.run_until_complete(asyncio.sleep(0))
        def end():
            mark()
            loop.stop()
        waker = threading.Timer(0.5, loop.call_soon_threadsafe, (end,))
        waker.start()
        loop.call_soon(mark)
        loop.run_forever()
        waker.join()
        loop.close()
        """,
        tmp_path,
    )
    waits = [call for call in calls if "epoll" in call]
    # Before 3.13 oneloop looks for signals after naps, each twice as long as the last: 50, 100, 200, 400 ms.
    naps = 3 if loop_name == "oneloop" and sys.version_info < (3, 13) else 0
    # A wait that another thread's GIL request interrupts shows as two lines ("unfinished", "resumed").
    assert 1 <= len([call for call in waits if "resumed" not in call]) <= 2 + naps, calls
    others = [call for call in calls if "epoll" not in call and "futex" not in call]
    assert not others, calls


WRITES = {
    "16 writes": """
        for number in range(16):
            transport.write(b"%063d\\n" % number)
    """,
    "header and body": """
        transport.write(b"header" * 20)
        transport.write(b"body" * 250)
    """,
    "header, body and drain": """
        writer.write(b"header" * 20)
        writer.write(b"body" * 250)
        await writer.drain()
    """,
    "chunks by writelines": """
        for number in range(8):
            transport.writelines([b"%x\\r\\n" % number, b"chunk", b"\\r\\n"])
    """,
}


@pytest.mark.parametrize("writes", WRITES)
def test_writes_of_one_callback_leave_in_two_sends(loop_name: str, tmp_path: Path, writes: str) -> None:
    """The first at once, all others when the callback ends.

    Whoever is interrupted for 50 us between two writes sends once more: the best of five turns counts.
    """
    calls = traced(
        loop_name,
        f"""
        async def write(transport, writer):
{textwrap.indent(textwrap.dedent(WRITES[writes]), " " * 12)}

        async def main():
            ours, theirs = socket.socketpair()
            reader, writer = await asyncio.open_connection(sock=ours)
            del ours  # nothing is gathered for a socket that somebody else holds
            await asyncio.sleep(0)
            mark()
            for _ in range(5):
                os.getppid()  # between two turns
                await asyncio.create_task(write(writer.transport, writer))
            mark()
            writer.close()
            theirs.close()
            await writer.wait_closed()
        loop = new_loop()
        loop.run_until_complete(main())
        loop.close()
        """,
        tmp_path,
    )
    turns: list[int] = []
    for call in calls:
        if call.startswith("getppid("):
            turns.append(0)
        elif re.match(r"(send|write|sendto|sendmsg|writev)\(", call):
            turns[-1] += 1
    assert len(turns) == 5, calls
    assert min(turns) == 2, calls


def test_an_open_listener_costs_nothing_per_tick(loop_name: str, tmp_path: Path) -> None:
    """Ticks that only run callbacks neither register nor ask descriptors: at most one poll each."""
    calls = traced(
        loop_name,
        """
        async def main():
            server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
            await asyncio.sleep(0)
            mark()
            for _ in range(100):
                await asyncio.sleep(0)
            mark()
            server.close()
        loop = new_loop()
        loop.run_until_complete(main())
        loop.close()
        """,
        tmp_path,
    )
    assert len([call for call in calls if "epoll_ctl" in call]) == 0, calls
    assert len(calls) <= 101, calls
