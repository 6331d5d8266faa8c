"""The command `oneloop`: calls the file of the subcommand that the command line names."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NoReturn

import oneloop

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "run": "run a Python program on oneloop: oneloop run script.py",
    "serve": "serve an ASGI or WSGI application: oneloop serve package.module:app",
    "check": "request each URL of a list and count the responses: oneloop check urls.txt",
    "top": "watch the event loops of a running program: oneloop top",
    "doctor": "say what this machine offers, and what to do about what is missing: oneloop doctor",
    "docs": "read the documents: oneloop docs, oneloop docs serve",
    "completion": "complete commands and options in a shell: oneloop completion bash",
}
"""Each command and what it does."""

_HELP = """\
usage: oneloop [--version] [--help] command ...

One native event loop for all of a Python program's I/O.

commands:
{commands}

Each command has its own help: oneloop run --help
"""
_NAMES = f"The commands are {', '.join([*COMMANDS][:-1])} and {[*COMMANDS][-1]}"


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
        _refuse(f"no command given. {_NAMES}")
    command, *rest = arguments
    if command in ("-V", "--version") or (rest == ["--version"] and command in COMMANDS and command != "run"):
        # `oneloop run --version` is Python's.
        print(f"oneloop {oneloop.__version__}")
        raise SystemExit(0)
    if command in COMMANDS:
        # Only this command's file is imported: a program should not find modules that it did not ask for.
        import_module(f"oneloop.cli.{command}").main(rest)
    elif command in ("-h", "--help"):
        print(_HELP.format(commands="\n".join(f"  {name:10}  {text}" for name, text in COMMANDS.items())), end="")
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
    return f"{command} is not a command. {_NAMES}"


def _refuse(text: str) -> NoReturn:
    print(f"oneloop: {text}.\nusage: oneloop command ...\nTry 'oneloop --help'.", file=sys.stderr)
    raise SystemExit(2)
