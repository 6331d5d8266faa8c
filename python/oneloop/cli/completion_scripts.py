"""The scripts of `oneloop completion`: one function for each shell."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oneloop.cli.completion import Command, Option

__all__ = ["bash", "fish", "zsh"]

_BASH = """\
# Completion of oneloop for bash. Written by `oneloop completion bash`.
_oneloop() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} words="" kind=""
    # bash takes `--option=value` for three words.
    if [[ $current == "=" ]]; then
        current=""
    elif [[ $previous == "=" ]]; then
        previous=${{COMP_WORDS[COMP_CWORD - 2]}}
    fi
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W {commands} -- "$current"))
        return
    fi
    case ${{COMP_WORDS[1]}} in
{cases}
    esac
    case $kind in
    file) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")) ;;
    folder) compopt -o filenames; COMPREPLY=($(compgen -d -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
    esac
}}
complete -F _oneloop oneloop
"""


def bash(commands: Sequence[Command]) -> str:
    """Return the script for bash.

    Args:
        commands: all commands.
    """
    names = shlex.quote(" ".join([*[command.name for command in commands], "--help", "--version"]))
    cases = []
    for command in commands:
        lines = [f"    {command.name})", "        case $previous in"]
        for option in command.options:
            if option.value == "none":
                continue
            what = f"words={shlex.quote(' '.join(option.choices))}" if option.choices else f"kind={option.value}"
            lines.append(f"        {'|'.join(option.flags)}) {what} ;;")
        flags = shlex.quote(" ".join(flag for option in command.options for flag in option.flags))
        plain = shlex.quote(" ".join(command.choices))
        kind = "kind=file" if command.value == "file" and not command.choices else f"words={plain}"
        lines.append(f"        *) if [[ $current == -* ]]; then words={flags}; else {kind}; fi ;;")
        cases.append("\n".join([*lines, "        esac", "        ;;"]))
    return _BASH.format(commands=names, cases="\n".join(cases))


_ZSH = """\
#compdef oneloop
# Completion of oneloop for zsh. Written by `oneloop completion zsh`.
_oneloop() {{
    local -a commands=(
{commands}
    )
    if ((CURRENT == 2)); then
        _describe command commands
        return
    fi
    local name=$words[2]
    shift words
    ((CURRENT--))
    case $name in
{cases}
    esac
}}
if [[ $funcstack[1] == _oneloop ]]; then
    _oneloop "$@"
else
    compdef _oneloop oneloop
fi
"""


def zsh(commands: Sequence[Command]) -> str:
    """Return the script for zsh.

    Args:
        commands: all commands.
    """
    names = "\n".join(f"        {_zsh_word(f'{command.name}:{command.text}')}" for command in commands)
    cases = []
    for command in commands:
        specs = [_zsh_spec(option, flag) for option in command.options for flag in option.flags]
        specs.append(_zsh_word(f"*::argument:{_zsh_action(command)}"))
        lines = " \\\n            ".join(specs)
        cases.append(f"    {command.name})\n        _arguments -s \\\n            {lines}\n        ;;")
    return _ZSH.format(commands=names, cases="\n".join(cases))


def _zsh_spec(option: Option, flag: str) -> str:
    text = re.sub(r"([\[\]:\\])", r"\\\1", option.text)
    if option.value == "none":
        return _zsh_word(f"*{flag}[{text}]")
    equals = "=" if flag.startswith("--") else ""
    return _zsh_word(f"*{flag}{equals}[{text}]:value:{_zsh_action(option)}")


def _zsh_action(what: Option | Command) -> str:
    if what.choices:
        return f"({' '.join(what.choices)})"
    return {"file": "_files", "folder": "_files -/"}.get(what.value, "")


def _zsh_word(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def fish(commands: Sequence[Command]) -> str:
    """Return the script for fish.

    Args:
        commands: all commands.
    """
    lines = ["# Completion of oneloop for fish. Written by `oneloop completion fish`.", "complete -c oneloop -f"]
    for command in commands:
        name = _fish_word(command.text)
        lines.append(f"complete -c oneloop -n __fish_use_subcommand -a {command.name} -d {name}")
    for command in commands:
        start = f"complete -c oneloop -n '__fish_seen_subcommand_from {command.name}'"
        for option in command.options:
            flags = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags]
            line = f"{start} {' '.join(flags)} -d {_fish_word(option.text)}"
            if option.choices:
                line += f" -x -a {_fish_word(' '.join(option.choices))}"
            elif option.value != "none":
                line += {"file": " -r -F", "folder": " -x -a '(__fish_complete_directories)'"}.get(option.value, " -x")
            lines.append(line)
        if command.choices:
            lines.append(f"{start} -a {_fish_word(' '.join(command.choices))}")
        elif command.value == "file":
            lines.append(f"{start} -F")
    return "\n".join(lines) + "\n"


def _fish_word(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
