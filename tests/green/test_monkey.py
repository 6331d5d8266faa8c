"""Monkey patching: what is replaced, what stays, what is mended. Each program has a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests import programs

PATCHED = "from oneloop.green import monkey\nmonkey.patch_all()\n"


def patched(body: str, before: str = "", options: tuple[str, ...] = ()) -> str:
    """What a patched program prints, which must succeed without a word on stderr."""
    source = (
        "import faulthandler\nfaulthandler.dump_traceback_later(30, exit=True)\n"
        + textwrap.dedent(before)
        + PATCHED
        + textwrap.dedent(body)
    )
    done = subprocess.run(
        [sys.executable, *options, "-c", source],
        cwd=programs.ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.stderr == "", done.stderr
    return done.stdout


def test_what_is_patched_is_known() -> None:
    out = patched("""
        import time, threading, _thread, queue, socket, select
        print(monkey.is_anything_patched(), monkey.is_module_patched("time"), monkey.is_module_patched("json"))
        print(monkey.is_object_patched("time", "sleep"), monkey.is_object_patched("time", "time"))
        print(monkey.get_original("time", "sleep") is not time.sleep, monkey.get_original("time", "time") is time.time)
        print([f.__name__ for f in monkey.get_original("_thread", ["start_new_thread", "error"])])
        print(issubclass(socket.socket, monkey.get_original("socket", "socket")))
        print(hasattr(select, "epoll"), monkey.patch_all())
    """)
    assert out.splitlines() == [
        "True True False",
        "True False",
        "True True",
        "['start_new_thread', 'RuntimeError']",
        "True",
        "True False",
    ]


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
        threading.Thread(target=interrupt).start()
        try: time.sleep(10)
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
    """Who begins to wait for an event or a condition does not park while it holds the lock of that."""
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
    """A coroutine could not wait for the lock that it holds then. Who polls does park."""
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
    """A thread that finds no more work tells that it is idle before others go on."""
    patched("""
        import queue
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor() as executor:
            for number in range(20):
                assert executor.submit(abs, -number).result() == number
            assert len(executor._threads) == 1
            # Who asks again and again lets others go on nevertheless.
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
    """Where nothing is left to be done; else the wait is refused, as any other."""
    patched("""
        import asyncio, threading
        from concurrent.futures import ThreadPoolExecutor
        from oneloop.green.exceptions import BlockingSwitchOutError

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
            try:
                executor.shutdown(cancel_futures=True)
            except BlockingSwitchOutError:
                assert waiting.cancelled()
            else:
                raise AssertionError
            go_on.set()
            await busy
            executor.shutdown()

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


def test_a_forked_child_has_green_threads_of_its_own() -> None:
    out = patched("""
        import os, threading, time, warnings
        warnings.simplefilter("ignore")
        parents = threading.Thread(target=time.sleep, args=(0.05,)); parents.start()
        def fork():
            pid = os.fork()
            if not pid:
                try:
                    assert threading.active_count() == 1, threading.enumerate()
                    assert not parents.is_alive()
                    parents.join()
                    done = threading.Event()
                    thread = threading.Thread(target=lambda: (time.sleep(0.001), done.set())); thread.start()
                    thread.join(); assert done.is_set()
                    os._exit(7)
                finally: os._exit(1)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(fork())
        found = []
        thread = threading.Thread(target=lambda: found.append(fork())); thread.start(); thread.join()
        print(found)
    """)
    assert out.splitlines() == ["7", "[7]"]


def test_functions_of_socket_find_what_a_test_puts_there() -> None:
    out = patched("""
        import socket
        from unittest import mock
        with mock.patch("socket.getaddrinfo", side_effect=ZeroDivisionError) as asked:
            try: socket.create_connection(("oneloop.invalid", 1))
            except ZeroDivisionError: print(asked.call_count)
        with mock.patch("socket.socket") as made:
            print(socket.create_connection(("127.0.0.1", 1)) is made.return_value)
    """)
    assert out.split() == ["1", "True"]


def test_asyncio_finds_what_a_test_puts_into_subprocess_and_ssl() -> None:
    out = patched("""
        import asyncio, ssl, subprocess, sys
        from unittest import mock
        async def main():
            with mock.patch("subprocess.Popen", side_effect=ZeroDivisionError) as made:
                try: await asyncio.create_subprocess_exec(sys.executable)
                except ZeroDivisionError: print(made.call_count)
            with mock.patch("ssl.create_default_context", side_effect=ZeroDivisionError) as made:
                try: await asyncio.open_connection(*server.getsockname(), ssl=True)
                except ZeroDivisionError: print(made.call_count)
            child = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(3)", stdout=subprocess.PIPE)
            print((await child.communicate())[0].decode())
        import socket
        with socket.create_server(("127.0.0.1", 0)) as server:
            asyncio.run(main())
    """)
    assert out.split() == ["1", "1", "3"]


def test_names_that_modules_hold_already_are_mended(tmp_path: Path) -> None:
    (tmp_path / "early.py").write_text(
        "from ssl import SSLContext\nfrom time import sleep\nfrom threading import Lock, Thread\n"
        "from socket import create_connection, socket\nlock = Lock()\n"
        "class Mine(SSLContext):\n    pass\nclass Own(socket):\n    pass\n"
    )
    out = patched(
        """
        import ssl, socket, threading, time
        print(early.SSLContext is ssl.SSLContext, early.sleep is time.sleep, early.Lock is threading.Lock)
        print(early.socket is socket.socket, early.create_connection is socket.create_connection)
        print(type(early.lock) is type(threading.Lock()))
        # It held the class that was replaced; no recursion (gevent issue 1016).
        context = early.Mine(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_TLSv1
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        print(context.minimum_version.name)
        for one in caught: print(one.message)
        """,
        f"""
        import sys, warnings
        sys.path.insert(0, {str(tmp_path)!r})
        import early
        recording = warnings.catch_warnings(record=True)
        caught = recording.__enter__(); warnings.simplefilter("always")
        """,
    )
    lines = out.splitlines()
    assert lines[:4] == ["True True True", "True True", "True", "TLSv1_2"]
    assert lines[4].startswith("early.Mine: derived from ssl.SSLContext before it was patched")
    assert "Import early after patch_all()" in lines[4]


def test_locks_that_exist_already_are_green_afterwards() -> None:
    out = patched(
        """
        with handler.lock: pass
        import time
        held = threading.Thread(target=lambda: (handler.acquire(), time.sleep(0.01), handler.release()))
        held.start()
        # The interpreter's own reentrant lock would let us in.
        print(handler.lock.acquire(False), handler.lock.acquire(), type(handler.lock) is type(threading.RLock()))
        handler.release()
        threading.Thread(target=items.put, args=(1,)).start(); print(items.get())
        threading.Timer(0.001, event.set).start(); print(event.wait(10))
        condition.acquire()
        threading.Thread(target=lambda: (condition.acquire(), condition.notify(), condition.release())).start()
        print(condition.wait(10)); condition.release()
        """,
        """
        import logging, queue, threading
        handler = logging.StreamHandler()
        items, event, condition = queue.Queue(), threading.Event(), threading.Condition()
        """,
    )
    assert out.splitlines() == ["False True True", "1", "True", "True"]


def test_threads_that_run_already_are_told() -> None:
    out = patched(
        """
        print([str(one.message).partition(".")[0] for one in caught])
        event.set(); thread.join(); print(thread.is_alive())
        """,
        """
        import _thread, threading, warnings
        event = threading.Event()
        thread = threading.Thread(target=event.wait, name="early", args=(20,)); thread.start()
        recording = warnings.catch_warnings(record=True)
        caught = recording.__enter__(); warnings.simplefilter("always")
        """,
    )
    assert out.splitlines() == ["[\"threads run already: 'early'\"]", "False"]


def test_subscribers_are_told_and_may_refuse() -> None:
    out = patched(
        """
        import time
        print(monkey.is_module_patched("time"), monkey.is_module_patched("_thread"))
        print(seen[0], seen[-1], "GeventWillPatchModuleEvent" in seen, "GeventDidPatchModuleEvent" in seen)
        """,
        """
        from oneloop.green import events
        seen = []
        def subscriber(event):
            seen.append(type(event).__name__)
            if seen[-1] == "GeventWillPatchModuleEvent" and event.module_name == "time":
                raise events.DoNotPatch
        events.subscribers.append(subscriber)
        """,
    )
    assert out.splitlines() == ["False True", "GeventWillPatchAllEvent GeventDidPatchAllEvent True True"]


def test_a_module_of_the_programs_own_can_be_patched() -> None:
    out = patched("""
        import types
        target, source = types.ModuleType("target"), types.ModuleType("source")
        target.name, source.name, source.other = 1, 2, 3
        try: monkey.patch_module(target, source)
        except AttributeError as error: print(error)
        source.__implements__ = ["name"]
        import sys; sys.modules["target"] = target
        print(monkey.patch_module(target, source), target.name, monkey.get_original("target", "name"))
    """)
    assert out.splitlines() == ["source has no __implements__ that says what to patch", "True 2 1"]


COMMANDS = [["-m", "oneloop", "run", "--patch"], ["-m", "oneloop.green.monkey"]]


@pytest.mark.parametrize("command", COMMANDS, ids=["oneloop", "monkey"])
def test_a_program_is_run_patched(command: list[str], tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "import sys, threading, time\nfrom oneloop.green import monkey\n"
        "print(__name__, sys.argv[1:], monkey.is_module_patched('threading'))\n"
        "t = threading.Thread(target=time.sleep, args=(0.001,)); t.start(); t.join()\n"
    )
    for arguments in ([str(script), "x"], ["-m", "program", "x"]):
        done = subprocess.run(
            [sys.executable, *command, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(programs.ROOT / "python")},
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == "__main__ ['x'] True\n"


@pytest.mark.parametrize("arguments", [[], ["--no-such"], ["--help"]])
def test_the_command_says_how_it_is_used(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "oneloop.green.monkey", *arguments],
        cwd=programs.ROOT,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert done.returncode == (0 if arguments == ["--help"] else 2)
    assert "patch a part of the standard library" in done.stdout + done.stderr
