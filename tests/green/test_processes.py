"""multiprocessing and `os.read` in green threads of a patched program: others run while one waits."""

from __future__ import annotations

import pytest

from tests.green.patched import patched

COUNTING = """
import multiprocessing, os, threading, time
from oneloop import green

def counting(call, then=None):
    # Whether another green thread ran meanwhile; the first time it does what the call waits for.
    ran = []
    def tick():
        while True:
            time.sleep(0.001)
            ran.append(1)
            if len(ran) == 1 and then: then()
    ticking = green.spawn(tick)
    green.sleep(0)
    found = call()
    ticking.kill()
    return found, bool(ran)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_process_and_its_queue(method: str) -> None:
    out = patched(
        COUNTING
        + f"""
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    queue = context.Queue()
    process = context.Process(target=os.execlp, args=("sleep", "sleep", "1000"))
    process.start()
    print(counting(process.join, process.kill), process.exitcode)
    late = context.Process(target=time.sleep, args=(1000,)); late.start()
    print(counting(lambda: late.join(0.005)), late.exitcode)
    print(counting(lambda: late.join(60), late.kill), late.exitcode)
    print(counting(queue.get, lambda: queue.put(5)))
    print(counting(lambda: queue.empty() and not queue._poll(0.02)))
    queue.close()
"""
    )
    lines = out.splitlines()
    assert lines[0] == "(None, True) -9"
    assert lines[1].endswith(" None")
    assert lines[2:] == ["(None, True) -9", "(5, True)", "(True, True)"]


def test_locks() -> None:
    out = patched(
        COUNTING
        + """
lock, limit = multiprocessing.Lock(), multiprocessing.BoundedSemaphore(1)
for one in (lock, limit):
    one.acquire()
    late = counting(lambda: one.acquire(timeout=0.02))
    print(one.acquire(False), late, one.acquire(timeout=0), one.acquire(True, -1))
    print(counting(one.acquire, one.release))
    print(counting(one.__enter__, one.release)); one.__exit__(None, None, None)
changed = multiprocessing.Condition()
with changed:
    print(counting(lambda: changed.wait(0.02)))
"""
    )
    assert out.splitlines() == ["False (False, True) False False", "(True, True)", "(True, True)"] * 2 + [
        "(False, True)"
    ]


def test_descriptors() -> None:
    out = patched(
        COUNTING
        + """
import socket
reader, writer = os.pipe()
print(counting(lambda: os.read(reader, 100), lambda: os.write(writer, b"one")))
print(counting(lambda: os.readv(reader, [bytearray(2), bytearray(2)]), lambda: os.write(writer, b"two")))
data = os.urandom(300_000)
def drain():
    time.sleep(0.02)
    taken = b""
    while len(taken) < len(data): taken += os.read(reader, 50_000)
    return taken == data
draining = green.spawn(drain)
print(counting(lambda: os.write(writer, data)), draining.get())
ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
os.set_blocking(ours.fileno(), True)
print(os.write(ours.fileno(), b"x" * 10_000), len(theirs.recv(20_000)))
# What is wrong is said by the call itself.
os.set_blocking(reader, False)
for call in (lambda: os.read(reader, 1), lambda: os.read(-1, 1), lambda: os.read(1 << 40, 1), lambda: os.read("x", 1),
             lambda: os.write(writer, "text"), lambda: os.write(10_000, b"x" * 9000)):
    try: print(call())
    except Exception as error: print(type(error).__name__)
os.set_blocking(reader, True)
# A reader that goes away while a part was written.
written, _ = counting(lambda: os.write(writer, data), lambda: os.close(reader))
print(0 < written < len(data))
try: os.write(writer, data)
except BrokenPipeError: print("broken")
with open("/proc/self/stat", "rb") as file: print(os.read(file.fileno(), 4) != b"")
"""
    )
    assert out.splitlines() == [
        "(b'one', True)",
        "(3, True)",
        "(300000, True) True",
        "10000 10000",
        "BlockingIOError",
        "OSError",
        "OverflowError",
        "TypeError",
        "TypeError",
        "OSError",
        "True",
        "broken",
        "True",
    ]


def test_descriptors_that_cannot_be_read_or_written() -> None:
    """The error is the kernel's, at once: no data or room that anybody waits for would make it another."""
    out = patched("""
        import os, select, socket, tempfile, time
        from oneloop import green
        from oneloop.green import monkey

        def opened():
            reader, writer = os.pipe()
            yield "reader", reader, False, True
            yield "writer", writer, True, False
            tcp = socket.create_server(("127.0.0.1", 0))
            yield "TCP", tcp.fileno(), True, True
            unix = socket.socket(socket.AF_UNIX)
            unix.bind("")
            unix.listen()
            for listening in (tcp, unix):
                os.set_blocking(listening.fileno(), True)
            yield "Unix", unix.fileno(), True, True
            yield "epoll", epoll.fileno(), True, True
            yield "pidfd", os.pidfd_open(os.getpid()), True, True
            if hasattr(os, "timerfd_create"):
                yield "timerfd", os.timerfd_create(time.CLOCK_MONOTONIC), False, True

        epoll = monkey.get_original("select", "epoll")()
        source, null = tempfile.TemporaryFile(), os.open(os.devnull, os.O_WRONLY)
        null_reader = os.open(os.devnull, os.O_RDONLY)
        source.write(b"abc")
        source.flush()
        READS = {
            "read": lambda fd: (fd, 10),
            "readv": lambda fd: (fd, [bytearray(10)]),
            "eventfd_read": lambda fd: (fd,),
            "splice": lambda fd: (fd, null, 10),
        }
        WRITES = {
            "write": lambda fd: (fd, b"x" * 10_000),
            "writev": lambda fd: (fd, [b"x"]),
            "eventfd_write": lambda fd: (fd, 1),
            "sendfile": lambda fd: (fd, source.fileno(), 0, 3),
        }

        def outcome(function, args):
            try:
                return function(*args)
            except OSError as error:
                return type(error), error.errno

        green.spawn(green.sleep, 60)
        compared = 0
        for kind, fd, is_read, is_written in opened():
            for name, arguments in {**(READS if is_read else {}), **(WRITES if is_written else {})}.items():
                expected = outcome(monkey.get_original("os", name), arguments(fd))
                assert isinstance(expected, tuple), (kind, name, expected)
                with green.Timeout(5, RuntimeError((kind, name))):
                    assert outcome(getattr(os, name), arguments(fd)) == expected, (kind, name)
                compared += 1
        # Only the other side is wrong.
        (reader, writer), (_, full) = os.pipe(), os.pipe()
        os.set_blocking(full, False)
        while not isinstance(outcome(monkey.get_original("os", "write"), (full, bytes(4096))), tuple):
            pass
        os.set_blocking(full, True)
        for args in ((reader, null_reader, 1), (writer, full, 1), (reader, -1, 1), (-1, full, 1)):
            expected = outcome(monkey.get_original("os", "splice"), args)
            assert isinstance(expected, tuple), (args, expected)
            with green.Timeout(5, RuntimeError(args)):
                assert outcome(os.splice, args) == expected, args
        print(compared)
    """)
    assert int(out) >= 40


def test_a_default_timeout_leaves_descriptors_as_they_are() -> None:
    out = patched("""
        import multiprocessing, os, socket, threading, time

        # Only a thread with a hub asks what a descriptor is.
        time.sleep(0)
        ours, theirs = socket.socketpair()
        number = ours.detach()
        socket.setdefaulttimeout(60)
        for blocking in (True, False):
            os.set_blocking(number, blocking)
            assert os.write(number, bytes(5000)) == 5000
            print(os.get_blocking(number))

        # Asked while it waits.
        ours, theirs = multiprocessing.Pipe()

        def send():
            for number in range(3):
                time.sleep(0.001)
                theirs.send(number)

        threading.Thread(target=send).start()
        print([ours.recv() for _ in range(3)])
    """)
    assert out.splitlines() == ["True", "False", "[0, 1, 2]"]


def test_a_queue_that_can_be_joined() -> None:
    """A green thread that waits for the lock of other processes keeps no other one from putting."""
    out = patched("""
        import multiprocessing, threading
        from oneloop import green

        queue = multiprocessing.get_context("fork").JoinableQueue()
        queue.put(0)
        queue.get()
        is_held = threading.Event()

        def holder():
            with queue._cond:
                is_held.set()
                green.sleep(0.05)

        threads = [threading.Thread(target=holder)]
        threads += [threading.Thread(target=queue.put, args=(number,)) for number in (1, 2)]
        threads[0].start()
        is_held.wait()
        for thread in threads[1:]:
            thread.start()
        for thread in threads:
            thread.join()
        print(sorted(queue.get() for _ in range(2)))
        for _ in range(3):
            queue.task_done()
        queue.join()
        try:
            queue.task_done()
        except ValueError as error:
            print(error)
        full = multiprocessing.JoinableQueue(1)
        full.put(1)
        try:
            full.put(2, timeout=0.001)
        except Exception as error:
            print(type(error).__name__)
        full.close()
        try:
            full.put(3)
        except ValueError as error:
            print(str(error).endswith("is closed"))
    """)
    assert out.splitlines() == ["[1, 2]", "task_done() called too many times", "Full", "True"]


def test_the_thread_that_shares_descriptors_is_stopped_meanwhile() -> None:
    out = patched("""
        import os, threading
        from multiprocessing import resource_sharer

        reader, _ = os.pipe()
        resource_sharer.DupFd(reader)
        stopping = threading.Thread(target=resource_sharer.stop)
        stopping.start()
        shared = []
        sharing = threading.Thread(target=lambda: shared.append(resource_sharer.DupFd(reader)))
        sharing.start()
        stopping.join()
        sharing.join()
        descriptor = shared[0].detach()
        print(os.fstat(descriptor).st_ino == os.fstat(reader).st_ino)
        resource_sharer.stop()
    """)
    assert out == "True\n"


def test_a_listener() -> None:
    out = patched(
        COUNTING
        + """
from multiprocessing.connection import Client, Listener
with Listener() as listener:
    def connect(): Client(listener.address).send([1])
    accepted, others_ran = counting(listener.accept, threading.Thread(target=connect).start)
    print(accepted.recv(), others_ran)
try: listener.accept()
except OSError as error: print(error)
"""
    )
    assert out.splitlines() == ["[1] True", "listener is closed"]


def test_a_coroutine_and_a_real_thread_block_as_before() -> None:
    out = patched(
        COUNTING
        + """
import asyncio
reader, writer = os.pipe()
lock = multiprocessing.Lock()
real = green.get_hub().threadpool
async def main():
    pending = asyncio.to_thread(lambda: (real_sleep(0.02), os.write(writer, b"x"), lock.release()))
    lock.acquire()
    waiting = asyncio.ensure_future(pending)
    await asyncio.sleep(0)
    return os.read(reader, 1), lock.acquire()
real_sleep = time.sleep
print(asyncio.run(main()))
threading.Timer(0.02, os.write, [writer, b"y"]).start()
print(real.apply(os.read, (reader, 1)))
"""
    )
    assert out.splitlines() == ["(b'x', True)", "b'y'"]


@pytest.mark.parametrize("make", ["multiprocessing.get_context('fork').Pool(1)", "multiprocessing.pool.ThreadPool(1)"])
def test_results_of_a_pool(make: str) -> None:
    out = patched(
        COUNTING
        + f"""
import multiprocessing.pool
pool = {make}
print(counting(lambda: pool.apply(time.sleep, (0.1,))))
print(counting(lambda: pool.map(time.sleep, [0.1])))
print(counting(lambda: list(pool.imap_unordered(time.sleep, [0.1]))))
late = pool.apply_async(time.sleep, (1,))
try: late.get(0.02)
except multiprocessing.TimeoutError: print("late")
items = pool.imap(abs, [1])
try: items.next(0.01)
except multiprocessing.TimeoutError: print("late")
print(items.next())
pool.apply_async(time.sleep, (0.1,))
pool.close()
print(counting(pool.join))
"""
    )
    ends = ["(None, True)", "([None], True)", "([None], True)", "late", "late", "1", "(None, True)"]
    assert out.splitlines() == ends


def test_a_recursive_lock_is_held_by_one_green_thread() -> None:
    out = patched("""
        import multiprocessing, threading, time
        lock, inside, most = multiprocessing.RLock(), [], []
        held, may_end = threading.Event(), threading.Event()
        def hold():
            with lock:
                held.set()
                may_end.wait()
        holder = threading.Thread(target=hold)
        holder.start()
        held.wait()
        print(lock.acquire(False), lock.acquire(timeout=0.0001))
        try: lock.release()
        except AssertionError: print("not held")
        may_end.set()
        holder.join()
        def work():
            with lock, lock:
                inside.append(1)
                time.sleep(0.001)
                most.append(len(inside))
                inside.pop()
        threads = [threading.Thread(target=work) for _ in range(10)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(max(most), lock.acquire(False), lock.acquire(False))
        lock.release(); lock.release()
        value = multiprocessing.Value("i")
        def add():
            with value.get_lock():
                seen = value.value
                time.sleep(0)
                value.value = seen + 1
        threads = [threading.Thread(target=add) for _ in range(20)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        changed = multiprocessing.Condition()
        def tell():
            with changed: changed.notify_all()
        with changed, changed:
            threading.Timer(0.001, tell).start()
            print(value.value, changed.wait(10))
    """)
    assert out == "False False\nnot held\n1 True True\n20 True\n"


def test_descriptors_of_sockets_block_as_the_sockets() -> None:
    """A green socket's descriptor is in non-blocking mode, which its program has not asked for."""
    out = patched("""
        import os, socket, tempfile, threading
        from oneloop import green
        ours, theirs = socket.socketpair()
        readers = [green.spawn(os.read, ours.fileno(), 1) for _ in range(3)]
        green.sleep(0)
        theirs.send(b"abc")
        print(sorted(reader.get() for reader in readers))
        def write(size):
            left = memoryview(bytes(size))
            while left: left = left[os.write(ours.fileno(), left):]
            while size: size -= os.writev(ours.fileno(), [bytes(min(size, 100_000))])
            with tempfile.TemporaryFile() as file:
                file.write(bytes(1_000_000))
                file.flush()
                while size < 1_000_000: size += os.sendfile(ours.fileno(), file.fileno(), size, 1_000_000 - size)
            ours.close()
        threading.Thread(target=write, args=(1_000_000,)).start()
        print(sum(map(len, iter(lambda: theirs.recv(65_536), b""))))
        for timeout in (0, 1):
            ours, theirs = socket.socketpair()
            ours.settimeout(timeout)
            try: os.read(ours.fileno(), 1)
            except BlockingIOError: print("not", timeout)
    """)
    assert out == "[b'a', b'b', b'c']\n3000000\nnot 0\nnot 1\n"


def test_a_call_of_a_manager_that_times_out_leaves_no_answer() -> None:
    """On the green thread's connection, where the next call would take it for its own."""
    out = patched("""
if __name__ == "__main__":
    import multiprocessing, time
    from oneloop import green

    with multiprocessing.Manager() as manager:
        queue, known = manager.Queue(), manager.dict(k="value")
        with green.Timeout(0.05, False):
            queue.get()
        queue.put("x")
        print(known["k"], len(known))
        try:
            known["missing"]
        except KeyError as error:
            print(error)
        print(known["k"])
""")
    assert out.splitlines() == ["value 1", "'missing'", "value"]


def test_a_connection_to_a_manager_stays_when_an_answer_cannot_be_unpickled() -> None:
    """The manager keeps locks for it."""
    out = patched(
        """
import multiprocessing.managers

class Refused(Exception):
    def __init__(self, code, text):
        super().__init__(text)

class Thing:
    def work(self):
        raise Refused(1, "no")

class Manager(multiprocessing.managers.SyncManager):
    pass

Manager.register("Thing", Thing)

if __name__ == "__main__":
    with Manager(ctx=multiprocessing.get_context("fork")) as manager:
        lock, thing = manager.RLock(), manager.Thing()
        with lock:
            try:
                thing.work()
            except TypeError as error:
                print("missing 1 required" in str(error))
        print("released")
""",
        options=("-W", "ignore::DeprecationWarning"),
    )
    assert out.splitlines() == ["True", "released"]


def test_a_manager_that_has_died_is_told_as_without_patching() -> None:
    out = patched("""
if __name__ == "__main__":
    import multiprocessing

    manager = multiprocessing.Manager()
    known = manager.dict()
    known.copy()
    manager._process.kill()
    manager._process.join()
    for _ in range(2):
        try:
            known.copy()
        except (EOFError, OSError) as error:
            print(isinstance(error, (EOFError, ConnectionResetError, BrokenPipeError)))
""")
    assert out == "True\n" * 2
