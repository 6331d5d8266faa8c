"""Threads, pools and processes of patched programs: which are green, and which are not patched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import programs
from tests.green.patched import PATCHED, patched


def test_threads_are_green() -> None:
    out = patched("""
        import threading, time, _thread
        ends = []
        def run(number):
            time.sleep(0.01 * number)
            ends.append((number, threading.current_thread().name, threading.get_ident()))
        threads = [threading.Thread(target=run, args=(n,), name=f"t{n}") for n in (3, 1, 2)]
        for thread in threads: thread.start()
        assert all(thread.is_alive() for thread in threads)
        assert threading.active_count() == 4 and set(threads) < set(threading.enumerate())
        for thread in threads: thread.join()
        assert not any(thread.is_alive() for thread in threads)
        print([(n, name) for n, name, _ in ends])
        assert [ident for *_, ident in ends] == [threads[i].ident for i in (1, 2, 0)]
        assert {thread.native_id for thread in threads} == {threading.main_thread().native_id}
        assert threading.get_ident() == threading.main_thread().ident
        lock = _thread.allocate_lock(); lock.acquire()
        _thread.start_new_thread(lock.release, ()); lock.acquire()
        print(threading.current_thread().name)
    """)
    assert out.splitlines() == ["[(1, 't1'), (2, 't2'), (3, 't3')]", "MainThread"]


def test_what_waits_in_threading_works() -> None:
    out = patched("""
        import threading, queue
        event = threading.Event(); threading.Timer(0.001, event.set).start(); print(event.wait(10), event.wait())
        barrier = threading.Barrier(3); threads = [threading.Thread(target=barrier.wait) for _ in range(2)]
        for t in threads: t.start()
        barrier.wait()
        condition = threading.Condition()
        with condition:
            threading.Thread(target=lambda: [condition.acquire(), condition.notify(), condition.release()]).start()
            print(condition.wait(10), condition.wait(0.001))
        items = queue.Queue(1)
        threading.Thread(target=lambda: [items.put(n) for n in range(5)]).start()
        print([items.get() for _ in range(5)])
        simple = queue.SimpleQueue(); threading.Thread(target=simple.put, args=(1,)).start(); print(simple.get())
        try: simple.get(timeout=0.001)
        except queue.Empty: print("empty")
        try: simple.get_nowait()
        except queue.Empty: print("empty")
        try: simple.get(timeout=-1)
        except ValueError as error: print(error)
        semaphore = threading.BoundedSemaphore(1)
        with semaphore: print(semaphore.acquire(timeout=0.001))
        lock = threading.RLock()
        def hold():
            with lock, lock: event.clear(); print("held"); event.wait()
        holder = threading.Thread(target=hold); holder.start()
        print(lock.acquire(False)); event.set(); holder.join(); print(lock.acquire(False))
    """)
    assert out.splitlines() == [
        "True True", "True False", "[0, 1, 2, 3, 4]", "1", "empty", "empty",
        "'timeout' must be a non-negative number", "False", "held", "False", "True",
    ]  # fmt: skip


def test_thread_locals_are_of_green_threads() -> None:
    out = patched("""
        import threading
        own = threading.local(); own.x = 1
        def run(): print(hasattr(own, "x")); own.x = 2
        thread = threading.Thread(target=run); thread.start(); thread.join()
        print(own.x)
        from oneloop import green
        green.spawn(lambda: print(threading.current_thread().name[:5], threading.current_thread().daemon)).join()
        print(len(threading.enumerate()))
    """)
    assert out.splitlines() == ["False", "1", "Dummy True", "1"]


def test_the_program_waits_for_threads_that_are_no_daemons() -> None:
    out = patched("""
        import atexit, threading, time
        def last(): time.sleep(0.01); print("last")
        def never(): time.sleep(100); print("never")
        def joins(): threading.main_thread().join(); print("main has ended")
        atexit.register(print, "at exit")
        threading.Thread(target=last).start()
        threading.Thread(target=never, daemon=True).start()
        threading.Thread(target=joins).start()
        print("main")
    """)
    assert out.splitlines() == ["main", "main has ended", "last", "at exit"]


def test_errors_of_threads_are_reported() -> None:
    out = patched("""
        import sys, threading, _thread, time
        threading.excepthook = lambda args: print("hook", args.exc_type.__name__, args.thread.name)
        sys.unraisablehook = lambda args: print("unraisable", args.exc_value, args.err_msg.partition(" started")[0])
        def fail(kind): raise kind("told")
        for kind in (ValueError, SystemExit):
            thread = threading.Thread(target=fail, args=(kind,), name="t"); thread.start(); thread.join()
        for kind in (ValueError, SystemExit): _thread.start_new_thread(fail, (kind,))
        time.sleep(0.001)
        def interrupt(): _thread.interrupt_main(); time.sleep(0.001)
        try:
            threading.Thread(target=interrupt).start()
            time.sleep(10)
        except KeyboardInterrupt: print("interrupted")
    """)
    assert out.splitlines() == [
        "hook ValueError t",
        "hook SystemExit t",
        "unraisable told Exception ignored in thread",
        "interrupted",
    ]


def test_wrong_arguments_of_threads_are_refused() -> None:
    patched("""
        import _thread, sys
        for arguments in ((1, ()), (print, []), (print, (), [])):
            try: _thread.start_new_thread(*arguments)
            except TypeError: continue
            raise AssertionError(arguments)
        if sys.version_info >= (3, 13):
            for call in (lambda: _thread.start_joinable_thread(1),
                         lambda: _thread.start_joinable_thread(print, handle=1)):
                try: call()
                except TypeError: continue
                raise AssertionError
            handle = _thread.start_joinable_thread(int)
            try: _thread.start_joinable_thread(int, handle=handle)
            except RuntimeError: pass
            handle.join(); handle.join(0); assert handle.is_done()
            for call in (_thread._ThreadHandle().join, _thread._ThreadHandle()._set_done):
                try: call()
                except RuntimeError: continue
                raise AssertionError
        try: _thread.exit()
        except SystemExit: pass
        assert _thread.stack_size() == 0
    """)


REAL = """
    import asyncio, threading, time, concurrent.futures, subprocess
    def work():
        time.sleep(0.001)
        return threading.current_thread().name, threading.get_native_id() != threading.main_thread().native_id
    async def main():
        loop = asyncio.get_running_loop()
        print(await asyncio.to_thread(work))
        print((await loop.run_in_executor(None, work))[1])
        thread = threading.Thread(target=work); thread.start()
        assert thread.is_alive()
        server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        print(await reader.read()); writer.close(); server.close()
        child = await asyncio.create_subprocess_exec("echo", "hello", stdout=subprocess.PIPE)
        print((await child.communicate())[0])
        await asyncio.sleep(0.01)
"""


@pytest.mark.parametrize("run", ["asyncio.run", "oneloop.run"])
def test_asyncio_has_real_threads_and_sockets(run: str) -> None:
    out = patched(f"{REAL}\n    import oneloop\n    {run}(main())\n")
    assert out.splitlines() == ["('asyncio_0', True)", "True", "b''", "b'hello\\n'"]


def test_thread_pools_of_the_program_are_green() -> None:
    out = patched("""
        import threading, time
        from concurrent.futures import ThreadPoolExecutor, as_completed
        def work(n): time.sleep(0.001 * n); return n, threading.get_native_id() == threading.main_thread().native_id
        with ThreadPoolExecutor(3) as pool:
            print(list(pool.map(work, (3, 2, 1))))
            print([f.result()[0] for f in as_completed([pool.submit(work, n) for n in (9, 1)])])
        import asyncio, oneloop
        async def main():
            # It counts as an executor of asyncio's too.
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
            return await asyncio.to_thread(work, 1)
        print(oneloop.run(main()))
    """)
    assert out.splitlines() == ["[(3, True), (2, True), (1, True)]", "[1, 9]", "(1, True)"]


def test_a_coroutine_sets_what_threads_wait_for() -> None:
    """A thread that starts to wait for an event or a condition must not park while it holds the internal lock."""
    patched("""
        import asyncio, threading
        for make in (threading.Event, lambda: threading.Condition(threading.Lock())):
            for ticks in range(3):
                one = make()

                async def main():
                    for _ in range(ticks):
                        await asyncio.sleep(0)
                    if isinstance(one, threading.Event):
                        one.set()
                    else:
                        waited = False
                        while not waited:
                            with one:
                                waited = bool(one._waiters)
                                one.notify()
                            await asyncio.sleep(0)

                thread = threading.Thread(target=lambda: asyncio.run(main()))
                thread.start()
                if isinstance(one, threading.Event):
                    one.wait()
                else:
                    with one:
                        one.wait()
                thread.join()
    """)


def test_who_takes_many_locks_does_not_park_while_others_go_on_anyway() -> None:
    """Otherwise a coroutine would meet a lock that it cannot wait for. A polling thread does park."""
    patched("""
        import threading, time

        outer, inner, seen = threading.Lock(), threading.Lock(), []

        def busy():
            for _ in range(20):
                for _ in range(200):
                    with outer, inner:
                        pass
                time.sleep(0)

        def look():
            while thread.is_alive():
                seen.append(outer.locked())
                time.sleep(0)

        thread = threading.Thread(target=busy)
        looking = threading.Thread(target=look)
        thread.start()
        looking.start()
        thread.join()
        looking.join()
        assert seen and not any(seen), seen

        told = []

        def poll():
            while True:
                with inner:
                    if told:
                        return

        polling = threading.Thread(target=poll)
        polling.start()
        time.sleep(0)
        told.append(1)
        polling.join()

        told.clear()
        telling = threading.Thread(target=told.append, args=(1,))
        telling.start()
        poll()
        telling.join()
    """)


def test_thread_pools_use_idle_threads_again() -> None:
    """A thread without further work reports that it is idle before other threads run."""
    patched("""
        import queue
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor() as executor:
            for number in range(20):
                assert executor.submit(abs, -number).result() == number
            assert len(executor._threads) == 1
            # A thread that polls again and again lets others run too.
            answers = queue.SimpleQueue()
            executor.submit(answers.put, "answer")
            while True:
                try:
                    assert answers.get_nowait() == "answer"
                    break
                except queue.Empty:
                    pass
    """)


def test_thread_pools_end_in_coroutines() -> None:
    """As in a program that is not patched, their end waits for what they call."""
    patched("""
        import asyncio, threading
        from concurrent.futures import ThreadPoolExecutor

        async def main():
            loop, together = asyncio.get_running_loop(), threading.Barrier(3)
            with ThreadPoolExecutor(3) as executor:
                calls = [loop.run_in_executor(executor, together.wait) for _ in range(3)]
                assert sorted(await asyncio.gather(*calls)) == [0, 1, 2]
            try:
                executor.submit(print)
            except RuntimeError as error:
                assert "after shutdown" in str(error)
            else:
                raise AssertionError
            while threading.active_count() > 1:
                await asyncio.sleep(0.001)

            begun, go_on = threading.Event(), threading.Event()
            executor = ThreadPoolExecutor(1)
            busy = loop.run_in_executor(executor, lambda: (begun.set(), go_on.wait()))
            waiting = executor.submit(print)
            while not begun.is_set():
                await asyncio.sleep(0.001)
            timer = threading.Timer(0.01, go_on.set)
            timer.start()
            executor.shutdown(cancel_futures=True)
            assert waiting.cancelled() and go_on.is_set() and not busy.done()
            await busy
            timer.join()

        asyncio.run(main())
        executor = ThreadPoolExecutor()
        ended = []
        executor.submit(lambda: (threading.Event().wait(0.01), ended.append(1)))
        executor.shutdown()
        assert ended == [1]
    """)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_works(method: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        f"""{PATCHED}
import multiprocessing, threading, time
from concurrent.futures import ProcessPoolExecutor
def child(queue):
    done = []
    threads = [threading.Thread(target=lambda: (time.sleep(0.001), done.append(1))) for _ in range(3)]
    for t in threads: t.start()
    for t in threads: t.join()
    queue.put(len(done))
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    print(queue.get(), process.join(), process.exitcode)
    with context.Manager() as manager:
        shared, event, lock = manager.Queue(), manager.Event(), manager.Lock()
        with lock:
            shared.put(1)
            event.set()
        print(shared.get(), event.wait(), manager.dict(a=1)["a"])
    with context.Pool(2) as pool:
        print(pool.map(abs, [-1, -2]))
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        print(pool.submit(abs, -3).result())
"""
    )
    done = subprocess.run(
        [sys.executable, str(script)], cwd=programs.ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["3 None 0", "1 True 1", "[1, 2]", "3"]


@pytest.mark.parametrize("make", ["None", "lambda: asyncio.SelectorEventLoop(selectors.DefaultSelector())"])
def test_the_hooks_in_force_are_those_of_the_loop_that_runs(make: str) -> None:
    """A busy loop lets others run too. They used to get its hooks for asynchronous generators."""
    out = patched(
        f"""
        import asyncio, selectors, socket, sys, threading
        wrong = 0

        async def main():
            global wrong
            loop = asyncio.get_running_loop()
            one, two = socket.socketpair()
            for each in (one, two): each.setblocking(False)
            for _ in range(50):
                await loop.sock_sendall(one, b"x")
                await loop.sock_recv(two, 1)
                wrong += sys.get_asyncgen_hooks().firstiter.__self__ is not loop
            for each in (one, two): each.close()

        def run():
            with asyncio.Runner(loop_factory={make}) as runner: runner.run(main())

        threads = [threading.Thread(target=run) for _ in range(10)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(wrong)
    """
    )
    assert out == "0\n"


def test_an_interrupt_reaches_the_main_thread_where_it_waits() -> None:
    """It came later, elsewhere: the main thread was about to continue for another reason."""
    out = patched(
        """
        import _thread, threading, time
        ran = []
        def interrupt():
            try: _thread.interrupt_main()
            finally: ran.append("ended")
        for wait in (lambda thread: None, lambda thread: thread.join(), lambda thread: time.sleep(30)):
            thread = threading.Thread(target=interrupt)
            try:
                thread.start()
                wait(thread)
            except KeyboardInterrupt:
                ran.append("interrupted")
            thread.join()
        for _ in range(100): time.sleep(0)
        print(ran)
    """
    )
    assert out == f"{['ended', 'interrupted'] * 3}\n"


def test_a_loop_that_only_makes_signals_lets_others_run() -> None:
    out = patched(
        """
        import signal, threading
        got, ending = [], []
        def send():
            while not ending: signal.raise_signal(signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
        thread = threading.Thread(target=send)
        thread.start()
        while len(got) < 1000: signal.signal(signal.SIGUSR1, signal.getsignal(signal.SIGUSR1))
        ending.append(1)
        thread.join()
        print("ended")
    """
    )
    assert out == "ended\n"


def test_a_queue_of_a_module_that_is_loaded_again_lets_others_run() -> None:
    out = patched(
        """
        import sys, threading
        for name in ("queue", "_queue"): sys.modules.pop(name)
        import queue, _queue
        assert queue.SimpleQueue is _queue.SimpleQueue
        made = queue.SimpleQueue()
        thread = threading.Thread(target=made.put, args=(1,))
        try: made.get(timeout=0.001)
        except queue.Empty: print("empty")
        thread.start()
        print(made.get())
    """
    )
    assert out == "empty\n1\n"


def test_a_loop_with_a_selector_of_its_own_lets_others_run() -> None:
    out = patched(
        """
        import asyncio, selectors, threading
        from unittest import mock
        loop = asyncio.BaseEventLoop()
        loop._selector, loop._process_events, loop._write_to_self = mock.Mock(), mock.Mock(), mock.Mock()
        loop._selector.select.return_value = ()
        future = loop.create_future()
        thread = threading.Thread(target=loop.call_soon_threadsafe, args=(future.set_result, 3))
        loop.call_soon(thread.start)
        print(loop.run_until_complete(future))
        loop.close()
    """
    )
    assert out == "3\n"


def test_a_killed_waiter_passes_its_notification_on() -> None:
    """What was put is for the one that still waits; as it is for one of several threads."""
    out = patched("""
        import queue, threading
        from oneloop import green

        def killed(wait, wake):
            begun = []
            def waiting(name):
                begun.append(name)
                wait()
                return name
            first, second = green.spawn(waiting, 1), green.spawn(waiting, 2)
            while len(begun) < 2:
                green.sleep(0)
            green.sleep(0)
            first.kill(block=False)
            wake()
            return second.get(timeout=30)

        items = queue.Queue()
        print(killed(items.get, lambda: items.put(1)), items.qsize())
        semaphore = threading.Semaphore(0)
        print(killed(semaphore.acquire, semaphore.release))
        condition = threading.Condition()
        def wait():
            with condition:
                condition.wait()
        def wake():
            with condition:
                condition.notify()
        print(killed(wait, wake))
    """)
    assert out.splitlines() == ["2 0", "2", "2"]


@pytest.mark.parametrize("waiter", ["a green thread", "an OS thread"])
def test_in_a_forked_child_nobody_waits_for_a_lock_any_more(waiter: str) -> None:
    """It is free when the child has released it: it is not given to a thread of the parent's."""
    out = patched(
        """
        import os, threading, time
        from oneloop.green.lock import Semaphore

        for make in (threading.Lock, threading.RLock, Semaphore):
            lock = make()
            lock.acquire()
            is_over = threading.Event()

            def wait():
                began.append(True)
                with lock:
                    pass
                is_over.set()

            began = []
            start(wait, ())
            while not began:
                time.sleep(0)
            time.sleep(0.01)
            pid = os.fork()
            if not pid:
                lock.release()
                os._exit(0 if lock.acquire(blocking=False) else 1)
            print(make.__name__, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            lock.release()
            is_over.wait()
        """,
        before="""
        import _thread
        start = _thread.start_new_thread
        """
        if waiter == "an OS thread"
        else "def start(*call): _thread.start_new_thread(*call)\nimport _thread\n",
        options=("-W", "ignore::DeprecationWarning"),
    )
    assert out.splitlines() == ["LockType 0", "RLock 0", "Semaphore 0"]


def test_a_waiter_that_is_killed_when_all_were_notified_wakes_nobody_else() -> None:
    out = patched("""
        import threading
        from oneloop import green
        from oneloop.green.monkey.realm import real

        for threads in (threading, real("threading")):
            condition = threads.Condition()

            def wait():
                with condition:
                    condition.wait()

            def notify():
                with condition:
                    condition.notify_all()
                    return condition.wait(0.01)

            first = green.spawn(wait)
            green.sleep(0)
            # It notifies before the other one is killed, and waits when that ends.
            late = green.spawn(notify)
            first.kill(block=False)
            print(late.get(), type(first.get()).__name__)
    """)
    assert out == "False GreenletExit\n" * 2
