"""`oneloop run`: runs a program as `python` does, with oneloop as its event loop."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from pathlib import Path
from typing import NoReturn

from oneloop import compat, registry
from oneloop.running import hooks, interpreter
from oneloop.running.program import Program

__all__ = ["HELP", "REPLACED", "main", "prepare", "run_program"]

REPLACED = tuple(compat.KNOWN)
"""The names that --replace knows."""
_USAGE = "usage: oneloop run [option]... (script.py | -m module | -c code | -) [argument]..."
HELP = f"""\
{_USAGE}

Run an unmodified Python program on oneloop: write `oneloop run` instead of `python`. Loops that the program creates
with asyncio or uvloop are then oneloop loops, also in the Python processes that the program starts.

the program:
  script.py             a file; also a directory or a zip file with a __main__.py
  -m module             a module, as in python -m
  -c code               the code of the program, as in python -c
  -                     the program is read from standard input

options:
  --debug               turn on asyncio's debug mode (sets PYTHONASYNCIODEBUG=1)
  --stats               when the program ends, print the statistics of each of its event loops to stderr
  --stats-socket[=PATH] let `oneloop top` watch the program, through a Unix socket
  --patch               patch the standard library, so that blocking calls let other green threads run; needs
                        oneloop[green]
  --replace NAME        when the program imports this package, import oneloop's facade of it instead; NAME is one of
                        {", ".join(REPLACED)}
  --keep-named          do not replace loops that the program names itself: uvloop, asyncio.SelectorEventLoop()
  -h, --help            show this help

Options of python are accepted too: -b -B -d -E -i -I -O -OO -P -q -s -S -u -v -x -W arg -X opt. Options end at the
program or at `--`. Arguments after the program are passed to it.
"""


def main(arguments: list[str]) -> None:
    """Run `oneloop run`.

    Args:
        arguments: the command line after `oneloop run`.

    Raises:
        SystemExit: with status 2 if the command line is wrong, or with the program's status.
    """
    try:
        line = interpreter.read(arguments)
    except interpreter.UsageError as error:
        _refuse(str(error))
    if line.help:
        print(HELP, end="")
        raise SystemExit(0)
    if line.version:
        print(f"Python {sys.version.partition(' ')[0]}")
        raise SystemExit(0)
    if line.program is None:
        _refuse("no program given. Write oneloop run script.py, oneloop run -m module, or oneloop run -c code")
    if line.rest == ["-"] and sys.stdin is not None and sys.stdin.isatty():
        _refuse("- reads the program from standard input, which is a terminal here. Write: oneloop run - < script.py")
    if line.python_options:
        interpreter.restart(line)
    if line.stats_socket is not None:
        os.environ["ONELOOP_STATS_SOCKET"] = line.stats_socket
    try:
        prepare(debug=line.debug, stats=line.stats, patch=line.patch, replace=line.replace, keep_named=line.keep_named)
    except ImportError as error:
        # --patch and --replace gevent need greenlet.
        print(f"oneloop run: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    # A program that was asked for its help creates no loop.
    is_help = any(word in ("-h", "--help", "--version") for word in line.program.arguments)
    _run(line.program, warns=not (line.stats or line.patch or line.replace or is_help))


def _refuse(text: str) -> NoReturn:
    print(f"oneloop run: {text}.\n{_USAGE}\nTry 'oneloop run --help'.", file=sys.stderr)
    raise SystemExit(2)


def prepare(
    *,
    debug: bool = False,
    stats: bool = False,
    patch: bool = False,
    replace: list[str] | None = None,
    keep_named: bool = False,
) -> None:
    """Make oneloop the event loop of this process and of the Python processes that it starts.

    Args:
        debug: loops start in debug mode.
        stats: print the statistics of every loop at exit.
        patch: patch the standard library for green threads.
        replace: packages to replace by their facades, whether they are installed or not.
        keep_named: do not replace uvloop and `asyncio.SelectorEventLoop`.
    """
    if debug:
        # asyncio reads this variable whenever a loop is made. Child processes inherit it.
        os.environ["PYTHONASYNCIODEBUG"] = "1"
    for name in replace or []:
        compat.install(name)
    settings = hooks.Settings(replace=replace or [], keep_named=keep_named, patch=patch, stats=stats)
    hooks.carry(settings)
    hooks.enter(settings)
    if stats:
        # Importing asyncio registers the report, which is also printed if the program never imports asyncio.
        import asyncio  # noqa: F401  # pyright: ignore[reportUnusedImport]


def run_program(program: list[str], *, is_module: bool) -> None:
    """Run a program in this process. Afterwards `__main__` is the program's module.

    Args:
        program: the module's name or the script's path, then its arguments.
        is_module: whether the program is a module, as with `python -m`.

    Raises:
        SystemExit: a script cannot be read, a module does not exist, or the program raised it.
        BaseException: any other exception of the program.
    """
    Program("module" if is_module else "script", program[0], program[1:]).run()


def _run(program: Program, *, warns: bool) -> None:
    pid = os.getpid()
    ended_well: list[bool] = []

    def say_if_nothing_was_done() -> None:
        # Forked children inherit this function, but must not print the message. See _has_had_loops for other children.
        if not ended_well or os.getpid() != pid or _has_had_loops():
            return
        # The program may have closed stderr, or may have been started without it.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            if sys.stderr is not None:
                text = f"this program created no event loop, so oneloop did nothing.{_other()}"
                print(f"oneloop run: {text}", file=sys.stderr)

    if warns and sys.platform == "linux":
        atexit.register(say_if_nothing_was_done)
    try:
        program.run()
    except SystemExit as error:
        if error.code in (None, 0):
            ended_well.append(True)
        raise
    ended_well.append(True)


def _has_had_loops() -> bool:
    """Whether a loop has run in this process, or may have run in a child process."""
    report = sys.modules.get("oneloop.running.report")
    if report is not None and (report.has_seen_loops() or registry.has_made_loops()):
        return True
    # trio starts a child process when it is imported, so with trio children mean nothing.
    return "trio" not in sys.modules and _has_had_children()


def _has_had_children() -> bool:
    # No import here: the program may have a module of that name, as in resource.py.
    with contextlib.suppress(OSError):
        # The minor page faults of children that have ended: cminflt in proc_pid_stat(5).
        if int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[8]) > 0:
            return True
        # Those that still run; some kernels do not tell.
        return any(thread.read_text() for thread in Path("/proc/self/task").glob("*/children"))
    return False


def _other() -> str:
    return " It uses trio, which has its own event loop." if "trio" in sys.modules else ""
