"""The command `oneloop`: reads the command line and hands over to the command's own file."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

import oneloop
from oneloop import compat

__all__ = ["main"]

_ONELOOP = "One native event loop for all of a Python program's I/O."
_RUN = """\
Run a Python program, unmodified, so that every loop that it does not name gets to be a oneloop
loop: those of asyncio.run(), asyncio.Runner, asyncio.new_event_loop() and asyncio.EventLoop."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="oneloop", description=_ONELOOP)
    parser.add_argument("--version", action="version", version=f"oneloop {oneloop.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    # Their own parsers read what follows; here they are lines of the help.
    commands.add_parser("serve", help="serve an ASGI or WSGI application", add_help=False)
    commands.add_parser("check", help="request each URL of a list and count the answers", add_help=False)
    run = commands.add_parser(
        "run",
        help="run a Python program on oneloop",
        description=_RUN,
        usage="oneloop run [--debug] [--stats] [--patch] [--replace NAME] (script.py | -m module) ...",
    )
    run.add_argument(
        "--debug",
        action="store_true",
        help="asyncio's debug mode, as PYTHONASYNCIODEBUG=1 turns it on",
    )
    run.add_argument(
        "--stats",
        action="store_true",
        help="print the statistics of every loop to stderr at exit",
    )
    run.add_argument(
        "--patch",
        action="store_true",
        help="patch the standard library: what blocks lets other green threads go on (needs oneloop[green])",
    )
    run.add_argument(
        "--replace",
        action="append",
        default=[],
        metavar="NAME",
        choices=compat.KNOWN,
        help=f"give the program oneloop under another package's name: {', '.join(compat.KNOWN)}",
    )
    run.add_argument(
        "-m",
        dest="module",
        nargs=argparse.REMAINDER,
        metavar="module ...",
        help="the program is a module, with its arguments",
    )
    run.add_argument(
        "script",
        nargs=argparse.REMAINDER,
        metavar="script.py ...",
        help="the program is a file, a folder or a zip file, with its arguments",
    )
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Do what the command line says.

    Args:
        arguments: without the command's own name; None takes those of the process.

    Raises:
        SystemExit: always, unless the program ends without a word.
    """
    if arguments is None:
        arguments = sys.argv[1:]
    if arguments[:1] == ["serve"]:
        _serve(arguments[1:])
    if arguments[:1] == ["check"]:
        from oneloop.cli import check

        check.main(arguments[1:])
    parser = _parser()
    options = parser.parse_args(arguments)
    is_module = options.module is not None
    program: list[str] = [*(options.module or []), *options.script]
    if not program:
        parser.error("what shall run? oneloop run script.py, or oneloop run -m module")

    from oneloop.cli import run

    run.prepare(debug=options.debug, stats=options.stats, patch=options.patch, replace=options.replace)
    run.run_program(program, is_module=is_module)


def _serve(arguments: list[str]) -> NoReturn:
    from oneloop.cli import serve

    serve.main(arguments)
