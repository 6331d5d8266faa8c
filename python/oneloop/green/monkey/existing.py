"""What was made before patching, and would go on as before: names that other modules hold, locks, threads, subclasses.

Names and locks are replaced. What cannot be is told by a warning that names it.
"""

from __future__ import annotations

import gc
import logging
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oneloop.green.monkey import realm, state

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["rebind_holders", "replace_locks", "running_threads", "told_subclasses"]


def _modules() -> list[ModuleType]:
    """Those of patched code: they are written in Python, and not of the realm."""
    found = []
    for name, module in list(sys.modules.items()):
        is_patched = not realm.belongs(name) and not name.startswith("importlib.")
        file = str(getattr(module, "__file__", None))
        if is_patched and (name == "__main__" or file.endswith((".py", ".pyc"))):
            found.append(module)
    return found


def rebind_holders(module_name: str) -> None:
    """Have modules that took names from a module before (`from ssl import SSLContext`) hold what replaced them."""
    module = sys.modules[module_name]
    replaced = {
        id(original): getattr(module, name)
        for name, original in state.saved.get(module_name, {}).items()
        if isinstance(original, type) or callable(original)
    }
    for holder in _modules():
        names = holder.__dict__
        if names is module.__dict__:
            continue
        for name, value in list(names.items()):
            item = replaced.get(id(value))
            if item is not None and item is not value:
                names[name] = item


def told_subclasses(module_name: str, names: Iterable[str]) -> list[str]:
    """Warnings: classes that were derived from what was replaced."""
    told = []
    for name in names:
        original = state.saved.get(module_name, {}).get(name)
        if not isinstance(original, type):
            continue
        derived: list[type] = type.__subclasses__(original)
        early = [
            f"{kind.__module__}.{kind.__qualname__}"
            for kind in derived
            if not realm.belongs(kind.__module__) and kind.__module__ not in (module_name, "_ssl")
        ]
        if early:
            told.append(
                f"{', '.join(early)}: derived from {module_name}.{name} before it was patched, and still blocking. "
                f"Import {', '.join(sorted({kind.rpartition('.')[0] for kind in early}))} after patch_all()"
            )
    return told


def running_threads() -> list[str]:
    """Warnings: threads that run."""
    module = _patched("threading")
    known = (module.main_thread(), *realm.real("threading")._active.values())
    threads = [one for one in module._active.values() if one not in known and not isinstance(one, module._DummyThread)]
    if not threads:
        return []
    names = ", ".join(repr(thread.name) for thread in threads)
    told = (
        f"threads run already: {names}. They go on as threads of the interpreter, whose locks and thread-locals are "
        "not those of green threads; start threads after patch_all()"
    )
    return [told]


def _patched(name: str) -> Any:
    """A module as patched code has it; the names of this one are the realm's."""
    return sys.modules[name]


# -- locks -------------------------------------------------------------------------------------------

_BOUND = ("acquire", "release", "locked", "_release_save", "_acquire_restore", "_is_owned")


class _Locks:
    """Green locks in the place of real ones; one that several objects share stays shared. Held ones stay."""

    def __init__(self) -> None:
        thread = realm.real("_thread")
        from oneloop.green.threadlock import LockType, RLock

        self._kinds: dict[type, Any] = {thread.LockType: LockType, thread.RLock: RLock}
        self._made: dict[int, Any] = {}
        self._kept: list[Any] = []

    def of(self, lock: Any) -> Any:
        """What comes into a lock's place; None: it stays."""
        kind = self._kinds.get(type(lock))
        if kind is None:
            return None
        made = self._made.get(id(lock))
        if made is None:
            if self._is_owned(lock) or not lock.acquire(False):
                return None
            lock.release()
            made = self._made[id(lock)] = kind()
            self._kept.append(lock)
        return made

    @staticmethod
    def _is_owned(lock: Any) -> bool:
        # A reentrant one is acquired again by its owner.
        is_owned = getattr(lock, "_is_owned", None)
        return is_owned is not None and bool(is_owned())

    def replace(self, names: Any) -> None:
        """Those among the values of a dictionary."""
        for name, value in list(names.items()):
            made = self.of(value)
            if made is not None:
                names[name] = made


def replace_locks(of_modules: bool = True, of_logging: bool = True) -> None:
    """Have locks that exist already be green: of modules, conditions, events and queues; of logging's handlers."""
    locks = _Locks()
    kinds: tuple[type, ...] = ()
    if of_modules:
        for module in _modules():
            if module is not logging:
                locks.replace(module.__dict__)
        threading = _patched("threading")
        kinds = (threading.Condition, threading.Event, threading.Semaphore, threading.Barrier, *_queue_kinds())
    if of_logging:
        locks.replace(logging.__dict__)
        kinds += (logging.Handler,)
    for one in gc.get_objects():
        # Not isinstance: objects may say anything of their class.
        if issubclass(type(one), kinds):
            _replace_in(one, locks)


def _queue_kinds() -> tuple[type, ...]:
    module = state.loaded("queue")
    return () if module is None else (module.Queue,)


def _replace_in(one: Any, locks: _Locks) -> None:
    names = one.__dict__
    if isinstance(one, _patched("threading").Condition):
        made = locks.of(names.get("_lock"))
        if made is not None:
            _give_lock(one, made)
        return
    locks.replace(names)


def _give_lock(condition: Any, lock: Any) -> None:
    names = condition.__dict__
    names["_lock"] = lock
    for name in _BOUND:
        if hasattr(lock, name):
            names[name] = getattr(lock, name)


def adapt_imports() -> None:
    """The import system's locks: green threads that import the same module wait for each other."""
    bootstrap = import_module("importlib._bootstrap")

    from oneloop.green.thread import get_ident
    from oneloop.green.threadlock import ImportLock, ImportRLock

    names = ModuleType("_thread")
    names.__dict__.update(realm.real("_thread").__dict__)
    names.__dict__.update(allocate_lock=ImportLock, RLock=ImportRLock, get_ident=get_ident)
    bootstrap._thread = names  # type: ignore[attr-defined]
