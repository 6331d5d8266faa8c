"""`oneloop run` in odd surroundings: streams that are closed, a folder that is gone, modules named like ours."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

import oneloop
from tests.cli.command import LIMIT_S, NO_LOOP, ONELOOP_RUN, PYTHON, run

STOCK_LOOP = """
loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
print(loop.run_until_complete(asyncio.sleep(0, 5)))
loop.close()
"""


def shell(text: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", text], cwd=cwd, env=dict(os.environ), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def test_module_named_resource_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "resource.py").write_text("print('imported')\n")
    (tmp_path / "app.py").write_text("import time\n")
    done = run(*ONELOOP_RUN, "app.py", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", NO_LOOP)


def test_children_are_seen_without_the_module_resource(tmp_path: Path) -> None:
    done = run(*ONELOOP_RUN, "-c", "import os; os.system('true')", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_goes_to_stdout_if_there_is_no_stderr(tmp_path: Path) -> None:
    done = shell(f"{shlex.join(ONELOOP_RUN)} -c 'x = 1' 2>&-", tmp_path)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("change", ["sys.stderr.close()", "sys.stderr = None"])
def test_loop_of_another_kind_runs_without_stderr(tmp_path: Path, change: str) -> None:
    done = run(*ONELOOP_RUN, "-c", f"import asyncio, selectors, sys\n{change}\n{STOCK_LOOP}", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "5\n")


def test_loop_of_another_kind_runs_in_a_namespace_without_a_name(tmp_path: Path) -> None:
    text = f"import asyncio, selectors\nexec({STOCK_LOOP!r}, dict(globals(), __name__=None))"
    done = run(*ONELOOP_RUN, "-c", text, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "5\n"), done.stderr


def test_standard_input_that_is_closed(tmp_path: Path) -> None:
    stock, ours = (shell(f"{shlex.join(command)} - <&-", tmp_path) for command in (PYTHON, ONELOOP_RUN))
    assert (ours.returncode, ours.stdout) == (stock.returncode, stock.stdout) == (0, "")
    assert ours.stderr == stock.stderr + NO_LOOP


@pytest.mark.parametrize("options", [("--patch",), ("--replace", "uvloop")])
def test_program_with_green_threads_or_a_facade_needs_no_loop(tmp_path: Path, options: tuple[str, ...]) -> None:
    pytest.importorskip("greenlet")
    done = run(*ONELOOP_RUN, *options, "-c", "pass", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_loop_that_never_ran_is_a_loop(tmp_path: Path) -> None:
    done = run(*ONELOOP_RUN, "-c", "import asyncio; asyncio.new_event_loop().close()", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_forked_child_does_not_say_that_it_made_no_loop(tmp_path: Path) -> None:
    done = run(*ONELOOP_RUN, "-c", "import os\nif os.fork(): os.wait()", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(
    not Path(f"/proc/self/task/{os.getpid()}/children").exists(), reason="this kernel does not list children"
)
def test_children_that_still_run_are_seen(tmp_path: Path) -> None:
    # It ends when the program closes its standard input.
    text = "import subprocess; child = subprocess.Popen(['cat'], stdin=subprocess.PIPE)"
    done = run(*ONELOOP_RUN, "-c", text, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "status"), [("-m this", 0), ("-Bm this", 0), ("-m no_such_module", 1), ("no_such_script.py", 2)]
)
def test_current_folder_has_been_removed(tmp_path: Path, words: str, status: int) -> None:
    results = []
    for command in (PYTHON, ONELOOP_RUN):
        text = f"mkdir gone && cd gone && rmdir ../gone && exec {shlex.join(command)} {words}"
        done = shell(text, tmp_path)
        assert "Traceback" not in done.stderr
        results.append((done.returncode, done.stdout))
    assert results[0] == results[1]
    assert results[1][0] == status


def test_loader_of_asyncio_answers_before_the_import(tmp_path: Path) -> None:
    text = """
import copy, importlib.util
loader = copy.copy(importlib.util.find_spec("asyncio").loader)
print(loader.get_filename("asyncio"), loader.is_package("asyncio"), len(loader.get_source("asyncio")))
"""
    stock, ours = (run(*command, "-c", text, cwd=tmp_path) for command in (PYTHON, ONELOOP_RUN))
    assert (stock.returncode, ours.returncode) == (0, 0), ours.stderr
    assert stock.stdout == ours.stdout


@pytest.mark.parametrize("option", ["", "-B"])
def test_removed_folder_costs_no_entry_of_pythonpath(tmp_path: Path, option: str) -> None:
    (tmp_path / "show.py").write_text("import sys; print(sys.path)\n")
    results = []
    for command in (PYTHON, ONELOOP_RUN):
        script = shlex.quote(str(tmp_path / "show.py"))
        path = shlex.quote(os.pathsep.join([str(Path(oneloop.__file__).parents[1]), "/last"]))
        text = (
            f"mkdir gone && cd gone && rmdir ../gone && PYTHONPATH={path} exec {shlex.join(command)} {option} {script}"
        )
        results.append(shell(text, tmp_path).stdout)
    assert results[0] == results[1]
