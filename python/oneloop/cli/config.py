"""Reads options of a command from a TOML file: oneloop.toml, or the table `tool.oneloop` of pyproject.toml.

The names, the values and the error messages are those of the command's own parser, so every option of the command line
can be in the file.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

__all__ = ["PROJECT", "ConfigError", "table_of", "words_of"]

PROJECT = "pyproject.toml"
"""Read if no file is named and the current directory has one."""


class ConfigError(Exception):
    """The file cannot be used. The message says why."""


def table_of(path: str, command: str, *, is_required: bool = True) -> dict[str, Any]:
    """Return the table of a command.

    Args:
        path: a file whose name ends in pyproject.toml has it under `tool.oneloop`, any other at its top.
        command: the name of the command, and of the table.
        is_required: False for a file that nobody has named.

    Returns:
        The table; an empty one if the file is empty, or if `is_required` is False and it has none.

    Raises:
        ConfigError: the file cannot be read or is not valid, or it has no such table.
    """
    # Imported here: most starts of a server read no file.
    import tomllib

    try:
        found: Any = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    names = ("tool", "oneloop", command) if Path(path).name == PROJECT else (command,)
    is_empty = not found
    for name in names:
        if name not in found and is_required and not is_empty:
            # The options would be ignored without a word.
            raise ConfigError(f"{path} has no table [{'.'.join(names)}]: write this line above the options")
        found = found.get(name, {})
        if not isinstance(found, dict):
            raise ConfigError(f"{path}: {name} is not a table")
    return dict(found)


def words_of(table: dict[str, Any], parser: argparse.ArgumentParser, path: str) -> list[str]:
    """Return the options of a table as the words of a command line.

    Args:
        table: names of options without their dashes, with `-` or `_` between words, and their values.
        parser: the parser of the command. It checks the values.
        path: the file, for messages.

    Raises:
        ConfigError: there is no such option, or it takes another kind of value.
    """
    actions = {flag[2:]: action for action in parser._actions for flag in action.option_strings if flag[:2] == "--"}
    words = []
    for key, value in table.items():
        name = key.replace("_", "-")
        action = actions.get(name)
        if action is None or name in ("help", "config"):
            import difflib

            close = difflib.get_close_matches(name, [one for one in actions if one != "help"], 1)
            advice = f". Did you mean {close[0]}?" if close else ""
            raise ConfigError(f"{path}: there is no option {key}{advice}")
        values = value if isinstance(value, list) else [value]
        if len(values) > 1 and not isinstance(action, argparse._AppendAction):
            raise ConfigError(f"{path}: {key} takes one value, not a list")
        for one in values:
            words += _words(name, one, action, f"{path}: {key}")
    return words


def _words(name: str, value: object, action: argparse.Action, where: str) -> list[str]:
    if isinstance(value, bool):
        if isinstance(action, argparse.BooleanOptionalAction):
            return [f"--{name}" if value else f"--no-{name}"]
        if action.nargs in (0, "?"):
            return [f"--{name}"] if value else []
        return [f"--{name}={str(value).lower()}"]
    if action.nargs == 0:
        raise ConfigError(f"{where} must be true or false, not {value!r}")
    if not isinstance(value, str | int | float):
        wanted = "a text, a number, true or false"
        if isinstance(action, argparse._AppendAction):
            wanted = f"a text or a list of texts, such as [{action.metavar!r}]"
        raise ConfigError(f"{where} must be {wanted}, not {value!r}")
    return [f"--{name}={value}"]
