"""Modules that wait in C or with the originals, where they would hold up all green threads: they are adapted.

psycopg 3 looks for gevent by its name. Here it gets its `wait_poll`, which uses the patched `select.poll`.
multiprocessing: see `processes.py`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from oneloop.green.monkey.realm import found_behind

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

__all__ = ["adapt"]


def adapt() -> None:
    """Adapt the modules that were imported, and those that will be. A second call has no effect."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    for name in _KNOWN:
        if name in sys.modules:
            _adapt(sys.modules[name])
    sys.meta_path.insert(0, _Finder())


def _adapt(module: ModuleType) -> None:
    where, function = _KNOWN[module.__name__]
    getattr(import_module(where), function)(module)


def _wait_in_python(module: Any) -> None:
    # Other versions may have other names: then the driver does what it would do without this.
    if getattr(module, "wait", None) is getattr(module, "wait_c", None) and hasattr(module, "wait_poll"):
        module.wait = module.wait_poll
    if hasattr(module, "_ready_poll"):
        module._ready = module._ready_poll


_PROCESSES = "oneloop.green.monkey.processes"
_KNOWN = {
    "psycopg.waiting": (__name__, _wait_in_python.__name__),
    "concurrent.futures.process": (_PROCESSES, "adapt_executor"),
    "multiprocessing.connection": (_PROCESSES, "adapt_connection"),
    "multiprocessing.context": (_PROCESSES, "adapt_context"),
    "multiprocessing.forkserver": (_PROCESSES, "adapt_forkserver"),
    "multiprocessing.popen_fork": (_PROCESSES, "adapt_popen"),
    "multiprocessing.popen_forkserver": (_PROCESSES, "adapt_start"),
    "multiprocessing.popen_spawn_posix": (_PROCESSES, "adapt_start"),
    "multiprocessing.managers": (_PROCESSES, "adapt_managers"),
    "multiprocessing.queues": (_PROCESSES, "adapt_queues"),
    "multiprocessing.resource_sharer": (_PROCESSES, "adapt_sharer"),
    "multiprocessing.synchronize": (_PROCESSES, "adapt_locks"),
    "multiprocessing.util": (_PROCESSES, "adapt_util"),
}
"""The name of a module -> who adapts it: a module and its function."""


class _Finder:
    """Finds such a module with the finders behind this one, and changes it when it was executed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in _KNOWN:
            return None
        spec = found_behind(self, name, path, target)
        if spec is not None:
            _adapt_loader(spec.loader)
        return spec


def _adapt_loader(loader: Any) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        _adapt(module)

    loader.exec_module = exec_module
