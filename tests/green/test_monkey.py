"""Monkey patching: what is replaced, and which earlier imports are updated. Each program runs in a new process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import programs
from tests.green.patched import patched


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


def test_a_forked_child_has_green_threads_of_its_own() -> None:
    out = patched("""
        import os, sys, threading, time, warnings
        from oneloop import green
        warnings.simplefilter("ignore")
        sys.unraisablehook = lambda what: os.write(1, b"failed in a hook of fork")
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
        print(green.spawn(fork).get())
    """)
    assert out.splitlines() == ["7", "[7]", "7"]


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
        "_sleep = native = sleep\n"
        "from socket import create_connection, socket\nlock = Lock()\n"
        "class Mine(SSLContext):\n    pass\nclass Own(socket):\n    pass\n"
    )
    out = patched(
        """
        import ssl, socket, threading, time
        print(early.SSLContext is ssl.SSLContext, early.sleep is time.sleep, early.Lock is threading.Lock)
        # Another name was chosen to keep the original.
        print(early._sleep is time.sleep, early.native is time.sleep)
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
    assert lines[:5] == ["True True True", "True False", "True True", "True", "TLSv1_2"]
    assert lines[5].startswith("early.Mine: derived from ssl.SSLContext before it was patched")
    assert "Import early after patch_all()" in lines[5]


def test_what_a_module_has_asked_for_stays_there(tmp_path: Path) -> None:
    (tmp_path / "early.py").write_text("from time import sleep\n")
    (tmp_path / "asker.py").write_text(
        "from oneloop.green import monkey\nsleep = monkey.get_original('time', 'sleep')\n"
    )
    out = patched(
        """
        print(sleep is asker.sleep is monkey.get_original("time", "sleep"))
        print(allocate_lock is monkey.get_original("_thread", "allocate_lock"))
        print(start_new_thread is monkey.get_original("_thread", "start_new_thread"))
        print(early.sleep is sys.modules["time"].sleep)
        print(socket is sys.modules["socket"].socket)
        """,
        f"""
        import sys
        from oneloop.green import monkey
        sys.path.insert(0, {str(tmp_path)!r})
        import asker, early
        from socket import socket
        sleep = monkey.get_original("time", "sleep")
        allocate_lock, start_new_thread = monkey.get_original("_thread", ["allocate_lock", "start_new_thread"])
        """,
    )
    assert out.split() == ["True"] * 5


def test_what_a_module_has_asked_for_by_another_name_stays_there() -> None:
    """The same objects are names of `_thread` and `_queue`, which are patched too."""
    out = patched(
        """
        print([globals()[name] is value for name, value in asked.items()])
        """,
        """
        from oneloop.green import monkey
        Lock, get_ident = monkey.get_original("threading", ["Lock", "get_ident"])
        SimpleQueue = monkey.get_original("queue", "SimpleQueue")
        asked = {name: globals()[name] for name in ("Lock", "get_ident", "SimpleQueue")}
        """,
    )
    assert out.strip() == "[True, True, True]"


def test_the_originals_of_all_names_that_were_replaced() -> None:
    """Also of those that are another module's: `threading.Lock` is `_thread`'s, `functools.RLock` is `threading`'s."""
    out = patched(
        """
        wrong = count = 0
        for module, names in before.items():
            for name, value in names.items():
                if callable(value) and vars(sys.modules[module]).get(name) is not value:
                    count += 1
                    is_right = monkey.get_original(module, name) is value and monkey.is_object_patched(module, name)
                    if not is_right:
                        wrong += 1; print(module, name)
        print(wrong, count > 50)
        """,
        """
        import importlib, sys
        from oneloop.green import monkey
        modules = (
            "threading _thread socket select selectors ssl os time signal subprocess queue logging functools"
            " concurrent.futures.thread concurrent.futures._base http.client urllib.request pty socketserver sched"
            " _threading_local tempfile asyncio.base_events asyncio.runners shutil weakref"
        ).split()
        before = {name: dict(vars(importlib.import_module(name))) for name in modules}
        """,
    )
    assert out == "0 True\n"


def test_a_name_that_stays_is_not_patched() -> None:
    out = patched(
        """
        print(vars(__import__("__main__"))["native_sleep"] is monkey.get_original("time", "sleep"))
        print(monkey.is_object_patched("__main__", "native_sleep"))
        """,
        """
        import time
        native_sleep = time.sleep
        """,
    )
    assert out.split() == ["True", "False"]


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
        # Equal, and nobody has imported it from there.
        name = 1
        print(monkey.patch_module(target, source), target.name, monkey.get_original("target", "name"))
        print(name)
        again = types.ModuleType("again")
        again.name, again.other = 4, 3
        target.other = 3
        print(monkey.patch_module(target, again, ["name", "other"]), target.name, monkey.get_original("target", "name"))
        print(monkey.is_object_patched("target", "name"), monkey.is_object_patched("target", "other"))
        # The replacement calls the original by the module's other name for it.
        target.__file__ = "target.py"
        target.function = target._function = lambda: 1
        again.function = lambda: target._function() + 1
        print(monkey.patch_module(target, again, ["function"]), target.function())
    """)
    assert out.splitlines() == [
        "source has no __implements__: pass the names in items",
        "True 2 1",
        "1",
        "True 4 1",
        "True False",
        "True 2",
    ]


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
        env = {"PYTHONPATH": str(programs.ROOT / "python")}
        done = programs.run_command(sys.executable, *command, *arguments, cwd=tmp_path, env=env, limit_s=40)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == "__main__ ['x'] True\n"


@pytest.mark.parametrize("arguments", [[], ["--no-such"], ["--help"]])
def test_the_command_says_how_it_is_used(arguments: list[str]) -> None:
    done = programs.run_command(sys.executable, "-m", "oneloop.green.monkey", *arguments, limit_s=40)
    assert done.returncode == (0 if arguments == ["--help"] else 2)
    assert "patch a part of the standard library" in done.stdout + done.stderr
