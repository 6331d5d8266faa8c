"""`oneloop run` does to a program what `python` does, save for its loops: compared with `python`."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from textwrap import dedent

import pytest

from tests.cli.command import NO_LOOP, ONELOOP_RUN, PYTHON, run

SHOW = """
import json, sys
main = sys.modules["__main__"]
print(json.dumps({
    "argv": sys.argv,
    "path": sys.path[0],
    "name": __name__,
    "file": main.__file__,
    "package": main.__package__,
    "loader": type(main.__loader__).__name__,
    "spec": getattr(main.__spec__, "name", None),
    "is main": globals() is vars(main),
    "cached": getattr(main, "__cached__", None) is None,
}))
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with programs in each form that python takes."""
    (tmp_path / "show.py").write_text(SHOW)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "__main__.py").write_text(SHOW)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__main__.py").write_text(SHOW)
    with zipfile.ZipFile(tmp_path / "program.zip", "w") as archive:
        archive.writestr("__main__.py", SHOW)
    (tmp_path / "link.py").symlink_to(tmp_path / "folder" / "__main__.py")
    return tmp_path


@pytest.mark.parametrize(
    "program",
    [
        ["show.py"],
        ["show.py", "--debug", "-m", "x"],
        ["folder/__main__.py", "a b"],
        ["link.py"],
        ["-m", "show", "--stats"],
        ["-mshow", "x"],
        ["-m", "package", "-x"],
        ["-m", "folder.__main__"],
        ["folder", "--debug"],
        ["program.zip", "1"],
    ],
    ids=" ".join,
)
def test_program_sees_what_python_shows_it(here: Path, program: list[str]) -> None:
    expected = run(*PYTHON, *program, cwd=here)
    assert expected.returncode == 0, expected.stderr
    shown = run(*ONELOOP_RUN, *program, cwd=here)
    assert (shown.stdout, shown.stderr) == (expected.stdout, expected.stderr + NO_LOOP)


OWN_MODULES = ["copy", "dataclasses", "fnmatch", "glob", "hashlib", "pathlib", "pkgutil", "ntpath", "runpy"]
"""Modules of the standard library that oneloop needs. Some are loaded before any program."""

USES_OWN_MODULES = """
import asyncio, os, subprocess
asyncio.run(asyncio.sleep(0))
for file in sorted(os.listdir("modules")):
    print(file, hasattr(__import__(file.removesuffix(".py")), "IS_OURS"))
"""


@pytest.mark.parametrize("program", [["show.py"], ["-m", "show"], ["-c", USES_OWN_MODULES], ["parent.py"]], ids=len)
def test_modules_of_the_program_hide_those_of_the_standard_library(tmp_path: Path, program: list[str]) -> None:
    # A program that hides a module that asyncio needs does not run under `python` either.
    needed = run(*PYTHON, "-c", "import asyncio, subprocess, sys; print(*sys.modules)", cwd=tmp_path).stdout.split()
    (tmp_path / "modules").mkdir()
    for name in {*OWN_MODULES} - {*needed} | {"ntpath", "runpy"}:
        (tmp_path / "modules" / f"{name}.py").touch()
        (tmp_path / f"{name}.py").write_text(f"IS_OURS = True\nprint('loaded', {name!r})")
    (tmp_path / "show.py").write_text(USES_OWN_MODULES)
    (tmp_path / "parent.py").write_text("import subprocess, sys\nsubprocess.run([sys.executable, 'show.py'])")
    (tmp_path / "tempfile").mkdir()  # not a package
    usual = run(*PYTHON, *program, cwd=tmp_path)
    # Not `python -m oneloop`: that imports the command itself from the current folder.
    ours = run(str(Path(sys.executable).with_name("oneloop")), "run", *program, cwd=tmp_path)
    assert "glob.py True" in usual.stdout
    assert (ours.returncode, ours.stdout, ours.stderr) == (0, usual.stdout, "")


def test_a_program_in_the_folder_of_the_standard_library(tmp_path: Path) -> None:
    folder = Path(subprocess.__file__).parent
    program = "import copy, dataclasses, types, asyncio; print(types.SimpleNamespace, asyncio.run(asyncio.sleep(0, 1)))"
    program += "; import enum, re; assert type(re.I) is re.RegexFlag and isinstance(re.I, enum.IntFlag)"
    ended = run(*ONELOOP_RUN, "-c", program, cwd=folder)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("word", ["-h", "--help", "--version", "help"])
def test_the_help_of_a_program_is_not_followed_by_a_warning(tmp_path: Path, word: str) -> None:
    (tmp_path / "program.py").write_text("print('usage')")
    ended = run(*ONELOOP_RUN, "program.py", word, cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "usage\n", NO_LOOP if word == "help" else "")


def test_safe_path_keeps_the_folder_out_of_sys_path(here: Path) -> None:
    (here / "first.py").write_text("import sys; print(sys.path)")
    expected = run(*PYTHON, "-P", "first.py", cwd=here)
    shown = run(sys.executable, "-P", "-m", "oneloop", "run", "first.py", cwd=here)
    assert (shown.stdout, shown.stderr) == (expected.stdout, NO_LOOP)


ENDS = {
    "quiet": "pass",
    "status": "raise SystemExit(3)",
    "message": "raise SystemExit('that is it')",
    "none": "import sys; sys.exit()",
    "error": "def f():\n    return 1 / 0\nf()",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('x') from e",
    "group": "raise ExceptionGroup('two', [ValueError(1), TypeError(2)])",
    "syntax": "print(1",
    "interrupt": "raise KeyboardInterrupt",
    "own hook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0])\n1 / 0",
    "in a task": "import asyncio\nasync def f():\n    raise OSError(5, 'x')\nasyncio.run(f())",
    "interrupted loop": (
        "import asyncio, os, signal\n"
        "async def main():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())"
    ),
    "thread after the end": (
        "import threading, time, sys\n"
        "def late():\n    time.sleep(0.05)\n    print(sys.modules['__main__'].x)\n"
        "threading.Thread(target=late).start()\n"
        "x = 'still here'"
    ),
}

# Frames of asyncio and oneloop differ; the rest of a traceback may not.
OF_THE_LOOP = ("in a task", "interrupted loop")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("form", ["script", "module"])
def test_program_ends_as_under_python(tmp_path: Path, end: str, form: str) -> None:
    (tmp_path / "ends.py").write_text(ENDS[end])
    program = ["ends.py"] if form == "script" else ["-m", "ends"]
    expected = run(*PYTHON, *program, cwd=tmp_path)
    shown = run(*ONELOOP_RUN, *program, cwd=tmp_path)
    assert shown.returncode == expected.returncode
    assert shown.stdout == expected.stdout
    if end in OF_THE_LOOP:
        assert shown.stderr.splitlines()[:1] == expected.stderr.splitlines()[:1]
        assert shown.stderr.splitlines()[-1:] == expected.stderr.splitlines()[-1:]
        assert "oneloop/cli" not in shown.stderr
    else:
        assert shown.stderr == expected.stderr + (NO_LOOP if shown.returncode == 0 else "")


def test_interrupted_program_dies_by_the_signal(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(ENDS["interrupt"])
    assert run(*ONELOOP_RUN, "ends.py", cwd=tmp_path).returncode == -signal.SIGINT
    # Which a shell reports as 130.
    line = f"{shlex.join([*ONELOOP_RUN, 'ends.py'])}; echo status $?"
    done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "status 130\n"


@pytest.mark.parametrize("program", [["nowhere.py"], ["-m", "nowhere"]])
def test_program_that_is_not_there(tmp_path: Path, program: list[str]) -> None:
    expected = run(*PYTHON, *program, cwd=tmp_path)
    shown = run(*ONELOOP_RUN, *program, cwd=tmp_path)
    assert shown.returncode == expected.returncode
    reason, advice = shown.stderr.splitlines()
    assert reason.split(": ", 1)[1] == expected.stderr.strip().split(": ", 1)[1]
    assert advice.endswith(("Check the path of the script.", "Is nowhere installed there?"))


def test_compiled_program_runs(tmp_path: Path) -> None:
    import py_compile

    (tmp_path / "hello.py").write_text("print('hello', __file__.rpartition('/')[2])")
    py_compile.compile(str(tmp_path / "hello.py"), cfile=str(tmp_path / "hello.pyc"))
    assert run(*ONELOOP_RUN, "hello.pyc", cwd=tmp_path).stdout == "hello hello.pyc\n"


LOOPS = """
import asyncio, sys, warnings
warnings.simplefilter("ignore")

async def which():
    return type(asyncio.get_running_loop()).__module__

def made(factory):
    loop = factory()
    try:
        return type(loop).__module__
    finally:
        loop.close()

if sys.version_info < (3, 14):
    loop = asyncio.get_event_loop_policy().get_event_loop()
    print("get_event_loop", type(loop).__module__)
    loop.close()
print("run", asyncio.run(which()))
with asyncio.Runner() as runner:
    print("Runner", runner.run(which()))
with asyncio.Runner(loop_factory=None) as runner:
    print("Runner(None)", runner.run(which()))
print("new_event_loop", made(asyncio.new_event_loop))
print("events.new_event_loop", made(asyncio.events.new_event_loop))
print("policy", made(asyncio.get_event_loop_policy().new_event_loop))
asyncio.set_event_loop_policy(asyncio.DefaultEventLoopPolicy())
print("default policy", asyncio.run(which()))
asyncio.set_event_loop_policy(None)
print("no policy", asyncio.run(which()))
if sys.version_info >= (3, 13):
    with asyncio.Runner(loop_factory=asyncio.EventLoop) as runner:
        print("EventLoop", runner.run(which()))
        assert isinstance(runner.get_loop(), asyncio.EventLoop)
if sys.version_info >= (3, 12):
    print("run(EventLoop)", asyncio.run(which(), loop_factory=asyncio.new_event_loop))
"""


def test_every_unnamed_loop_is_ours(tmp_path: Path) -> None:
    (tmp_path / "loops.py").write_text(LOOPS)
    done = run(*ONELOOP_RUN, "loops.py", cwd=tmp_path)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) >= 9
    assert [line for line in lines if not line.endswith(" oneloop.loop")] == []


def test_named_loop_is_ours_unless_it_is_kept(tmp_path: Path) -> None:
    program = """
        import asyncio
        for factory in asyncio.SelectorEventLoop, asyncio.unix_events._UnixSelectorEventLoop:
            with asyncio.Runner(loop_factory=factory) as runner:
                print(type(runner.get_loop()).__module__)
    """
    (tmp_path / "named.py").write_text(dedent(program))
    done = run(*ONELOOP_RUN, "named.py", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("oneloop.loop\n" * 2, "")
    kept = run(*ONELOOP_RUN, "--keep-named", "named.py", cwd=tmp_path)
    assert kept.stdout == "asyncio.unix_events\n" * 2


def test_threads_and_forked_children_get_our_loops(tmp_path: Path) -> None:
    program = """
        import asyncio, os, threading

        async def which():
            await asyncio.sleep(0)
            print(type(asyncio.get_running_loop()).__module__, flush=True)

        thread = threading.Thread(target=lambda: asyncio.run(which()))
        thread.start()
        thread.join()
        pid = os.fork()
        if not pid:
            asyncio.run(which())
            os._exit(0)
        os.waitpid(pid, 0)
    """
    (tmp_path / "threads.py").write_text(dedent(program))
    done = run(*ONELOOP_RUN, "threads.py", cwd=tmp_path)
    assert done.stdout == "oneloop.loop\n" * 2, done.stderr


def test_spawned_process_of_multiprocessing_finds_its_main_module(tmp_path: Path) -> None:
    program = """
        import multiprocessing

        def answer():
            return 42

        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.apply(answer))
    """
    (tmp_path / "spawn.py").write_text(dedent(program))
    done = run(*ONELOOP_RUN, "spawn.py", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("42\n", "")


def test_debug_makes_loops_in_debug_mode(tmp_path: Path) -> None:
    program = """
        import asyncio

        async def main():
            print(asyncio.get_running_loop().get_debug())

        asyncio.run(main())
        asyncio.run(main(), debug=False)
    """
    (tmp_path / "debug.py").write_text(dedent(program))
    done = run(*ONELOOP_RUN, "--debug", "debug.py", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("True\nFalse\n", "")
    without = run(*ONELOOP_RUN, "debug.py", cwd=tmp_path, env={"PYTHONASYNCIODEBUG": ""})
    assert without.stdout == "False\nFalse\n"


def test_replaced_package_is_the_facade(tmp_path: Path) -> None:
    program = """
        import asyncio, uvloop, uvloop.loop
        from uvloop import EventLoopPolicy

        async def main():
            loop = asyncio.get_running_loop()
            print(isinstance(loop, uvloop.Loop), type(loop).__module__)

        uvloop.run(main())
        asyncio.run(main())
    """
    (tmp_path / "uses.py").write_text(dedent(program))
    done = run(*ONELOOP_RUN, "--replace", "uvloop", "uses.py", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("True oneloop.loop\n" * 2, "")


def test_gevent_is_replaced_with_all_its_modules(tmp_path: Path) -> None:
    program = """
        import gevent.event
        from gevent.pool import Pool
        print(Pool(2).map(abs, [-1, -2]), gevent.event.__name__, gevent.__name__)
    """
    (tmp_path / "uses.py").write_text(dedent(program))
    done = run(*ONELOOP_RUN, "--replace", "gevent", "uses.py", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("[1, 2] oneloop.green.event oneloop.compat.gevent\n", "")


def test_unknown_facade_is_refused_with_those_known(tmp_path: Path) -> None:
    done = run(*ONELOOP_RUN, "--replace", "trio", "x.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "trio" in done.stderr
    assert "uvloop" in done.stderr


def test_nothing_to_run_is_an_error(tmp_path: Path) -> None:
    done = run(*ONELOOP_RUN, cwd=tmp_path)
    assert done.returncode == 2
    assert "oneloop run script.py" in done.stderr


@pytest.mark.parametrize("command", [[], ["serve"], ["check"]])
def test_version(command: list[str], tmp_path: Path) -> None:
    import oneloop

    done = run(sys.executable, "-m", "oneloop", *command, "--version", cwd=tmp_path)
    assert done.stdout == f"oneloop {oneloop.__version__}\n"


def test_optimised_python_without_docstrings(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text("print('hello', __debug__)")
    done = run(sys.executable, "-OO", "-m", "oneloop", "run", "hello.py", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("hello False\n", NO_LOOP)


def test_program_from_a_pipe(tmp_path: Path) -> None:
    line = f"{shlex.join(ONELOOP_RUN)} <(echo 'print(42)')"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    # The shell becomes our process, and its other child ours.
    assert (done.stdout, done.stderr.replace(NO_LOOP, "")) == ("42\n", "")


def test_a_loaded_module_whose_parent_is_none(tmp_path: Path) -> None:
    # coverage's plug-ins are such: `$coverage.…`.
    program = tmp_path / "program.py"
    program.write_text("print('ran')\n")
    start = (
        "import runpy, sys\n"
        "sys.modules['$tool.inside'] = sys\n"
        f"sys.argv = ['oneloop', 'run', {str(program)!r}]\n"
        "runpy.run_module('oneloop', run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr


@pytest.mark.parametrize(
    "source",
    [b'a = 1\nb = 2\nx = "\xff"\n', b"a = 1\n\0\n", b"a = (1\n", b'print "x"\n', b"# coding: latin-1\nx = '\xe9'\n"],
)
def test_errors_of_syntax_are_those_of_python(tmp_path: Path, source: bytes) -> None:
    (tmp_path / "program.py").write_bytes(source)
    ours, theirs = (run(*command, "program.py", cwd=tmp_path) for command in (ONELOOP_RUN, PYTHON))
    assert ours.returncode == theirs.returncode
    # Of a line with a null byte python shows an empty one.
    assert ours.stderr.replace(NO_LOOP, "") == theirs.stderr.replace("\n    \n", "\n")


def test_package_without_a_program(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/__init__.py").touch()
    done = run(*ONELOOP_RUN, "-m", "parts", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith("Run one of its modules: oneloop run -m parts.MODULE\n")
