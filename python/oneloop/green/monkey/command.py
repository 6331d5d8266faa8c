"""`python -m oneloop.green.monkey [--no-PART ...] script.py`, with gevent's options."""

from __future__ import annotations

import inspect
import sys
from typing import NoReturn

from oneloop.green.monkey.patching import patch_all

__all__ = ["main"]

_USAGE = """\
python -m oneloop.green.monkey [options] (script | -m module) [arguments of the program]

Runs a Python program with the standard library patched, so that blocking calls let other green threads run.

  --[no-]PART   patch a part of the standard library or not: {parts}
  --module, -m  the program is a module
  --verbose     print what is patched"""


def main(arguments: list[str] | None = None) -> None:
    """Patch the standard library, and run the program given on the command line.

    Args:
        arguments: the arguments without the command's name; None means those of the process.

    Raises:
        SystemExit: no program is given, or an option is unknown.
    """
    from oneloop.cli import run

    left = list(sys.argv[1:] if arguments is None else arguments)
    parts: dict[str, bool] = {}
    is_module = is_verbose = False
    known = [name for name, one in inspect.signature(patch_all).parameters.items() if one.kind is not one.VAR_KEYWORD]
    usage = _USAGE.format(parts=", ".join(known))
    while left and left[0].startswith("-"):
        option = left.pop(0)
        name = option.removeprefix("--")
        if option in ("-m", "--module"):
            is_module = True
            break
        if option in ("-h", "--help"):
            print(usage)
            raise SystemExit(0)
        if option == "--verbose":
            is_verbose = True
        elif name.removeprefix("no-") in known:
            parts[name.removeprefix("no-")] = not name.startswith("no-")
        else:
            _refuse(f"unknown option {option}\n\n{usage}")
    if not left:
        _refuse(usage)
    if is_verbose:
        print(f"oneloop.green.monkey: {parts or 'all'} of the standard library, for {left[0]}", file=sys.stderr)
    patch_all(**parts)
    run.run_program(left, is_module=is_module)


def _refuse(text: str) -> NoReturn:
    print(text, file=sys.stderr)
    raise SystemExit(2)
