"""Loads a package that a facade replaces, under another name, so that the facade can use it.

Submodules of the package that the program imports under its own name, such as `httpcore._models`, are those of the
copy: there is one of each.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

__all__ = ["claim", "load"]


def load(package: str, name: str) -> ModuleType:
    """Import a package under another name.

    Args:
        package: its own name.
        name: the other one.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    found = PathFinder.find_spec(package)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    places = list(found.submodule_search_locations or ())
    spec = spec_from_file_location(name, found.origin, submodule_search_locations=places)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _Alias(Loader):
    """Loads a module of the copy under the package's name."""

    def __init__(self, target: str) -> None:
        self._target = target

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return None: use an empty module, which `exec_module` replaces."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Import the target. Raises ModuleNotFoundError if it does not exist."""
        sys.modules[module.__name__] = import_module(self._target)


class _Finder(MetaPathFinder):
    """Finds the submodules of packages that are replaced."""

    def __init__(self) -> None:
        # Package -> the name of its copy.
        self.names: dict[str, str] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec that loads the module of the copy; None if the module is of none of the packages."""
        package, _, rest = fullname.partition(".")
        name = self.names.get(package)
        return ModuleSpec(fullname, _Alias(f"{name}.{rest}"), is_package=True) if name and rest else None


_finder = _Finder()


def claim(package: str, name: str) -> None:
    """Make `import package.x` return `name.x` from now on.

    Raises:
        RuntimeError: a submodule of the package itself was already imported.
    """
    for loaded in list(sys.modules):
        if loaded.startswith(f"{package}."):
            raise RuntimeError(f"{loaded!r} was already imported: install the facade before the first import")
    _finder.names[package] = name
    if _finder not in sys.meta_path:
        # Before the finder of files, so that no file is loaded a second time.
        sys.meta_path.insert(0, _finder)
