"""`oneloop run` takes the options of `python`, and a program sees what it sees there: compared with `python`."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests import programs
from tests.cli.command import LIMIT_S, NO_LOOP, ONELOOP_RUN, PYTHON, run

SHOW = """
import json, os, sys, warnings
print(json.dumps({
    "argv": sys.argv,
    "path": sys.path[:3],
    "flags": repr(sys.flags),
    "warnoptions": sys.warnoptions,
    "xoptions": {key: value for key, value in sys._xoptions.items()},
    "names": sorted(globals()),
    "buffered": sys.stdout.line_buffering or sys.stdout.write_through,
    "loader": str(getattr(__loader__, "__name__", type(__loader__).__name__)),
    "file": globals().get("__file__"),
    "spec": getattr(__spec__, "name", None),
    "package": __package__,
    "builtins": type(__builtins__).__name__,
    "doc": __doc__,
    "debug": __debug__,
    "site": "site" in sys.modules,
}))
"""


ANNOTATED = "def f(x: 1 + 1): ...\nprint(f.__annotations__)"
"""Shows whether the program was compiled as if it had a __future__ import."""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "show.py").write_text(SHOW)
    (tmp_path / "annotated.py").write_text(ANNOTATED)
    (tmp_path / "one_line.py").write_text("#!not python")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__main__.py").write_text(SHOW)
    (tmp_path / "odd.py").write_text("#!not python\n" + SHOW + "\n1 / 0\n")
    (tmp_path / "fails.py").write_text("def f(x):\n    return 1 / x\nf(0)\n")
    return tmp_path


def same(here: Path, *words: str, stdin: str | None = None) -> None:
    """Both do the same; programs without loops are told so at a good end, unless they were asked for their help."""

    def done(*command: str) -> subprocess.CompletedProcess[str]:
        return programs.run_command(*command, *words, cwd=here, typed=stdin or "", limit_s=LIMIT_S)

    expected, shown = done(*PYTHON), done(*ONELOOP_RUN)
    assert shown.stdout == expected.stdout
    is_told = expected.returncode == 0 and not {"-h", "--help"} & {*words}
    assert shown.stderr == expected.stderr + (NO_LOOP if is_told else "")
    assert shown.returncode == expected.returncode


COMMAND_LINES = [
    ["show.py"],
    ["--", "show.py", "-x"],
    ["-u", "show.py"],
    ["-O", "show.py", "a"],
    ["-OO", "show.py"],
    ["-W", "ignore", "-Werror::DeprecationWarning", "show.py"],
    ["-X", "dev", "show.py"],
    ["-Xutf8", "-X", "faulthandler", "show.py"],
    ["-bBdqs", "show.py"],
    ["-P", "show.py"],
    ["-P", "-m", "json.tool", "-h"],
    ["-P", "folder", "a"],
    ["--check-hash-based-pycs", "always", "-c", "import _imp; print(_imp.check_hash_based_pycs)"],
    ["annotated.py"],
    ["-c", ANNOTATED],
    ["-c", SHOW, "--stats", "-m"],
    ["-Bc", SHOW, "x"],
    ["-m", "show", "--", "-c"],
    ["-Bm", "show"],
    ["-Bmshow"],
    ["-x", "odd.py"],
    ["-Bx", "odd.py"],
    ["-x", "one_line.py"],
    ["odd.py"],
    ["fails.py"],
    ["-m", "fails"],
    ["-c", "def f():\n    1 / 0\nf()"],
    ["-c", "  print(1)"],
    ["-c", "print(1"],
    ["-c", "import sys; sys.exit('enough')"],
    ["-c", "raise KeyboardInterrupt"],
    ["-m", "json.tool", "--help"],
    ["-c", "import asyncio as b; print(type(b.__loader__), type(b.__spec__.loader), b.__spec__.origin, b.__file__)"],
    ["-c", "import importlib.util as u; print(u.find_spec('asyncio').origin, u.find_spec('no_such_module'))"],
    ["-c", "import sys; print([m for m in ('asyncio', 'socket', 'argparse', 'threading') if m in sys.modules])"],
]


@pytest.mark.parametrize("words", COMMAND_LINES, ids=lambda words: " ".join(words)[:30].replace("\n", " "))
def test_same_as_python(here: Path, words: list[str]) -> None:
    same(here, *words)


@pytest.mark.parametrize("source", [SHOW, "import sys\nprint(repr(sys.stdin.read()))", "1 / 0", "f(", ANNOTATED])
def test_program_from_standard_input(here: Path, source: str) -> None:
    same(here, "-", "a", stdin=source)


@pytest.mark.parametrize("option", ["-I", "-E", "-S", "-Is"])
def test_isolated_interpreters_run_on_oneloop_too(here: Path, option: str) -> None:
    (here / "loop.py").write_text(
        "import asyncio, sys\n"
        "async def main():\n    print(type(asyncio.get_running_loop()).__module__)\n"
        "asyncio.run(main())\nprint(sys.flags, sys.path, 'site' in sys.modules)"
    )
    expected = run(*PYTHON, option, "loop.py", cwd=here)
    shown = run(*ONELOOP_RUN, option, "loop.py", cwd=here)
    assert shown.stderr == expected.stderr == ""
    assert shown.stdout == expected.stdout.replace("asyncio.unix_events", "oneloop.loop")


@pytest.mark.parametrize(
    ("program", "typed"),
    [("x = 6 * 7\nraise SystemExit(3)", "print(x, __name__)\n"), ("x = 1\nx / 0", "def f(y): return y[x]\n\nf([])\n")],
)
def test_interactive_afterwards(here: Path, program: str, typed: str) -> None:
    (here / "program.py").write_text(program)

    def done(*command: str) -> list[str]:
        # The console writes its history there, at its end.
        answer = programs.run_command(*command, "-i", "program.py", cwd=here, typed=typed, env={"HOME": str(here)})
        return [answer.stdout, answer.stderr, str(answer.returncode)]

    assert done(*ONELOOP_RUN) == done(*PYTHON)


def test_own_options_go_with_those_of_python(here: Path) -> None:
    (here / "loop.py").write_text(
        "import asyncio, sys\n"
        "async def main():\n    print(asyncio.get_running_loop().get_debug(), __debug__)\n"
        "asyncio.run(main())\n"
    )
    done = run(*ONELOOP_RUN, "--stats", "-O", "--debug", "-u", "loop.py", cwd=here)
    assert done.stdout == "True False\n"
    assert "oneloop statistics" in done.stderr


@pytest.mark.parametrize("words", [["show.py"], ["-m", "show"], ["-c", "pass"]])
def test_audit_hooks_see_what_is_run(here: Path, words: list[str]) -> None:
    folder = here / "customs"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys\n"
        "def hook(name, arguments):\n"
        "    if name.startswith('cpython.run_'): print(name, arguments)\n"
        "sys.addaudithook(hook)\n"
    )
    env = {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    expected = [line for line in run(*PYTHON, *words, cwd=here, env=env).stdout.splitlines() if "cpython" in line]
    of_oneloop, *shown = [
        line for line in run(*ONELOOP_RUN, *words, cwd=here, env=env).stdout.splitlines() if "cpython" in line
    ]
    assert of_oneloop == "cpython.run_module ('oneloop',)"
    assert shown == expected
    assert len(shown) == 1


def test_version_is_that_of_python(here: Path) -> None:
    assert run(*ONELOOP_RUN, "-V", cwd=here).stdout == run(*PYTHON, "-V", cwd=here).stdout


def test_tools_that_run_a_program(here: Path) -> None:
    (here / "program.py").write_text("x = 1\nprint(__name__, __file__)\n")
    commands = "n\nn\nq\n"

    def done(*command: str) -> str:
        words = [*command, "-m", "pdb", "program.py"]
        return subprocess.run(words, cwd=here, input=commands, capture_output=True, text=True, check=False).stdout

    assert done(*ONELOOP_RUN) == done(*PYTHON)


MISTAKES = [
    (["run"], "oneloop run script.py"),
    (["run", "--stat", "x.py"], "--stats"),
    (["run", "-k"], "-k"),
    (["run", "-W"], "-W needs a value"),
    (["run", "-c"], "-c needs a program"),
    (["run", "--replace", "trio", "x.py"], "uvloop"),
    (["run", "missing.py"], "Check the path"),
    (["run", "json"], "oneloop run -m json"),
    (["run", "pkg:app"], "oneloop serve pkg:app"),
    (["run", "-m", "show.py"], "oneloop run show.py"),
    (["show.py", "a b"], "oneloop run show.py 'a b'"),
    (["-m", "show"], "oneloop run -m show"),
    (["pkg.module:app"], "oneloop serve pkg.module:app"),
    (["serv"], "run, serve, check, top, doctor, docs and completion"),
    (["--stats"], "after the command"),
    ([], "run, serve, check, top, doctor, docs and completion"),
    (["run", "--"], "no program given"),
]


@pytest.mark.parametrize(
    ("words", "advice"), MISTAKES, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_mistakes_are_told_with_what_to_write(here: Path, words: list[str], advice: str) -> None:
    done = run(sys.executable, "-m", "oneloop", *words, cwd=here)
    assert advice in done.stderr
    assert done.returncode == (1 if "-m" in words and "run" in words else 2)
    assert "Traceback" not in done.stderr


def test_standard_input_that_is_a_terminal_is_refused(here: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [*ONELOOP_RUN, "-"], cwd=here, stdin=theirs, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 2
    assert "oneloop run - < script.py" in done.stderr
