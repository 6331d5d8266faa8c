"""Prepares a process for gevent's tests: what `import gevent` returns, and who is told the outcome of each test.

`import gevent` returns oneloop's facade. Only the packages `gevent.testing` and `gevent.tests` are gevent's files, and
private modules that these packages use are those of the folder `shim`. A process that was started by `runner.py`, and
not by a test, also records its outcomes.

The tests depend on which modules were loaded before they patch the standard library. Therefore this file imports only
what every interpreter has loaded.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

FOLDER = "GEVENT_SUITE_FOLDER"
"""The environment variable with the folder of gevent's unpacked wheel; not set for the installed gevent."""
RESULTS = "GEVENT_SUITE_RESULTS"
"""The environment variable with the file for the outcomes."""

_SHIM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shim")
_THEIRS = ("gevent.testing", "gevent.tests")

# importlib's classes, without importing importlib: every interpreter has loaded these modules.
_external: Any = sys.modules["_frozen_importlib_external"]
_spec: Any = sys.modules["_frozen_importlib"].ModuleSpec


def enter() -> None:
    """Prepare this process."""
    folder = os.environ.get(FOLDER)
    if folder is not None:
        sys.meta_path.insert(0, _Finder(folder))
    # Not for the processes that a test starts.
    results = os.environ.pop(RESULTS, None)
    if results is not None:
        sys.meta_path.insert(0, _Recording(results))


class _Finder:
    """Finds the facade, gevent's tests and the shim."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, "gevent")

    def find_spec(self, name: str, path: Sequence[str] | None, _: ModuleType | None = None) -> ModuleSpec | None:
        """Return a spec for the module `name`; None if it is none of gevent's."""
        if name == "gevent":
            from oneloop import compat

            compat.install("gevent")
            return _spec(name, _Loaded(sys.modules[name]), is_package=True)  # type: ignore[no-any-return]
        facade, __, submodule = name.rpartition(".")
        known = f"gevent.{submodule}"
        if facade == "oneloop.compat.gevent" and (known in _THEIRS or _is_shim(submodule)):
            # `from gevent import x` asks for a submodule of the facade under its own name.
            __import__(known)
            return _spec(name, _Loaded(sys.modules[known]))  # type: ignore[no-any-return]
        if not name.startswith("gevent."):
            return None
        places = path
        if name in _THEIRS:
            places = [self._folder]
        elif not name.startswith(_THEIRS):
            places = [_SHIM]
        found: ModuleSpec | None = _external.PathFinder.find_spec(name, places)
        return found


def _is_shim(name: str) -> bool:
    return os.path.exists(os.path.join(_SHIM, f"{name}.py"))


class _Loaded:
    """Loads a module that is there already."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def create_module(self, _: ModuleSpec) -> None:
        """Use an empty module, which `exec_module` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the module into its place."""
        sys.modules[module.__spec__.name] = self._module  # type: ignore[union-attr]


class _Recording:
    """Makes unittest record the outcomes when it has been loaded."""

    def __init__(self, results: str) -> None:
        self._results = results

    def find_spec(self, name: str, path: Sequence[str] | None, _: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of unittest's last module, with a loader that calls `recording.install` afterwards."""
        if name != "unittest.main":
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        found: Any = _external.PathFinder.find_spec(name, path)
        execute = found.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            from tests.gevent_suite import recording

            recording.install(self._results)

        found.loader.exec_module = exec_module
        return found  # type: ignore[no-any-return]
