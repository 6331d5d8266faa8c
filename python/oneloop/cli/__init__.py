"""The command `oneloop`: calls the file of the subcommand that the command line names."""

from __future__ import annotations

import sys
from typing import NoReturn

import oneloop

__all__ = ["main"]

_HELP = """\
usage: oneloop [--version] [--help] command ...

One native event loop for all of a Python program's I/O.

commands:
  run     run a Python program on oneloop: oneloop run script.py
  serve   serve an ASGI or WSGI application: oneloop serve package.module:app
  check   request each URL of a list and count the responses: oneloop check urls.txt
  top     watch the event loops of a running program: oneloop top

Each command has its own help: oneloop run --help
"""


def main(arguments: list[str] | None = None) -> None:
    """Run the command `oneloop`.

    Args:
        arguments: the command line without the name of the program; None means that of the process.

    Raises:
        SystemExit: always, except when `oneloop run` ran a program that ended normally.
    """
    if arguments is None:
        arguments = sys.argv[1:]
    if not arguments:
        _refuse("no command given. The commands are run, serve, check and top")
    command, *rest = arguments
    if command == "run":
        from oneloop.cli import run

        run.main(rest)
    elif command == "serve":
        _serve(rest)
    elif command == "check":
        from oneloop.cli import check

        check.main(rest)
    elif command == "top":
        from oneloop.cli import top

        top.main(rest)
    elif command in ("-h", "--help"):
        print(_HELP, end="")
        raise SystemExit(0)
    elif command in ("-V", "--version"):
        print(f"oneloop {oneloop.__version__}")
        raise SystemExit(0)
    else:
        _refuse(_unknown(command, arguments))


def _unknown(command: str, arguments: list[str]) -> str:
    """An error message that suggests a command line."""
    if command in ("-m", "-c", "-") or command.endswith((".py", ".pyz", ".zip")):
        import shlex

        return f"{command} is not a command. To run a program, write: oneloop run {shlex.join(arguments)}"
    if command.startswith("-"):
        return f"there is no option {command}. Write options after the command"
    if ":" in command:
        return f"{command} is not a command. To serve an application, write: oneloop serve {command}"
    return f"{command} is not a command. The commands are run, serve, check and top"


def _refuse(text: str) -> NoReturn:
    print(f"oneloop: {text}.\nusage: oneloop command ...\nTry 'oneloop --help'.", file=sys.stderr)
    raise SystemExit(2)


def _serve(arguments: list[str]) -> NoReturn:
    from oneloop.cli import serve

    serve.main(arguments)
