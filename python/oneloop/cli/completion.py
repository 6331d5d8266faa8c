"""`oneloop completion`: prints a script with which a shell completes the commands and options of `oneloop`.

The options are those of the parsers, so a new option needs no change here. The script does not start Python.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import dataclass
from importlib import import_module

from oneloop.cli import COMMANDS, completion_scripts, docs, run

__all__ = ["Command", "Option", "commands", "main", "parser"]

SHELLS = ("bash", "zsh", "fish")
_INSTALL = """\
To turn it on, write one of these lines:

  bash  oneloop completion bash > ~/.local/share/bash-completion/completions/oneloop
  zsh   oneloop completion zsh > "${fpath[1]}/_oneloop"
  fish  oneloop completion fish > ~/.config/fish/completions/oneloop.fish
"""
_URL_PATHS = {"--root-path", "--metrics", "--health"}
"""Options whose PATH is one of URLs."""


@dataclass(frozen=True)
class Option:
    """An option of a command."""

    flags: tuple[str, ...]
    text: str
    value: str
    """What follows it: `none`, `word`, `file` or `folder`."""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Command:
    """A command, and what follows it."""

    name: str
    text: str
    options: tuple[Option, ...]
    value: str
    """What its arguments are: `none`, `word`, `file`."""
    choices: tuple[str, ...] = ()


def parser() -> argparse.ArgumentParser:
    """Return the parser."""
    made = argparse.ArgumentParser(
        prog="oneloop completion",
        description="Print a script with which a shell completes the commands and options of oneloop.",
        epilog=_INSTALL,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")
    return made


def main(arguments: list[str]) -> None:
    """Run `oneloop completion`.

    Args:
        arguments: the command line after `oneloop completion`.

    Raises:
        SystemExit: 0; 1 if stdout cannot be written; 2 if the command line is wrong.
    """
    shell = parser().parse_args(arguments).shell
    try:
        sys.stdout.write(getattr(completion_scripts, shell)(commands()))
        sys.stdout.flush()
    except OSError as error:
        print(f"oneloop completion: {error}", file=sys.stderr)
        # The interpreter would write again at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise SystemExit(1) from None
    raise SystemExit(0)


def commands() -> list[Command]:
    """Return every command with its options."""
    found = []
    for name, text in COMMANDS.items():
        if name == "run":
            found.append(Command(name, text, _of_run(), "file"))
            continue
        reader = import_module(f"oneloop.cli.{name}").parser()
        options = [
            _option(action) for action in reader._actions if action.option_strings and action.help != argparse.SUPPRESS
        ]
        choices: tuple[str, ...] = ()
        value = "none"
        for action in reader._get_positional_actions():
            choices = tuple(action.choices or ())
            value = _value(action)
        if name == "docs":
            choices = tuple(docs.pages())
        found.append(Command(name, text, tuple(options), value, choices))
    return found


def _option(action: argparse.Action) -> Option:
    text = (action.help or "").replace("%%", "%")
    return Option(tuple(action.option_strings), text, _value(action), tuple(map(str, action.choices or ())))


def _value(action: argparse.Action) -> str:
    """What follows an option, or what an argument is: from the name that the help gives it."""
    # Behind an option whose value may be left out, the next word is not its value.
    if action.nargs == 0 or (action.option_strings and action.nargs == "?"):
        return "none"
    name = str(action.metavar or "")
    if name in ("FILE", "PATH") and not _URL_PATHS & {*action.option_strings}:
        return "file"
    return "folder" if name == "DIR" else "word"


def _of_run() -> tuple[Option, ...]:
    """The options of `oneloop run`, which has no parser of argparse: from its help."""
    found = []
    for row in re.finditer(r"^  (-[^\s,]+(?:, --\S+)?)( [A-Z]+)? +(\S.*(?:\n {20}.*)*)", run.HELP, re.MULTILINE):
        flags = tuple(word.partition("[")[0] for word in row[1].split(", "))
        if flags[0].startswith("--") or len(flags) == 2:
            choices = run.REPLACED if "--replace" in flags else ()
            text = " ".join(row[3].split())
            found.append(Option(flags, text, "word" if row[2] else "none", choices))
    found.append(Option(("-m",), "a module, as in python -m", "word"))
    found.append(Option(("-c",), "the code of the program, as in python -c", "word"))
    return tuple(found)
