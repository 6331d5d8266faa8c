"""A coroutine of a patched program that blocks: what others see meanwhile, and how its wait may end."""

from __future__ import annotations

import sys

import pytest

from tests.green.patched import patched


def test_other_loops_run_meanwhile() -> None:
    """Each has its own running loop, current task, context and hooks, before, during and after the wait."""
    out = patched("""
        import asyncio, contextvars, sys, threading, time

        name = contextvars.ContextVar("name")
        ended = []

        async def numbers():
            try:
                yield 1
                yield 2
            finally:
                ended.append(name.get())

        def here():
            loop = asyncio.get_running_loop()
            return loop, asyncio.current_task(), name.get(), sys.get_asyncgen_hooks()

        async def step(mine, together):
            name.set(mine)
            before = here()
            together.wait()
            async for _ in numbers():
                break
            for _ in range(3):
                time.sleep(0.001)
                assert here() == before
                await asyncio.sleep(0)
            together.wait()
            assert here() == before
            assert asyncio.all_tasks() == {asyncio.current_task()}

        def run(mine):
            asyncio.run(step(mine, together))
            assert asyncio._get_running_loop() is None

        together = threading.Barrier(3)
        threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        run(2)
        for thread in threads:
            thread.join()
        print(sorted(ended))
    """)
    assert out == "[0, 1, 2]\n"


def test_the_wait_ends_with_an_exception() -> None:
    """It is raised in the coroutine, whose loop goes on."""
    out = patched("""
        import asyncio, signal, socket, threading, time
        from oneloop import green

        begun = threading.Event()

        async def killed():
            begun.set()
            try:
                time.sleep(60)
            except BaseException as error:
                print(type(error).__name__)
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            await asyncio.sleep(0)
            assert (asyncio.get_running_loop(), asyncio.current_task()) == (loop, task)
            return "goes on"

        thread = green.spawn(asyncio.run, killed())
        begun.wait()
        thread.kill(block=False)
        print(thread.get())

        async def late():
            ours, theirs = socket.socketpair()
            with ours, theirs:
                ours.settimeout(0.01)
                try:
                    ours.recv(1)
                except TimeoutError:
                    print("TimeoutError")
            await asyncio.sleep(0)

        asyncio.run(late())

        signal.signal(signal.SIGINT, signal.default_int_handler)

        async def interrupted():
            threading.Timer(0.01, signal.raise_signal, [signal.SIGINT]).start()
            try:
                time.sleep(0.05)
                await asyncio.sleep(60)
            finally:
                print("cancelled", asyncio.current_task().cancelling())

        try:
            asyncio.run(interrupted())
        except KeyboardInterrupt:
            print("KeyboardInterrupt")
    """)
    assert out.split("\n") == [
        *("GreenletExit", "goes on", "TimeoutError", "cancelled 1", "KeyboardInterrupt", ""),
    ]


def test_what_waits_for_the_blocked_loop() -> None:
    """Callbacks and tasks of other threads run when the call has returned, not before."""
    out = patched("""
        import asyncio, threading, time

        async def main():
            loop = asyncio.get_running_loop()

            def other():
                loop.call_soon_threadsafe(print, "callback")
                print(asyncio.run_coroutine_threadsafe(asyncio.sleep(0, "task"), loop).result())

            thread = threading.Thread(target=other)
            thread.start()
            time.sleep(0.02)
            print("slept")
            await asyncio.to_thread(thread.join)

        asyncio.run(main())
    """)
    assert out.splitlines() == ["slept", "callback", "task"]


def test_a_lock_that_a_green_thread_holds() -> None:
    patched("""
        import asyncio, threading, time

        lock, held = threading.Lock(), threading.Event()

        def hold():
            with lock:
                held.set()
                time.sleep(0.01)

        async def main():
            thread = threading.Thread(target=hold)
            thread.start()
            held.wait()
            with lock:
                thread.join()

        asyncio.run(main())
    """)


def test_a_loop_in_a_real_thread_blocks_that_thread() -> None:
    patched("""
        import asyncio, time
        from oneloop import green

        def run():
            async def main():
                time.sleep(0.01)
                return green.hub.get_hub_if_exists()
            return asyncio.run(main())

        assert green.get_hub().threadpool.apply(run) is None
    """)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
def test_an_eager_task() -> None:
    out = patched("""
        import asyncio, time

        async def step():
            time.sleep(0.001)
            return asyncio.current_task()

        async def main():
            loop = asyncio.get_running_loop()
            loop.set_task_factory(asyncio.eager_task_factory)
            task = loop.create_task(step())
            assert task.done()
            assert asyncio.current_task() is not task
            print(task.result() is task)

        with asyncio.Runner() as runner:
            runner.run(main())
    """)
    assert out == "True\n"


def test_tls_writes_of_a_green_thread_and_of_a_coroutine() -> None:
    """The coroutine waits until the other one's record has been written."""
    out = patched("""
        import asyncio, socket, threading, time
        from tests import certificates
        from tests.certificates import HOST

        one, other = socket.socketpair()
        ended = threading.Event()

        def serve():
            with certificates.server_context().wrap_socket(other, server_side=True) as server:
                ended.wait()
                received = set()
                while data := server.recv(65_536):
                    received |= set(data)
                print(*map(chr, sorted(received)))
                server.unwrap()

        async def main():
            with certificates.client_context().wrap_socket(one, server_hostname=HOST) as client:
                writing = threading.Thread(target=client.sendall, args=(b"a" * 1_000_000,))
                writing.start()
                while client._writing is None or not client._writing.locked():
                    time.sleep(0.001)
                threading.Timer(0.01, ended.set).start()
                client.sendall(b"b")
                writing.join()
                client.unwrap()

        thread = threading.Thread(target=serve)
        thread.start()
        asyncio.run(main())
        thread.join()
    """)
    assert out == "a b\n"


def test_pools_and_timeouts() -> None:
    out = patched("""
        import asyncio, os, time
        from oneloop.green import Timeout
        from oneloop.green.pool import Pool
        from oneloop.green.threadpool import ThreadPool

        async def main():
            pool = Pool(1)
            for _ in range(3):
                pool.spawn(time.sleep, 0.001)  # waits for room
            assert pool.wait_available() == 1
            pool.spawn(time.sleep, 0.001)
            assert pool.join()
            print(*pool.imap(str, range(3)), *pool.imap_unordered(str, [3]), *pool.map(str, [4]))

            threads = ThreadPool(1)
            for _ in range(3):
                threads.spawn(os.getpid)  # waits for room
            threads.join()
            threads.kill()
            assert threads.size == 0

            pool.spawn(time.sleep, 60)
            pool.kill(timeout=30)
            assert len(pool) == 0
            try:
                Timeout.start_new(1)
            except AssertionError as error:
                print(error)

        asyncio.run(main())
    """)
    assert out.splitlines() == [
        "0 1 2 3 4",
        "a Timeout needs a green thread: in a coroutine, use asyncio.timeout()",
    ]


def test_the_wait_ends_before_it_begins() -> None:
    """It is ended while the hub is asked whether the coroutine may block."""
    patched("""
        import asyncio
        from oneloop.green.hub import Hub, Waiter, get_hub

        asked = Hub._may_block_in_step

        async def main():
            waiter = Waiter(get_hub())

            def ask(hub):
                waiter.wake("woken")
                return asked(hub)

            Hub._may_block_in_step = ask
            assert waiter.get() == "woken"

        asyncio.run(main())
    """)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")
def test_a_signal_handler_raises_in_the_wait() -> None:
    """In turn in each line that runs in the coroutine: its loop and its task are as before."""
    out = patched("""
        import asyncio, sys, threading, time, types
        from oneloop.green import hub, lock, steps, threadlock

        class Interruption(BaseException):
            pass

        def codes(owner):
            for value in vars(owner).values():
                function = getattr(value, "fget", value)
                if isinstance(function, types.FunctionType) and function.__code__.co_filename.endswith(NAMES):
                    yield function.__code__

        def line(code, number):
            global left
            if left >= 0 and asyncio._get_running_loop() is loop:
                left -= 1
                if left < 0:
                    raise Interruption

        def wait_for_lock():
            taken = rlock.acquire(timeout=0.001)
            assert not taken

        def hold():
            with rlock:
                held.set()
                over.wait()

        async def main():
            global left, loop
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            for wait in (wait_for_lock, lambda: time.sleep(0.001), lambda: time.sleep(0)):
                places = -1
                is_interrupted = True
                while is_interrupted:
                    places += 1
                    left = places
                    try:
                        wait()
                    except Interruption:
                        pass
                    else:
                        is_interrupted = False
                    left = -1
                    assert (asyncio.get_running_loop(), asyncio.current_task()) == (loop, task)
                    await asyncio.sleep(0)
                print(places > 2)

        NAMES = ("hub.py", "lock.py", "steps.py")
        left, loop = -1, None
        rlock, held, over = threading.RLock(), threading.Event(), threading.Event()
        threading.Thread(target=hold).start()
        held.wait()
        tool = sys.monitoring.DEBUGGER_ID
        sys.monitoring.use_tool_id(tool, "interruptions")
        sys.monitoring.register_callback(tool, sys.monitoring.events.LINE, line)
        for owner in (hub, hub.Hub, lock, lock.RLock, steps, threadlock, threadlock.LockType, threadlock.RLock):
            for code in codes(owner):
                sys.monitoring.set_local_events(tool, code, sys.monitoring.events.LINE)
        asyncio.run(main())
        over.set()
        # No interrupted wait has left its place in the line.
        print(rlock.acquire(timeout=1))
    """)
    assert out == "True\n" * 4


def test_nothing_is_polled_while_a_step_blocks() -> None:
    """A descriptor of the loop is readable meanwhile; it is read afterwards."""
    out = patched("""
        import asyncio, socket, time
        from oneloop import green

        async def main():
            loop = asyncio.get_running_loop()
            ours, theirs = socket.socketpair()
            with ours, theirs:
                ours.setblocking(False)
                read = loop.create_future()
                loop.add_reader(ours, lambda: read.done() or read.set_result(ours.recv(1)))
                await asyncio.sleep(0)
                below = green.get_hub().asyncio_loop
                theirs.send(b"x")
                before = below.statistics().ticks
                time.sleep(0.05)
                print(below.statistics().ticks - before < 10)
                print(await read)
                theirs.send(b"y")
                read = loop.create_future()
                print(await read)
                loop.remove_reader(ours)

        asyncio.run(main())
    """)
    assert out == "True\nb'x'\nb'y'\n"


def test_a_green_thread_awaits_the_loop_that_blocks() -> None:
    """In the first step of the program's first loop, which no hub has watched before."""
    out = patched("""
        import asyncio, threading, time
        from oneloop import green

        async def main():
            future = asyncio.get_running_loop().create_future()
            thread = threading.Thread(target=lambda: print(green.await_(future)))
            thread.start()
            time.sleep(0.001)
            future.set_result("result")
            await asyncio.to_thread(thread.join)

        asyncio.run(main())
    """)
    assert out == "result\n"


def test_who_asks_again_and_again_lets_others_run() -> None:
    patched("""
        import asyncio, queue, threading, time

        lock, items, held = threading.Lock(), queue.SimpleQueue(), threading.Event()

        def hold():
            with lock:
                held.set()
                time.sleep(0.001)
            items.put(1)

        async def main():
            threading.Thread(target=hold).start()
            held.wait()
            while not lock.acquire(False):
                pass
            while True:
                try:
                    items.get_nowait()
                    return
                except queue.Empty:
                    pass

        asyncio.run(main())
    """)


def test_servers() -> None:
    """`serve_forever` serves until another green thread stops the server."""
    out = patched("""
        import asyncio, socket, threading
        from oneloop.green.pywsgi import WSGIServer
        from oneloop.green.server import StreamServer

        def echo(sock, address):
            sock.sendall(sock.recv(10))

        def app(environ, start_response):
            start_response("200 OK", [("Content-Length", "2")])
            return [b"ok"]

        def ask(server):
            with socket.create_connection(server.address) as sock:
                sock.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
                print(sock.recv(4))
            server.stop()

        async def main():
            for server in (
                StreamServer(("127.0.0.1", 0), echo),
                WSGIServer(("127.0.0.1", 0), app, log=None),
            ):
                server.start()
                threading.Thread(target=ask, args=(server,)).start()
                server.serve_forever()

        asyncio.run(main())
    """)
    assert out == "b'GET '\nb'HTTP'\n"


def test_a_switch_to_the_hub() -> None:
    out = patched("""
        import asyncio
        from oneloop.green.hub import get_hub, getcurrent

        async def main():
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            hub = get_hub()
            hub.loop.run_callback(getcurrent().switch, "back")
            print(hub.switch())
            assert (asyncio.get_running_loop(), asyncio.current_task()) == (loop, task)
            await asyncio.sleep(0)

        asyncio.run(main())
    """)
    assert out == "back\n"


def test_what_is_readable_is_read_after_the_wait_was_interrupted() -> None:
    """In the main greenlet, by a signal's handler that runs on the hub, which ends."""
    out = patched("""
        import asyncio, signal, socket, time
        from oneloop import green

        class Interruption(Exception):
            pass

        def interrupt(*_):
            raise Interruption

        async def main():
            loop = asyncio.get_running_loop()
            ours, theirs = socket.socketpair()
            with ours, theirs:
                ours.setblocking(False)
                read = loop.create_future()
                loop.add_reader(ours, lambda: read.done() or read.set_result(ours.recv(1)))
                await asyncio.sleep(0)
                theirs.send(b"x")
                signal.signal(signal.SIGALRM, interrupt)
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                try:
                    time.sleep(60)
                except Interruption:
                    print("interrupted")
                print(await read)
                loop.remove_reader(ours)

        asyncio.run(main())
    """)
    assert out == "interrupted\nb'x'\n"


def test_green_threads_of_a_loop_that_is_closed_in_a_step() -> None:
    """They may wait at their end, for a bounded time."""
    out = patched("""
        import asyncio, time
        import oneloop
        from oneloop import green

        def last():
            try:
                green.sleep(60)
            finally:
                green.sleep(0.001)
                print("ended")

        async def begin():
            green.spawn(last)
            await asyncio.sleep(0.001)

        async def main():
            here = asyncio.get_running_loop(), asyncio.current_task()
            other.close()
            assert here == (asyncio.get_running_loop(), asyncio.current_task())
            await asyncio.sleep(0)

        other = oneloop.new_event_loop()
        other.run_until_complete(begin())
        asyncio.run(main())
    """)
    assert out == "ended\n"


def test_a_refused_wait_for_a_condition_keeps_its_lock() -> None:
    """On oneloop's own loop, where a green thread waits for that lock."""
    out = patched("""
        import asyncio, threading
        import oneloop
        from oneloop import green
        from oneloop.green.exceptions import BlockingSwitchOutError

        async def main(lock):
            condition = threading.Condition(lock)

            def use():
                with condition:
                    print("used")

            with condition:
                using = green.spawn(use)
                await asyncio.sleep(0.001)
                try:
                    condition.wait()
                except BlockingSwitchOutError as error:
                    print(str(error).partition(" ")[0])
                await asyncio.sleep(0.001)
                print("released")
            await using

        for make in (threading.Lock, threading.RLock):
            with asyncio.Runner(loop_factory=oneloop.new_event_loop) as runner:
                runner.run(main(make()))
    """)
    assert out == "Condition.wait()\nreleased\nused\n" * 2
