"""Objects that were created before patching: names in other modules, locks, threads and subclasses.

Names and locks are replaced. For what cannot be replaced, a warning names it.
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

__all__ = ["rebind_holders", "replace_locks", "running_threads", "subclass_warnings"]


def _modules() -> list[ModuleType]:
    """The modules that are patched: those written in Python that do not belong to the realm."""
    found = []
    for name, module in list(sys.modules.items()):
        # `gevent.signal` can be another name of one of ours.
        is_ours = realm.belongs(name) or realm.belongs(str(getattr(module, "__name__", name)))
        is_patched = not is_ours and not name.startswith("importlib.")
        file = str(getattr(module, "__file__", None))
        if is_patched and (name == "__main__" or file.endswith((".py", ".pyc"))):
            found.append(module)
    return found


def rebind_holders(module_name: str) -> None:
    """Update the names that modules have imported from a module before (`from ssl import SSLContext`).

    Outside of the standard library, another name (`native_sleep = time.sleep`) stays: it often keeps the original.
    So do all names of a module for what it has asked `get_original` for.
    """
    module = sys.modules[module_name]
    replaced: dict[int, tuple[set[str], Any]] = {}
    for name, original in state.saved.get(module_name, {}).items():
        if isinstance(original, type) or callable(original):
            replaced.setdefault(id(original), (set(), getattr(module, name)))[0].add(_plain(name))
    holders = [holder for holder in _modules() if holder.__dict__ is not module.__dict__]
    stock = [holder for holder in holders if _is_stock(holder)]
    # An object can have several public names: threading's Lock is _thread's allocate_lock.
    for holder in stock:
        for name, value in holder.__dict__.items():
            if id(value) in replaced and not name.startswith("_"):
                replaced[id(value)][0].add(_plain(name))
    for holder in holders:
        _rebind(holder, replaced, holder in stock)


def _rebind(holder: ModuleType, replaced: dict[int, tuple[set[str], Any]], is_stock: bool) -> None:
    names = holder.__dict__
    for name, value in list(names.items()):
        known, item = replaced.get(id(value), (set(), value))
        if item is value or (id(value) in state.kept and holder.__name__ in state.kept[id(value)][1]):
            continue
        if is_stock:
            # When its own module is patched, it is the replacement already: `threading.Lock` is `_thread`'s.
            state.rebound.setdefault(holder.__name__, {}).setdefault(name, value)
        if is_stock or _plain(name) in known:
            names[name] = item


def _is_stock(module: ModuleType) -> bool:
    return module.__name__.partition(".")[0] in sys.stdlib_module_names and module.__name__ != "__main__"


def _plain(name: str) -> str:
    """A name without what distinguishes `_thread.lock`, `threading.Lock` and `_Lock`."""
    return name.lstrip("_").lower()


def subclass_warnings(module_name: str, names: Iterable[str]) -> list[str]:
    """Warnings about classes that were derived from the originals of replaced classes."""
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
                f"{', '.join(early)}: derived from {module_name}.{name} before it was patched, so it still blocks. "
                f"Import {', '.join(sorted({kind.rpartition('.')[0] for kind in early}))} after patch_all()"
            )
    return told


def running_threads() -> list[str]:
    """Warnings about threads that are running."""
    module = _patched("threading")
    known = (module.main_thread(), *realm.real("threading")._active.values())
    threads = [one for one in module._active.values() if one not in known and not isinstance(one, module._DummyThread)]
    if not threads:
        return []
    names = ", ".join(repr(thread.name) for thread in threads)
    told = (
        f"threads run already: {names}. They stay OS threads, and their locks and thread-locals are "
        "not those of green threads; start threads after patch_all()"
    )
    return [told]


def _patched(name: str) -> Any:
    """A module as patched code sees it; the names of this module are the realm's."""
    return sys.modules[name]


# -- locks -------------------------------------------------------------------------------------------

_BOUND = ("acquire", "release", "locked", "_release_save", "_acquire_restore", "_is_owned")


class _Locks:
    """Green replacements for real locks. Objects that share a lock share the replacement. Held locks stay."""

    def __init__(self) -> None:
        thread = realm.real("_thread")
        from oneloop.green.threadlock import LockType, RLock

        self._kinds: dict[type, Any] = {thread.LockType: LockType, thread.RLock: RLock}
        self._made: dict[int, Any] = {}
        self._kept: list[Any] = []

    def of(self, lock: Any) -> Any:
        """The replacement of a lock; None if the lock must stay."""
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
        # The owner of a reentrant lock could acquire it again, so `acquire` does not detect this.
        is_owned = getattr(lock, "_is_owned", None)
        return is_owned is not None and bool(is_owned())

    def replace(self, names: Any) -> None:
        """Replace the locks among the values of a dictionary."""
        for name, value in list(names.items()):
            made = self.of(value)
            if made is not None:
                names[name] = made


def replace_locks(of_modules: bool = True, of_logging: bool = True) -> None:
    """Replace existing locks by green ones: in modules, conditions, events and queues, and in logging's handlers."""
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
        # Not isinstance(): an object's `__class__` can be anything.
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
    """Replace the import system's locks, so that green threads that import the same module wait for each other."""
    bootstrap = import_module("importlib._bootstrap")

    from oneloop.green.thread import get_ident
    from oneloop.green.threadlock import ImportLock, ImportRLock

    names = ModuleType("_thread")
    names.__dict__.update(realm.real("_thread").__dict__)
    names.__dict__.update(allocate_lock=ImportLock, RLock=ImportRLock, get_ident=get_ident)
    bootstrap._thread = names  # type: ignore[attr-defined]
