"""Patched programs with OS threads beside their green ones (of executors, of libraries in C), and signal handlers."""

from __future__ import annotations

from tests.green.patched import patched


def test_threads_and_timers_that_a_real_thread_starts() -> None:
    output = patched(
        """
        import asyncio, threading, time

        beats, fired = [], threading.Event()

        def connect():
            time.sleep(0.001)  # makes a hub of this thread
            def beat():
                for number in range(10):
                    beats.append(threading.current_thread().name)
                    time.sleep(0.001)
            thread = threading.Thread(target=beat, name="beat", daemon=True)
            thread.start()
            threading.Timer(0.01, fired.set).start()
            threading.Thread(target=lambda: (time.sleep(0.1), print("at exit", flush=True))).start()
            return thread

        async def main():
            thread = await asyncio.to_thread(connect)
            while thread.is_alive() or not fired.is_set():
                await asyncio.sleep(0.001)
            thread.join()

        asyncio.run(main())
        print(beats == ["beat"] * 10, flush=True)
        """
    )
    assert output.splitlines() == ["True", "at exit"]


def test_an_executor_that_was_first_used_in_a_real_thread() -> None:
    output = patched(
        """
        import asyncio, concurrent.futures

        executor = concurrent.futures.ThreadPoolExecutor(2)

        async def main():
            first = await asyncio.to_thread(executor.submit, str, 1)
            await asyncio.get_running_loop().shutdown_default_executor()
            print(await asyncio.wrap_future(first))
            print(await asyncio.get_running_loop().run_in_executor(executor, str, 2))

        asyncio.run(main())
        print(executor.submit(str, 3).result())
        executor.shutdown()
        """
    )
    assert output.split() == ["1", "2", "3"]


def test_threads_that_cannot_be_started_leave_nothing() -> None:
    output = patched(
        """
        import threading
        from oneloop.green import thread as ours
        from oneloop.green.monkey import get_original

        def refuse(*_, **__):
            raise RuntimeError("can't start new thread")

        ours._stock_start_joinable_thread = ours._stock_start_new_thread = refuse
        told = []

        def body():
            thread = threading.Thread(target=print)
            try:
                thread.start()
            except RuntimeError as error:
                told.append((str(error), thread.is_alive(), thread in threading.enumerate()))

        ready = get_original("_thread", "allocate_lock")()
        ready.acquire()
        get_original("_thread", "start_new_thread")(lambda: (body(), ready.release()), ())
        ready.acquire()
        print(told)
        """
    )
    assert output.strip() == """[("can't start new thread", False, False)]"""


def test_a_signal_handler_can_end_a_wait() -> None:
    output = patched(
        """
        import os, signal, subprocess, sys, threading

        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        kill = f"import os, time; time.sleep(0.2); os.kill({os.getpid()}, 15)"
        # Not a child that the loop waits for: that would be something to wait for.
        if os.fork() == 0:
            os.execv(sys.executable, [sys.executable, "-c", kill])
        stop.wait()
        print("stopped")
        """
    )
    assert output.strip() == "stopped"


def test_a_thread_of_a_library_in_c_can_end_a_wait() -> None:
    output = patched(
        """
        import ctypes, threading

        stop = threading.Event()
        libc = ctypes.CDLL(None)
        function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)

        # The interpreter knows the thread only while this runs.
        start = function(lambda _: (libc.usleep(200000), stop.set()) and None)
        libc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, start, None)
        stop.wait()
        print("woken")
        """
    )
    assert output.strip() == "woken"
