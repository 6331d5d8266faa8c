"""Green threads in patched programs. The sources are in `records/green.toml`."""

from __future__ import annotations

from tests.green.patched import patched


def test_a_thread_that_waits_for_the_end_of_the_program() -> None:
    """Functions of `threading._register_atexit` run before threads are waited for, as without patching."""
    assert patched(
        """
        import threading
        ended = threading.Event()
        threading._register_atexit(ended.set)
        threading.Thread(target=lambda: (ended.wait(), print("thread", flush=True))).start()
        print("program", flush=True)
        """
    ).splitlines() == ["program", "thread"]


def test_a_fork_while_another_green_thread_starts_work_for_an_executor() -> None:
    """`Executor.submit()` holds a lock that `os.fork()` takes, too."""
    told = patched(
        """
        import os, threading
        held, go = threading.Event(), threading.Event()

        def hold():
            with thread_module._global_shutdown_lock:
                held.set()
                go.wait()

        def fork():
            held.wait()
            threading.Timer(0, go.set).start()
            child = os.fork()
            if child == 0:
                os._exit(7)
            print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

        threads = [threading.Thread(target=each) for each in (hold, fork)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        """,
        before="import concurrent.futures.thread as thread_module\n",
    )
    assert told == "child 7\n"


def test_a_forked_child_does_not_run_its_parents_green_threads() -> None:
    """Also where a function of `os.register_at_fork` waits, and for those that waited for a time of their own."""
    told = patched(
        """
        import os, time, threading
        os.register_at_fork(after_in_child=lambda: time.sleep(0.002))
        parent, is_over, strangers = os.getpid(), [], os.pipe()

        def work(pause_s):
            while not is_over:
                if os.getpid() != parent:
                    os.write(strangers[1], b"x")
                time.sleep(pause_s)

        threads = [threading.Thread(target=work, args=(pause_s,)) for pause_s in (0, 0, 0.001, 0.001)]
        for each in threads:
            each.start()
        for _ in range(5):
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
            time.sleep(0.001)
        is_over.append(1)
        for each in threads:
            each.join()
        os.close(strangers[1])
        print(len(os.read(strangers[0], 100)))
        """
    )
    assert told == "0\n"
