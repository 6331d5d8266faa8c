"""Each wait of multiprocessing, process pools and logging through them: others run while one green thread waits.

A public report, written anew: gevent/gevent#622 and #600, pokealarm/pokealarm#558. A green thread that waited for a
process stopped all others. Where another green thread had to end the wait, that was for ever.
"""

from __future__ import annotations

import pytest

from tests.green.patched import patched
from tests.green.test_processes import COUNTING

# What the modules are for, imported before or after patching.
MODULES = """
import concurrent.futures, concurrent.futures.process, logging.handlers, multiprocessing, os, queue, socket, tempfile
import multiprocessing.connection, multiprocessing.dummy, multiprocessing.managers, multiprocessing.pool, threading
import multiprocessing.synchronize, multiprocessing.popen_spawn_posix, multiprocessing.popen_forkserver
"""

PREPARED = """
context = multiprocessing.get_context("fork")
reader, writer = context.Pipe(False)
def receive(*_):
    return reader.recv()
def started(target=receive):
    process = context.Process(target=target)
    process.start()
    return process
class Gate:
    def __init__(self): self.opened = threading.Event()
    def open(self): self.opened.set()
    def wait(self): return self.opened.wait()
class Manager(multiprocessing.managers.BaseManager): pass
Manager.register("Gate", Gate)
"""

# Whatever is left, processes too, ends here.
END = """
for process in multiprocessing.active_children():
    process.kill()
os._exit(0)
"""

SENT = "lambda: writer.send(5)"
# A wait -> what is done before, the wait, what another green thread does to end it, what the wait returns, and the end.
WAITS = {
    "process": ("process = started()", "process.join", SENT, None),
    "process with a time limit": ("process = started()", "lambda: process.join(60)", SENT, None),
    "pipe": ("", "reader.recv", SENT, 5),
    "end of a pipe": ("", "lambda: reader.poll(60)", "writer.close", True),
    "any of several": ("wait = multiprocessing.connection.wait", "lambda: len(wait([reader]))", SENT, 1),
    "queue": ("items = context.Queue()", "lambda: items.get(timeout=60)", "lambda: items.put(5)", 5),
    "simple queue": ("items = context.SimpleQueue()", "items.get", "lambda: items.put(5)", 5),
    "full queue": ("items = context.Queue(1); items.put(1)", "lambda: items.put(2)", "items.get", None),
    "tasks of a queue": ("items = context.JoinableQueue(); items.put(1)", "items.join", "items.task_done", None),
    "feeder of a queue": (
        """items = context.Queue()
def take():
    receive()
    items.get()
started(take)
items.put(bytes(1_000_000))
items.close()""",
        "items.join_thread",
        SENT,
        None,
    ),
    "lock": ("lock = context.Lock(); lock.acquire()", "lock.acquire", "lock.release", True),
    "event": ("event = context.Event()", "event.wait", "event.set", True),
    "barrier": (
        "barrier = context.Barrier(2)",
        "lambda: barrier.wait() in (0, 1)",
        "lambda: threading.Thread(target=barrier.wait).start()",
        True,
    ),
    "result of a pool": ("pool = context.Pool(1)", "lambda: pool.apply(receive)", SENT, 5),
    "results of a pool": ("pool = context.Pool(1)", "lambda: next(pool.imap(receive, [1]))", SENT, 5),
    "pool": ("pool = context.Pool(1); pool.apply_async(receive); pool.close()", "pool.join", SENT, None),
    "process pool": (
        "pool = concurrent.futures.ProcessPoolExecutor(1, context); future = pool.submit(receive)",
        "future.result",
        SENT,
        5,
    ),
    "end of a process pool": (
        "pool = concurrent.futures.ProcessPoolExecutor(1, context); pool.submit(receive)",
        "pool.shutdown",
        SENT,
        None,
    ),
    "real thread": (
        "thread = multiprocessing.dummy.Process(target=receive); thread.start()",
        "thread.join",
        SENT,
        None,
    ),
    "event of a manager": ("manager = context.Manager(); event = manager.Event()", "event.wait", "event.set", True),
    "queue of a manager": (
        "manager = context.Manager(); items = manager.Queue()",
        "items.get",
        "lambda: items.put(5)",
        5,
    ),
    "server of a manager": (
        """serving = Manager(("127.0.0.1", 0), authkey=b"k")
server = serving.get_server()
threading.Thread(target=server.serve_forever, daemon=True).start()
manager = Manager(server.address, authkey=b"k")
manager.connect()
gate = manager.Gate()""",
        "gate.wait",
        "gate.open",
        True,
    ),
    "client": (
        """address = tempfile.mkdtemp() + "/full"
listening = socket.socket(socket.AF_UNIX)
listening.bind(address)
listening.listen(0)
clients = []
try:
    while True:
        clients.append(socket.socket(socket.AF_UNIX))
        clients[-1].setblocking(False)
        clients[-1].connect(address)
except BlockingIOError:
    pass""",
        "lambda: multiprocessing.connection.Client(address).writable",
        "listening.accept",
        True,
    ),
    "listener": (
        "listener = multiprocessing.connection.Listener()",
        "lambda: listener.accept().readable",
        "lambda: multiprocessing.connection.Client(listener.address)",
        True,
    ),
    "records": (
        """records, seen = context.Queue(), threading.Event()
class Handler(logging.Handler):
    def emit(self, record): seen.set()
listener = logging.handlers.QueueListener(records, Handler())
listener.start()""",
        "lambda: (seen.wait(), listener.stop())[0]",
        "lambda: logging.handlers.QueueHandler(records).emit(logging.makeLogRecord({}))",
        True,
    ),
}


@pytest.mark.parametrize("before", ["", MODULES], ids=["imported after", "imported before"])
@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_others_run_meanwhile(wait: tuple[str, str, str, object], before: str) -> None:
    prepare, waiting, ends, found = wait
    program = f"{MODULES}{COUNTING}{PREPARED}{prepare}\nprint(counting({waiting}, {ends}), flush=True){END}"
    assert patched(program, before) == f"({found!r}, True)\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_others_run_while_a_process_starts(method: str) -> None:
    """It reads what it needs once it has started."""
    out = patched(f"""{COUNTING}
if __name__ == "__main__":
    process = multiprocessing.get_context({method!r}).Process(target=len, args=(bytes(1_000_000),))
    print(counting(process.start), process.join(), process.exitcode)
""")
    assert out == "(None, True) None 0\n"


def test_the_answers_of_a_manager_are_ones_own() -> None:
    out = patched(f"""{MODULES}{PREPARED}
manager = context.Manager()
squares = manager.dict({{number: number * number for number in range(50)}})
wrong = []
def ask(number):
    for _ in range(5):
        if squares[number] != number * number: wrong.append(number)
threads = [threading.Thread(target=ask, args=(number,)) for number in range(50)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(wrong)
""")
    assert out == "[]\n"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_green_threads_that_share_a_process_pool(method: str) -> None:
    """None of them may wait in the pool for the process that another one starts: it holds the pool's lock."""
    out = patched(f"""{MODULES}
if __name__ == "__main__":
    pool = concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context({method!r}))
    found = []
    threads = [threading.Thread(target=lambda: found.append(pool.submit(abs, -1).result())) for _ in range(10)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    pool.shutdown()
    print(found == [1] * 10)
""")
    assert out == "True\n"


def test_real_threads_that_cannot_be_waited_for() -> None:
    out = patched("""
import multiprocessing.dummy, os, sys, threading, time
from oneloop import green
Thread = multiprocessing.dummy.Process
green.sleep(0)
def itself():
    green.sleep(0)
    try: thread.join()
    except RuntimeError as error: print(error)
thread = Thread(target=itself)
try: thread.join()
except RuntimeError as error: print(error)
thread.start()
thread.join()
# In the child of a fork only the thread that has forked goes on.
reader, writer = os.pipe()
waiting = Thread(target=os.read, args=(reader, 1))
waiting.start()
pid = os.fork()
if pid == 0:
    green.sleep(0)
    waiting.join()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
waiting.join(0)
print(waiting.is_alive())
os.write(writer, b"x")
waiting.join(60)
print(waiting.is_alive())
""")
    assert out.splitlines() == [
        "cannot join thread before it is started",
        "cannot join current thread",
        "7",
        "True",
        "False",
    ]


def test_a_wait_that_has_ended_takes_no_notification() -> None:
    """That of a condition goes to who waits still."""
    out = patched(f"""{MODULES}import time
items, found = multiprocessing.dummy.Queue(), []
def take():
    found.append(items.get())
def try_to_take():
    try: items.get(timeout=0.01)
    except queue.Empty: found.append("nothing")
for wait in (try_to_take, take):
    thread = threading.Thread(target=wait)
    thread.start()
    while not items.not_empty._waiters: time.sleep(0)
    if wait is take: items.put(5)
    thread.join()
print(found)
""")
    assert out == "['nothing', 5]\n"


def test_a_client_is_in_blocking_mode() -> None:
    """Others may read it: an OS thread, a child."""
    out = patched(f"""{MODULES}
listener = multiprocessing.connection.Listener()
clients = []
thread = threading.Thread(target=lambda: clients.append(multiprocessing.connection.Client(listener.address)))
thread.start()
served = listener.accept()
thread.join()
print(os.get_blocking(clients[0].fileno()), os.get_blocking(served.fileno()))
""")
    assert out == "True True\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_start_at_the_same_time(method: str) -> None:
    """Each knows that it is being started, also when another one starts while its arguments are pickled."""
    out = patched(f"""{MODULES}import operator, time
class Slow:
    def __reduce__(self):
        time.sleep(0.01)
        return int, ()
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    locks = [context.Lock() for _ in range(3)]
    processes = [context.Process(target=operator.is_, args=(Slow(), lock)) for lock in locks]
    def run(process):
        process.start()
        process.join()
    threads = [threading.Thread(target=run, args=(process,)) for process in processes]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print([process.exitcode for process in processes])
""")
    assert out == "[0, 0, 0]\n"
