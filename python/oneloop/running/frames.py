"""Hides the frames of `oneloop run` from stacks that the program prints: print_stack, logging's stack_info, pdb.

`traceback.walk_stack` and `bdb.Bdb.get_stack` end where the program begins, as they do under `python`. Both modules are
changed when the program imports them; see `hooks.Finder`.
"""

from __future__ import annotations

import os
import sys
from itertools import takewhile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType, ModuleType

__all__ = ["hide_in"]

_BELOW = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program.py")
"""The file whose frames call the program."""


def hide_in(module: ModuleType) -> None:
    """Change a module that was just imported.

    Args:
        module: `traceback`, `bdb`, or a module of the program with such a name, which is left as it is.
    """
    if hasattr(module, "walk_stack"):
        _change_traceback(module)
    elif hasattr(module, "Bdb"):
        _change_bdb(module.Bdb)


def _is_the_programs(entry: tuple[FrameType, int]) -> bool:
    return entry[0].f_code.co_filename != _BELOW


def _change_traceback(module: Any) -> None:
    walk_all = module.walk_stack

    def walk_stack(f: FrameType | None) -> Iterable[tuple[FrameType, int]]:
        """Walk a stack yielding the frame and line number for each frame."""
        if f is None and sys.version_info >= (3, 14):
            f = sys._getframe(1)
        # takewhile has no frame of its own: up to 3.13, walk_stack(None) counts the frames above it.
        return takewhile(_is_the_programs, walk_all(f))

    module.walk_stack = walk_stack


def _change_bdb(debugger: Any) -> None:
    get_all = debugger.get_stack

    def get_stack(self: Any, f: FrameType | None, t: Any) -> tuple[list[tuple[FrameType, int]], int]:
        """Return a list of (frame, lineno) in a stack trace, and the index of the current frame."""
        stack, place = get_all(self, f, t)
        ours = [number for number, entry in enumerate(stack) if not _is_the_programs(entry)]
        first = ours[-1] + 1 if ours and ours[-1] < place else 0
        return stack[first:], place - first

    debugger.get_stack = get_stack
