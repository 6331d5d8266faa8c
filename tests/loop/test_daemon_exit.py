"""The interpreter ends while a daemon thread is in the midst of each kind of work: status 0, and not a word.

What a loop by itself does there is in `test_process_exit`; a server of WSGI in `tests/http/test_wsgi_threads.py`.
"""

from __future__ import annotations

import pytest

from tests import programs

SERVER = """
async def answer(reader, writer):
    while await reader.readline():
        while (await reader.readline()).strip():
            pass
        writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")

async def served(asked):
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    await asked("http://127.0.0.1:%d/" % server.sockets[0].getsockname()[1])
"""
# `go_on()` is called by the thread each time that it has done a part of its work.
WORK = {
    "requests of coroutines": SERVER
    + """
from oneloop.http import AsyncClient

async def asked(url):
    async with AsyncClient() as client:
        async def ask():
            while True:
                assert (await client.get(url)).text == "ok"
                go_on()
        await asyncio.gather(*(ask() for _ in range(10)))

def work():
    new_loop().run_until_complete(served(asked))
""",
    "requests of plain code": SERVER
    + """
from oneloop.http import Client

def ask(url):
    with Client() as client:
        while True:
            assert client.get(url).text == "ok"
            go_on()

async def asked(url):
    sys.setswitchinterval(1e-6)
    for _ in range(8):
        threading.Thread(target=ask, args=(url,), daemon=True).start()
    await asyncio.sleep(3600)

def work():
    new_loop().run_until_complete(served(asked))
""",
    # The thread stands where it has said what is to be done at its end, and goes on when that has been asked for.
    "a first request of plain code": SERVER
    + """
from oneloop.http import Client
from oneloop.http.client import callers

finalize, has_ended = callers.finalize, threading.Event()
atexit.register(has_ended.set)

def finalized(*arguments):
    made = finalize(*arguments)
    go_on(), go_on()
    has_ended.wait()
    return made

def ask(url):
    with Client() as client:
        assert client.get(url).text == "ok"

async def asked(url):
    callers.finalize = finalized
    threading.Thread(target=ask, args=(url,), daemon=True).start()
    await asyncio.sleep(3600)

def work():
    new_loop().run_until_complete(served(asked))
""",
    "a request that gets no answer": """
from oneloop.http import AsyncClient

async def main():
    async def answer(reader, writer):
        await reader.readline()
        go_on(), go_on()
        await asyncio.sleep(3600)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with AsyncClient(timeout=None) as client:
        await client.get("http://127.0.0.1:%d/" % server.sockets[0].getsockname()[1])

def work():
    new_loop().run_until_complete(main())
""",
    "files": """
from oneloop import files

async def main():
    async def read():
        while True:
            assert await files.read_file(sys.executable)
            go_on()
    await asyncio.gather(*(read() for _ in range(4)))

def work():
    new_loop().run_until_complete(main())
""",
    "requests of aio": """
from oneloop import aio

def work():
    with open(sys.executable, "rb", buffering=0) as file, aio.Context(8) as context:
        while True:
            context.submit(*(aio.Read(file, bytearray(4096)) for _ in range(8)))
            context.get_events(8, 8)
            go_on()
""",
    "a wait for events of aio": """
from oneloop import aio

def work():
    reader, writer = os.pipe()
    with aio.Context(8) as context:
        context.submit(aio.Poll(reader, 1))
        go_on(), go_on()
        context.get_events(1, 1)
""",
    "green threads": """
from oneloop import green

def work():
    def turn():
        while True:
            green.sleep(0)
            go_on()
    green.joinall([green.spawn(turn) for _ in range(10)])
""",
}
# The functions for the end that other packages register are called before that one, and the threads run meanwhile.
PROGRAM = """
import atexit
atexit.register(time.sleep, 0.1)
steps = threading.Semaphore(0)
go_on = steps.release
{work}
threading.Thread(target=work, daemon=True).start()
steps.acquire(), steps.acquire()
print("end", flush=True)
"""


@pytest.mark.parametrize("again", range(2))
@pytest.mark.parametrize("work", WORK)
def test_in_the_midst_of(work: str, again: int) -> None:
    assert programs.run_ok("oneloop", PROGRAM.format(work=WORK[work])) == "end\n"


PATCHED_WORK = {
    "sleeps": "time.sleep(0.0001)",
    "a lock": "with lock: time.sleep(0)",
    "a socket": "ours.send(b'x'), theirs.recv(1), time.sleep(0)",
}


@pytest.mark.parametrize("work", PATCHED_WORK)
@pytest.mark.parametrize("kind", ["of the program", "of the system"])
def test_a_patched_program(kind: str, work: str) -> None:
    """Its daemon threads are green threads; the system's own threads have a hub each."""
    body = f"""
    from oneloop.green import monkey
    monkey.patch_all()
    start_new_thread = monkey.get_original("_thread", "start_new_thread")
    begun = monkey.get_original("_thread", "allocate_lock")()
    begun.acquire()

    def work():
        lock, (ours, theirs) = threading.Lock(), socket.socketpair()
        for number in range(1 << 60):
            {PATCHED_WORK[work]}
            if number == 2:
                begun.release()

    if {kind!r} == "of the system":
        start_new_thread(work, ())
        begun.acquire()
    else:
        threading.Thread(target=work, daemon=True).start()
        while not begun.acquire(False):
            time.sleep(0.0001)
    print("end", flush=True)
    """
    assert programs.run_ok("oneloop", body) == "end\n"
