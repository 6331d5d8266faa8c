"""Which module of ours stands for which of gevent's, and the import of the one by the name of the other."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

__all__ = ["OWNERS", "TARGETS", "claim", "serve"]

_OURS = "oneloop.green"
_SAME = (
    "backdoor baseserver core event events exceptions fileobject greenlet local lock monkey os pool "
    "pywsgi queue resolver resolver.ares resolver.blocking resolver.dnspython resolver.thread select "
    "selectors server signal socket ssl subprocess thread threading threadpool time timeout util "
)

TARGETS = {name: f"{_OURS}.{name}" for name in _SAME.split()} | {
    # More names than ours has, since programs on gevent find everything there.
    "hub": "oneloop.compat.gevent.hub",
    # Nothing is patched in them: the standard library's.
    "builtins": "builtins",
    "contextvars": "contextvars",
    # Old names.
    "resolver_ares": f"{_OURS}.resolver.ares",
    "resolver_thread": f"{_OURS}.resolver.thread",
}
"""Module of gevent's, without the package: the full name of what stands for it."""

OWNERS = {
    "config": _OURS,
    "fork": f"{_OURS}.os",
    "getswitchinterval": "sys",
    "reinit": f"{_OURS}.hub",
    "setswitchinterval": "sys",
    "signal_handler": _OURS,
}
"""Names of gevent's own which are fetched at their first use: the modules that have them."""


class _Alias(Loader):
    """Gives the module that stands for another one."""

    def __init__(self, target: str) -> None:
        self._target = target

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """None: an empty one, which nobody sees."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """ModuleNotFoundError if the target is not there."""
        # The importing machinery takes what stands here afterwards.
        sys.modules[module.__name__] = import_module(self._target)


class _Finder(MetaPathFinder):
    """Finds the submodules of the packages that it serves."""

    def __init__(self) -> None:
        # Package: what is in front of the names of `TARGETS`; None: `TARGETS` itself.
        self.packages: dict[str, str | None] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The way to the module that stands for it; None for what is none of ours."""
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
    """From here on the submodules of the facade are found. Done when it is imported."""
    _finder.packages[package] = None
    if _finder not in sys.meta_path:
        # Before the files: a file must not be loaded a second time, under a second name.
        sys.meta_path.insert(0, _finder)


def claim(package: str, facade: str) -> None:
    """From here on `import package.x` gives `facade.x`.

    Raises:
        RuntimeError: submodules of the package itself have been imported.
    """
    for name in TARGETS:
        loaded = sys.modules.get(f"{package}.{name}")
        if loaded is not None and loaded is not sys.modules.get(f"{facade}.{name}"):
            raise RuntimeError(f"'{package}.{name}' has been imported already: install the facade before it")
    _finder.packages[package] = f"{facade}."
