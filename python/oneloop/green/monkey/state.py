"""The state of patching: the originals of the replaced names."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

__all__ = [
    "MonkeyPatchWarning",
    "get_original",
    "is_anything_patched",
    "is_module_patched",
    "is_object_patched",
]

saved: dict[str, dict[str, Any]] = {}
"""Module name -> name -> original value."""

replaced: dict[str, dict[str, Any]] = {}
"""Module name -> name -> replacement."""

rebound: dict[str, dict[str, Any]] = {}
"""As `saved`, for names of the standard library that were replaced because they are another module's too."""

kept: dict[int, tuple[Any, set[str]]] = {}
"""Identity of an original -> it, and the modules that have asked for it, and whose names for it stay.

By identity, because an object has several names: threading's Lock is _thread's lock, which is patched before.
"""

_MISSING: Any = object()


class MonkeyPatchWarning(RuntimeWarning):
    """Patching may be incomplete. The message names what was created or imported too early."""


def is_anything_patched() -> bool:
    """Whether any module was patched."""
    return bool(saved)


def is_module_patched(mod_name: str) -> bool:
    """Whether any name of a module was replaced."""
    return mod_name in saved


def is_object_patched(mod_name: str, item_name: str) -> bool:
    """Whether a name of a module was replaced."""
    return item_name in saved.get(mod_name, {}) or item_name in rebound.get(mod_name, {})


def get_original(mod_name: str, item_name: str | list[str] | tuple[str, ...]) -> Any:
    """The original value of a name of a module; for a list of names, a list.

    Patching that comes later leaves it to the module that calls this.

    Raises:
        ImportError: there is no such module.
        AttributeError: the module has no such name.
    """
    caller = str(sys._getframe(1).f_globals.get("__name__"))
    names = [item_name] if isinstance(item_name, str) else item_name
    found = [_original(mod_name, name) for name in names]
    for original in found:
        kept.setdefault(id(original), (original, set()))[1].add(caller)
    return found[0] if isinstance(item_name, str) else found


def _original(mod_name: str, item_name: str) -> Any:
    for originals in (saved, rebound):
        found = originals.get(mod_name, {}).get(item_name, _MISSING)
        if found is not _MISSING:
            return found
    return getattr(import_module(mod_name), item_name)


def patch_item(module: Any, name: str, item: object) -> None:
    """Replace a name of a module, and save the first original value."""
    original = getattr(module, name, _MISSING)
    if original is item:
        return
    if original is not _MISSING:
        saved.setdefault(module.__name__, {}).setdefault(name, original)
        replaced.setdefault(module.__name__, {})[name] = item
    setattr(module, name, item)


def loaded(name: str) -> Any:
    """A module if it was imported, otherwise None."""
    return sys.modules.get(name)
