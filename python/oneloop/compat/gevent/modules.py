"""Maps gevent's modules to oneloop's, and imports the latter under the names of the former."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

__all__ = ["OWNERS", "TARGETS", "claim", "load", "serve"]

_OURS = "oneloop.green"
_SAME = (
    "backdoor baseserver core event events exceptions fileobject greenlet local lock monkey os pool "
    "pywsgi queue resolver resolver.ares resolver.blocking resolver.dnspython resolver.thread select "
    "selectors server signal socket ssl subprocess thread threading threadpool time timeout util "
)

TARGETS = {name: f"{_OURS}.{name}" for name in _SAME.split()} | {
    # Has more names than oneloop's module, because programs on gevent import many names from there.
    "hub": "oneloop.compat.gevent.hub",
    # The standard library's modules: gevent patches nothing in them.
    "builtins": "builtins",
    "contextvars": "contextvars",
    # `python -m gevent.monkey`
    "monkey.__main__": f"{_OURS}.monkey.__main__",
    # Old names.
    "resolver_ares": f"{_OURS}.resolver.ares",
    "resolver_thread": f"{_OURS}.resolver.thread",
}
"""gevent's module, without the package -> the full name of the module that implements it."""

OWNERS = {
    "config": _OURS,
    "fork": f"{_OURS}.os",
    "getswitchinterval": "sys",
    "reinit": f"{_OURS}.hub",
    "setswitchinterval": "sys",
    "signal_handler": _OURS,
}
"""Names of the package gevent that are imported on first use -> the modules that have them."""


class _Alias(Loader):
    """Loads a module under another name."""

    def __init__(self, target: str) -> None:
        self._target = target

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return None: use an empty module, which `exec_module` replaces."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Import the target. Raises ModuleNotFoundError if it does not exist."""
        # The import system returns the module that it finds here afterwards.
        sys.modules[module.__name__] = import_module(self._target)

    def get_code(self, _: str) -> CodeType | None:
        """Return the target's code, for `python -m`."""
        spec = find_spec(self._target)
        loader: Any = None if spec is None else spec.loader
        code: CodeType | None = loader.get_code(self._target)
        return code


class _Finder(MetaPathFinder):
    """Finds the submodules of the packages that it serves."""

    def __init__(self) -> None:
        # Package -> prefix of the module names; None means that `TARGETS` has the full names.
        self.packages: dict[str, str | None] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec that loads the target module; None if the module is not one of ours."""
        for package, prefix in self.packages.items():
            name = fullname.removeprefix(f"{package}.")
            if name == fullname:
                continue
            if prefix is not None:
                known = name in TARGETS
                return ModuleSpec(fullname, _Alias(prefix + name), is_package=_is_package(name)) if known else None
            goal = TARGETS.get(name)
            if goal is not None and goal != fullname:
                return ModuleSpec(fullname, _Alias(goal), is_package=_is_package(name))
        return None


def _is_package(name: str) -> bool:
    return any(other.startswith(f"{name}.") for other in TARGETS)


_finder = _Finder()


def serve(package: str) -> None:
    """Make the submodules of the facade importable. Called when the facade is imported."""
    _finder.packages[package] = None
    if _finder not in sys.meta_path:
        # Before the path-based finder, so that no file is loaded a second time under another name.
        sys.meta_path.insert(0, _finder)


def load(package: str, name: str) -> ModuleType:
    """Import a submodule of the facade, under gevent's name too if that was claimed: programs look into `sys.modules`.

    Args:
        package: the facade.
        name: the submodule, without the package.
    """
    for claimed, prefix in _finder.packages.items():
        if prefix == f"{package}.":
            import_module(f"{claimed}.{name}")
    return import_module(f"{package}.{name}")


def claim(package: str, facade: str) -> None:
    """Make `import package.x` return `facade.x` from now on.

    Raises:
        RuntimeError: a submodule of the real package was already imported.
    """
    for name in TARGETS:
        loaded = sys.modules.get(f"{package}.{name}")
        if loaded is not None and loaded is not sys.modules.get(f"{facade}.{name}"):
            raise RuntimeError(f"'{package}.{name}' was already imported: install the facade before the first import")
    _finder.packages[package] = f"{facade}."
