"""Stacks that a program prints are those of `python`: no frames of `oneloop run` below the program."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests import programs
from tests.cli.command import ONELOOP_RUN, PYTHON, run

PROGRAMS = {
    "print_stack": """
        import sys, traceback

        def outer(depth):
            if depth:
                return outer(depth - 1)
            traceback.print_stack(file=sys.stdout)
            traceback.print_stack(limit=2, file=sys.stdout)
            print(*traceback.format_list(traceback.extract_stack()))
            print(len(traceback.StackSummary.extract(traceback.walk_stack(None))))

        outer(2)
    """,
    "stack_info": """
        import logging, sys

        logging.basicConfig(stream=sys.stdout, format="%(message)s")

        def tell():
            logging.warning("here", stack_info=True)

        tell()
    """,
    "tracebacks stay whole": """
        import sys, traceback

        def fail():
            1 / 0

        try:
            fail()
        except ZeroDivisionError:
            traceback.print_exc(file=sys.stdout)
    """,
    "a thread": """
        import sys, threading, traceback

        thread = threading.Thread(target=lambda: traceback.print_stack(file=sys.stdout))
        thread.start()
        thread.join()
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("way", ["script", "module", "command"])
def test_stacks_are_those_of_python(tmp_path: Path, name: str, way: str) -> None:
    text = dedent(PROGRAMS[name])
    (tmp_path / "program.py").write_text(text)
    words = {"script": ["program.py"], "module": ["-m", "program"], "command": ["-c", text]}[way]
    expected, found = run(*PYTHON, *words, cwd=tmp_path), run(*ONELOOP_RUN, *words, cwd=tmp_path)
    assert expected.returncode == found.returncode == 0, found.stderr
    assert "program.py" in expected.stdout or way == "command"
    assert found.stdout == expected.stdout


def test_pdb_shows_the_program_only(tmp_path: Path) -> None:
    program = """
        def inner():
            value = 1
            breakpoint()
            return value

        def outer():
            inner()

        outer()
    """
    (tmp_path / "program.py").write_text(dedent(program))
    shown = []
    for command in (PYTHON, ONELOOP_RUN):
        # Three times up: beyond the outermost frame.
        done = programs.run_command(*command, "program.py", cwd=tmp_path, typed="w\nu\nu\nu\np 6 * 7\nd\nc\n")
        assert done.returncode == 0, done.stderr
        shown.append(done.stdout)
    assert shown[0] == shown[1]
    assert "*** Oldest frame" in shown[1]


def test_a_module_of_the_program_with_such_a_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "bdb.py").write_text("kind = 'mine'\n")
    (tmp_path / "program.py").write_text("import bdb\nprint(bdb.kind, bdb.__loader__.name)\n")
    for command in (PYTHON, ONELOOP_RUN):
        assert run(*command, "program.py", cwd=tmp_path).stdout == "mine bdb\n"
