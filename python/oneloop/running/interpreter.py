"""Reads the options of `oneloop run`: its own, and those of `python`.

An interpreter reads Python's options when it starts. If there are any, the interpreter is started again with them in
the same process (exec).
"""

from __future__ import annotations

import os
import re
import sys
from typing import NoReturn

from oneloop.running.program import Program

__all__ = ["CommandLine", "UsageError", "read", "restart"]

_SWITCHES = frozenset("bBdEiIOPqsSuv")
"""Options of `python` without a value that take effect when the interpreter starts."""

_OWN = {"--debug": "debug", "--stats": "stats", "--patch": "patch", "--keep-named": "keep_named"}


class UsageError(Exception):
    """The command line is wrong. The message says what to write."""


class CommandLine:
    """A parsed command line."""

    def __init__(self) -> None:
        self.python_options: list[str] = []
        """The options for the interpreter."""
        self.own: list[str] = []
        """The options of `oneloop run`, as they were written."""
        self.rest: list[str] = []
        """The program and its arguments, as they were written."""
        self.debug = self.stats = self.patch = self.keep_named = self.help = self.version = False
        self.replace: list[str] = []
        self.stats_socket: str | None = None
        self.program: Program | None = None


class _Reader:
    def __init__(self, arguments: list[str]) -> None:
        self._left = list(arguments)
        self._line = CommandLine()
        self._skip_first_line = False

    def read(self) -> CommandLine:
        line = self._line
        while self._left and line.program is None and not (line.help or line.version):
            written = list(self._left)
            word = self._left.pop(0)
            if word == "--":
                if self._left:
                    self._take_program("script", self._left.pop(0), written)
            elif word == "-":
                self._take_program("stdin", "-", written)
            elif word.startswith("--"):
                self._long(word)
            elif word.startswith("-"):
                self._short(word, written)
            else:
                self._take_program("script", word, written)
        return line

    def _take_program(self, kind: str, text: str, written: list[str]) -> None:
        self._line.program = Program(kind, text, self._left, skip_first_line=self._skip_first_line)
        self._line.rest = (["-x"] if self._skip_first_line else []) + written

    def _value(self, option: str, what: str) -> str:
        if not self._left:
            raise UsageError(f"the option {option} needs {what} after it")
        return self._left.pop(0)

    def _long(self, word: str) -> None:
        line = self._line
        name, equals, value = word.partition("=")
        if name in _OWN and not equals:
            setattr(line, _OWN[name], True)
            line.own.append(word)
        elif name == "--replace":
            value = value if equals else self._value(name, "the name of a package")
            line.replace.append(_checked(value))
            line.own.append(f"--replace={value}")
        elif name == "--stats-socket":
            # Any other word behind it is the program.
            if not equals and self._left and self._left[0].endswith(".sock"):
                value = self._left.pop(0)
            line.stats_socket = value or "1"
            line.own.append(f"{name}={line.stats_socket}")
        elif name == "--check-hash-based-pycs":
            value = value if equals else self._value(name, "always, never or default")
            line.python_options += [name, value]
        elif word in ("--help", "--version"):
            setattr(line, word[2:], True)
        else:
            _refuse(word)

    def _short(self, word: str, written: list[str]) -> None:
        """Read a word that may have several options, and the value of the last one: `-OBc pass`."""
        line = self._line
        for at, letter in enumerate(word[1:], 1):
            behind = word[at + 1 :]
            if letter in "cmWX":
                what = {"c": "a program", "m": "the name of a module"}.get(letter, "a value")
                value = behind or self._value(f"-{letter}", what)
                if letter in "cm":
                    kind = "command" if letter == "c" else "module"
                    # Leave out the switches before it in the same word, which have been read.
                    self._take_program(kind, value, [f"-{letter}", value, *self._left])
                else:
                    line.python_options += [f"-{letter}", value]
                return
            if letter in _SWITCHES:
                line.python_options.append(f"-{letter}")
            elif letter == "x":
                self._skip_first_line = True
            elif letter in "h?":
                line.help = True
            elif letter == "V":
                line.version = True
            else:
                _refuse(f"-{letter}")


def _checked(name: str) -> str:
    from oneloop import compat

    if name not in compat.KNOWN:
        raise UsageError(f"--replace has no replacement for {name!r}; use one of: {', '.join(compat.KNOWN)}")
    return name


def _refuse(option: str) -> NoReturn:
    import difflib

    known = [*_OWN, "--replace", "--stats-socket", "--check-hash-based-pycs", "--help", "--version"]
    close = difflib.get_close_matches(option, known, 1) if option.startswith("--") else []
    text = f"there is no option {option}"
    text += f". Did you mean {close[0]}" if close else ". To pass an option to the program, write it after the program"
    raise UsageError(text)


def read(arguments: list[str]) -> CommandLine:
    """Parse the command line after `oneloop run`.

    Args:
        arguments: its words.

    Returns:
        The parsed command line.

    Raises:
        UsageError: an option is unknown, or its value is missing.
    """
    return _Reader(arguments).read()


def _given_options() -> list[str]:
    """The options with which this interpreter was started, for example in `python -X dev -m oneloop run`."""
    words = iter(sys.orig_argv[1:])
    options = []
    for word in words:
        if not word.startswith("-") or word in ("-", "--"):
            break
        found = re.match(r"-[^-cmWX]*", word)
        switches = "-" if found is None else found.group()
        behind = word[len(switches) :]
        if behind[:1] in ("c", "m"):
            # -c or -m starts the program, which is this command.
            if len(switches) > 1:
                options.append(switches)
            break
        options.append(word)
        if behind in ("W", "X") or word == "--check-hash-based-pycs":
            options.append(next(words, ""))
    return options


def restart(line: CommandLine) -> NoReturn:
    """Replace this interpreter (exec) by one with Python's options, which runs the rest of the command line."""
    again = os.path.join(os.path.dirname(os.path.abspath(__file__)), "again.py")
    command = [sys.executable, *_given_options(), *line.python_options, again, "run", *line.own, *line.rest]
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os.execv(sys.executable, command)
