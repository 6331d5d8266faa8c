"""The settings of `oneloop run` reach the Python processes that a program starts, and nothing else changes for them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests import programs
from tests.cli.command import ONELOOP_RUN, PYTHON, run

LOOP = """
import asyncio, sys

async def which():
    return type(asyncio.get_running_loop()).__module__

def show():
    print(asyncio.run(which()), flush=True)

def show_named():
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        print(runner.run(which()), flush=True)
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "loop.py").write_text(LOOP)
    return tmp_path


def program(here: Path, text: str, *options: str, env: dict[str, str] | None = None) -> str:
    (here / "program.py").write_text(dedent(text))
    done = run(*ONELOOP_RUN, *options, "program.py", cwd=here, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(here: Path, method: str) -> None:
    text = f"""
        import multiprocessing, loop

        if __name__ == "__main__":
            process = multiprocessing.get_context({method!r}).Process(target=loop.show_named)
            process.start()
            process.join()
    """
    # Python 3.12 and later warn of a fork in a process with threads; there are none of ours.
    assert program(here, text, "-W", "error") == "oneloop.loop\n"


@pytest.mark.parametrize(
    "command",
    [
        "[sys.executable, 'child.py']",
        "[sys.executable, '-c', 'import loop; loop.show()']",
        "[sys.executable, '-m', 'child']",
    ],
)
def test_subprocesses_and_theirs(here: Path, command: str) -> None:
    (here / "child.py").write_text(
        "import loop, subprocess, sys\nloop.show()\n"
        "subprocess.run([sys.executable, '-c', 'import loop; loop.show_named()'], check=True)\n"
    )
    text = f"import subprocess, sys\nsubprocess.run({command}, check=True)"
    shown = program(here, text)
    assert shown == "oneloop.loop\n" * (2 if "child" in command else 1)


def test_exec_and_fork(here: Path) -> None:
    text = """
        import os, sys, loop
        pid = os.fork()
        if not pid:
            loop.show()
            os.execv(sys.executable, [sys.executable, "-c", "import loop; loop.show()"])
        os.waitpid(pid, 0)
    """
    assert program(here, text) == "oneloop.loop\n" * 2


def test_isolated_children_are_their_own(here: Path) -> None:
    text = """
        import subprocess, sys
        for option in "-I", "-E", "-S":
            code = f"import sys; sys.path.insert(0, {sys.path[0]!r}); import loop; loop.show()"
            subprocess.run([sys.executable, option, "-c", code], check=True)
    """
    assert program(here, text) == "asyncio.unix_events\n" * 3


def test_settings_are_carried(here: Path) -> None:
    pytest.importorskip("greenlet")
    text = """
        import subprocess, sys
        code = '''
        import asyncio, loop, socket, gevent
        loop.show_named()
        print(gevent.__name__, socket.socket.__module__, asyncio.new_event_loop().get_debug())
        '''
        subprocess.run([sys.executable, "-W", "ignore", "-c", code.replace("        ", "")], check=True)
    """
    (here / "program.py").write_text(dedent(text))
    done = run(*ONELOOP_RUN, "--keep-named", "--debug", "--replace", "gevent", "program.py", cwd=here)
    assert done.stdout.splitlines() == ["asyncio.unix_events", "oneloop.compat.gevent socket True"]
    code = "import socket; print(socket.socket.__module__)"
    patched = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
    assert program(here, patched, "--patch").startswith("oneloop.green")


def test_statistics_name_the_process(here: Path) -> None:
    (here / "program.py").write_text(
        "import loop, subprocess, sys\nloop.show()\n"
        "subprocess.run([sys.executable, '-c', 'import loop; loop.show()'])\n"
        "subprocess.run([sys.executable, '-c', ''])\n"
        "subprocess.run([sys.executable, '-c', 'import asyncio'])\n"
    )
    done = run(*ONELOOP_RUN, "--stats", "program.py", cwd=here)
    assert done.stdout == "oneloop.loop\n" * 2
    assert done.stderr.count("oneloop statistics of process ") == 1
    assert done.stderr.count("oneloop statistics\n") == 1


STATE = """
import json, os, sys
sys.path_importer_cache.clear()
print(json.dumps([sys.path, sys.flags, sorted(sys.modules), sys.argv, sys.orig_argv, sys.warnoptions,
    [type(finder).__name__ for finder in sys.meta_path if type(finder).__name__ != "Finder"]]))
"""


@pytest.mark.parametrize("user", ["", "sitecustomize", "usercustomize"])
def test_a_childs_interpreter_looks_the_same(here: Path, user: str) -> None:
    """Its path, its modules, and the user's own start files; modules of ours are what it has in addition."""
    folder = here / "customs"
    folder.mkdir()
    if user:
        (folder / f"{user}.py").write_text("import sys\nprint('customized', __name__, __file__, __spec__.name)\n")
    child = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {STATE!r}], check=True)"
    (here / "program.py").write_text(child)
    env = {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    expected = run(*PYTHON, "program.py", cwd=here, env=env)
    shown = run(*ONELOOP_RUN, "program.py", cwd=here, env=env)
    *customized, last = shown.stdout.splitlines()
    *expected_customized, expected_last = expected.stdout.splitlines()
    # The first process was not started by `oneloop run`, and is customized all the same.
    assert customized == expected_customized
    assert len(customized) == (2 if user == "sitecustomize" else 0) or user == "usercustomize"
    state, expected_state = json.loads(last), json.loads(expected_last)
    added = set(state[2]) - set(expected_state[2])
    assert not added & {"asyncio", "oneloop", "threading", "typing", "re", "socket", "argparse"}
    assert [name for name in added if name.startswith("oneloop")] == ["oneloop.running.hooks"]
    state[2] = expected_state[2]
    assert state == expected_state


def test_sitecustomize_that_uses_asyncio(here: Path) -> None:
    folder = here / "customs"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import asyncio\nasyncio.run(asyncio.sleep(0))\n")
    (here / "program.py").write_text("import loop, subprocess, sys\nsubprocess.run([sys.executable, 'child.py'])\n")
    (here / "child.py").write_text("import loop\nloop.show()\nloop.show_named()\n")
    env = {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    done = run(*ONELOOP_RUN, "program.py", cwd=here, env=env)
    assert (done.stdout, done.stderr) == ("oneloop.loop\n" * 2, "")


def test_sitecustomize_that_fails_is_reported_as_ever(here: Path) -> None:
    folder = here / "customs"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("raise LookupError('of the user')")
    text = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', ''])"
    (here / "program.py").write_text(text)
    env = {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    expected = run(*PYTHON, "program.py", cwd=here, env=env)
    shown = run(*ONELOOP_RUN, "program.py", cwd=here, env=env)
    assert shown.stderr.count("LookupError: of the user") == expected.stderr.count("LookupError: of the user") == 2


def test_environment_is_changed_by_two_variables(here: Path) -> None:
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    expected = json.loads(run(*PYTHON, "-c", code, cwd=here).stdout)
    shown = json.loads(run(*ONELOOP_RUN, "-c", code, cwd=here).stdout)
    shown.pop("ONELOOP_RUN")
    first, _, rest = shown.pop("PYTHONPATH").partition(os.pathsep)
    assert first.endswith("children")
    assert rest == expected.pop("PYTHONPATH", "")
    assert shown == expected


def test_oneloop_run_within_itself(here: Path) -> None:
    (here / "inner.py").write_text(
        "import loop, os\nloop.show_named()\nprint(os.environ['PYTHONPATH'].count('children'))\n"
    )
    text = (
        "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'oneloop', 'run', '--keep-named', 'inner.py'])"
    )
    (here / "program.py").write_text(text)
    done = run(*ONELOOP_RUN, "program.py", cwd=here)
    assert done.stdout == "asyncio.unix_events\n1\n"
    assert "--keep-named" in done.stderr


def test_folder_is_harmless_in_other_interpreters(here: Path) -> None:
    """Another implementation, or a version without the extension: it starts as if nothing were there."""
    script = here / "other.py"
    script.write_text(
        dedent("""
        import os, sys, importlib.machinery
        importlib.machinery.EXTENSION_SUFFIXES[:] = [".other.so"]
        sys.modules.pop("sitecustomize", None)
        try:
            import sitecustomize
        except ImportError as error:
            assert error.name == "sitecustomize", error
        print("oneloop.running.hooks" in sys.modules, [e for e in sys.path if e.endswith("children")])
    """)
    )
    children = Path(__file__).parents[2] / "python" / "oneloop" / "running" / "children"
    done = programs.run_command(
        sys.executable, "-S", "other.py", cwd=here, env={"PYTHONPATH": str(children), "ONELOOP_RUN": "on"}
    )
    assert (done.stdout, done.stderr) == ("False []\n", "")


def test_loop_of_its_own_kind_is_told(here: Path) -> None:
    text = """
        import asyncio

        class Own(asyncio.SelectorEventLoop):
            pass

        with asyncio.Runner(loop_factory=Own) as runner:
            runner.run(asyncio.sleep(0))
            runner.run(asyncio.sleep(0))
    """
    (here / "program.py").write_text(dedent(text))
    done = run(*ONELOOP_RUN, "program.py", cwd=here)
    [line] = done.stderr.splitlines()
    assert line.startswith("oneloop run: this program does not run on oneloop: program.py, line 8, uses Own.")
    assert "oneloop.Loop" in line
