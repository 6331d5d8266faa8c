"""`GreenletTree`: shows which greenlet spawned which, and where each one waits."""

from __future__ import annotations

import gc
import sys
import traceback
from typing import Any, Self

from greenlet import getcurrent
from greenlet import greenlet as RawGreenlet  # noqa: N812 - gevent's name

from oneloop.green.greenlet import Greenlet
from oneloop.green.local import attributes_of
from oneloop.green.settings import config

__all__ = ["GreenletTree"]


class GreenletTree:
    """A greenlet and the greenlets below it.

    A green thread is below the one that spawned it, if that is known and alive; otherwise below its parent, the hub.
    """

    DEFAULT_DETAILS = {"running_stacks": True, "spawning_stacks": True, "locals": True}  # noqa: RUF012 - gevent's name
    """What `format` shows for each greenlet."""

    def __init__(self, greenlet: RawGreenlet) -> None:
        self.greenlet = greenlet
        """The root of the tree."""
        self.is_current_tree = False
        """Whether the calling green thread is in the tree."""
        self.children: list[GreenletTree] = []
        """The trees directly below this one."""

    def add_child(self, tree: GreenletTree) -> None:
        """Add a tree below this one."""
        if tree is not self:
            self.children.append(tree)

    @property
    def root(self) -> RawGreenlet:
        """The greenlet at the root of the tree."""
        return self.greenlet

    # -- creating --------------------------------------------------------------------------------------

    @classmethod
    def forest(cls) -> list[Self]:
        """The trees of all threads, with the threads' main greenlets as roots. The calling thread's tree is first."""
        current = getcurrent()
        greenlets = {id(one): one for one in gc.get_objects() if issubclass(type(one), RawGreenlet)}
        for one in list(greenlets.values()):
            top = one
            while (above := _above(top)) is not None:
                greenlets[id(above)] = top = above
        greenlets[id(current)] = current
        trees = {key: cls(one) for key, one in greenlets.items() if _is_alive(one)}
        roots = []
        for tree in sorted(trees.values(), key=lambda tree: _age(tree.greenlet)):
            above = _above(tree.greenlet)
            if above is None or id(above) not in trees:
                roots.append(tree)
            else:
                trees[id(above)].add_child(tree)
        root = trees[id(current)]
        while (above := _above(root.greenlet)) is not None and id(above) in trees:
            root = trees[id(above)]
        root.is_current_tree = True
        return sorted(roots, key=lambda tree: not tree.is_current_tree)

    @classmethod
    def current_tree(cls) -> Self:
        """The tree of the calling thread."""
        return cls.forest()[0]

    # -- formatting ------------------------------------------------------------------------------------

    def format_lines(self, details: bool | dict[str, Any] = True) -> list[str]:
        """Return the tree as lines of text.

        Args:
            details: False shows only the greenlets. A dict can set any of `DEFAULT_DETAILS` to False, and
                `running_stacks` and `spawning_stacks` to a limit of frames as in `traceback.format_stack`.
        """
        shown: dict[str, Any] = {}
        if details:
            shown = {**self.DEFAULT_DETAILS, **(details if isinstance(details, dict) else {})}
        lines: list[str] = []
        self._show(shown, lines, "", "")
        return lines

    def format(self, details: bool | dict[str, Any] = True) -> str:
        """Return the lines of `format_lines`, joined."""
        return "\n".join(self.format_lines(details))

    def __str__(self) -> str:
        return self.format(False)

    def _show(self, shown: dict[str, Any], lines: list[str], first: str, rest: str) -> None:
        lines.append(first + repr(self.greenlet))
        below = rest + (" |  " if self.children else "    ")
        lines += [below + line for line in _details(self.greenlet, shown)] if shown else []
        for child in self.children:
            is_last = child is self.children[-1]
            child._show(shown, lines, rest + " +--- ", rest + ("      " if is_last else " |    "))


def _above(greenlet: RawGreenlet) -> RawGreenlet | None:
    spawner = getattr(greenlet, "spawning_greenlet", None)
    found: Any = spawner() if callable(spawner) else None
    return greenlet.parent if found is None or found.dead else found


def _is_alive(greenlet: RawGreenlet) -> bool:
    # A green thread that was not started counts as alive; a raw greenlet that was not started does not.
    return not greenlet.dead and (bool(greenlet) or isinstance(greenlet, Greenlet))


def _age(greenlet: RawGreenlet) -> int:
    return int(getattr(greenlet, "minimal_ident", 0))


def _details(greenlet: Any, shown: dict[str, Any]) -> list[str]:
    lines = [f"Parent: {greenlet.parent!r}"]
    frame = greenlet.gr_frame
    if greenlet is getcurrent():
        frame = _caller()
    if shown["running_stacks"] and frame is not None:
        lines.append("Running:")
        lines += _indented(traceback.format_stack(frame, _limit(shown["running_stacks"])))
    spawned_at = getattr(greenlet, "spawning_stack", None)
    if shown["spawning_stacks"] and spawned_at:
        lines.append("Spawned at:")
        lines += _indented(traceback.format_stack(spawned_at, _limit(shown["spawning_stacks"])))
    if shown["locals"]:
        of_tree = greenlet.__dict__.get("spawn_tree_locals")
        lines += [f"Spawn tree locals: {config.format_context(of_tree)}"] if of_tree else []
        for owner, attributes in attributes_of(greenlet):
            lines.append(f"Locals of {object.__repr__(owner)}: {config.format_context(attributes)}")
    return lines


def _caller() -> Any:
    """The innermost frame outside of the reporting code."""
    frame: Any = sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__") in (__name__, "oneloop.green.util"):
        frame = frame.f_back
    return frame


def _limit(wanted: Any) -> int | None:
    return None if wanted is True else int(wanted)


def _indented(pieces: list[str]) -> list[str]:
    return ["  " + line for piece in pieces for line in piece.rstrip("\n").split("\n")]
