"""Makes a process use oneloop when its program imports asyncio or uvloop.

`enter` is called in the process of `oneloop run`, and by `children/sitecustomize.py` in each Python process that the
program starts. Nothing is loaded before the program needs it: a finder at the front of `sys.meta_path` handles the
import of asyncio and of packages that a facade replaces. Therefore this file imports only `os`, `sys` and `_thread` at
its top, and no other file of oneloop.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType
    from typing import Any

__all__ = ["VARIABLE", "Finder", "Settings", "carry", "enter", "enter_child", "forget_shadowed"]

VARIABLE = "ONELOOP_RUN"
"""The environment variable that carries the settings into child processes."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_CHILDREN = os.path.join(_PACKAGE, "running", "children")

# importlib's finder, without importing importlib: every interpreter has loaded this module.
_PathFinder: Any = sys.modules["_frozen_importlib_external"].PathFinder


class Settings:
    """The options of `oneloop run` that also apply to child processes.

    Args:
        replace: packages to replace by their facades.
        keep_named: do not replace uvloop and `asyncio.SelectorEventLoop`.
        patch: patch the standard library for green threads.
        stats: print the statistics of every loop at exit.
    """

    def __init__(
        self, *, replace: Sequence[str] = (), keep_named: bool = False, patch: bool = False, stats: bool = False
    ) -> None:
        self.replace = tuple(replace)
        self.keep_named = keep_named
        self.patch = patch
        self.stats = stats

    def text(self) -> str:
        """Return the value of the environment variable for these settings."""
        words = ["on", *(f"replace={name}" for name in self.replace)]
        words += [name for name in ("keep_named", "patch", "stats") if getattr(self, name)]
        return " ".join(words)

    @classmethod
    def of(cls, text: str) -> Settings:
        """Parse the result of `text()`. Unknown words, from another version of oneloop, are ignored."""
        words = text.split()
        replace = [word.removeprefix("replace=") for word in words if word.startswith("replace=")]
        return cls(replace=replace, keep_named="keep_named" in words, patch="patch" in words, stats="stats" in words)


class _State:
    settings: Settings | None = None
    is_child = False
    is_active = False
    is_waiting = False
    """Whether `_begin` must be called again when the interpreter has started."""
    thread: int | None = None
    """The thread that imports oneloop for the program."""
    shadowed: list[str] = []  # noqa: RUF012 - there is one for the process
    """Modules that this thread has imported, although the program has modules of these names."""


def carry(chosen: Settings) -> None:
    """Write the settings to the environment, so that Python processes that are started from now on apply them."""
    os.environ[VARIABLE] = chosen.text()
    before = os.environ.get("PYTHONPATH", "")
    if before.split(os.pathsep)[0] != _CHILDREN:
        os.environ["PYTHONPATH"] = _CHILDREN + (os.pathsep + before if before else "")


def enter_child() -> None:
    """Apply the settings in the environment. Called when the interpreter of a child process starts."""
    _State.is_child = True
    enter(Settings.of(os.environ[VARIABLE]))


def enter(chosen: Settings) -> None:
    """Make oneloop the loop of this process. A second call replaces the settings of the first."""
    first = _State.settings is None
    _State.settings = chosen
    if first:
        sys.meta_path.insert(0, Finder())
    _begin()


def _begin() -> None:
    """Apply the settings that do not wait for an import."""
    chosen = _State.settings
    if chosen is None or _must_wait():
        return
    if "asyncio" in sys.modules:
        _activate()
    if chosen.patch:
        from oneloop.green.monkey import patching

        patching.patch_all()


def _must_wait() -> bool:
    """Whether `site` is running, in Python 3.15 or later: the interpreter is not initialized then, and PyO3 fails."""
    if sys.hexversion < 0x030F0000:
        return False
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == "site":
            _State.is_waiting = True
            return True
        frame = frame.f_back
    return False


def _is_importing_loop() -> bool:
    """Whether `oneloop.loop` itself imports asyncio: its class is there at the end of that import."""
    module = sys.modules.get("oneloop.loop")
    return module is not None and not hasattr(module, "Loop")


def _activate() -> None:
    """Replace the loops of asyncio, which has just been imported."""
    if _State.is_active or _State.settings is None or _must_wait() or _is_importing_loop():
        return
    _State.is_active = True
    _State.thread = get_ident()
    try:
        from oneloop.factories import replace_factories
        from oneloop.running import report

        replace_factories(named=not _State.settings.keep_named)
        report.watch(is_child=_State.is_child, keeps_named=_State.settings.keep_named)
        if _State.settings.stats:
            from oneloop.cli import stats

            stats.at_exit(is_child=_State.is_child)
    finally:
        _State.thread = None
        _forget(_State.shadowed)


def forget_shadowed(entry: str) -> None:
    """Forget the loaded modules that the program would import from its own folder under `python`.

    A program's `types.py` hides the module of the standard library, unless that is already loaded: by this command.

    Args:
        entry: the program's item of `sys.path`.
    """
    kept = (*sys.builtin_module_names, "__main__", "encodings", "oneloop")
    loaded = {name.partition(".")[0] for name in sys.modules}.difference(kept)
    _forget([name for name in loaded if _is_hidden(entry, getattr(sys.modules.get(name), "__spec__", None))])


def _forget(names: Sequence[str]) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in names]:
        del sys.modules[name]


def _is_hidden(entry: str, found: ModuleSpec | None) -> bool:
    """Whether this item of `sys.path` has another module of the same name.

    A folder without `__init__.py` hides nothing. Built-in and frozen modules cannot be hidden.
    """
    if found is None or found.origin in ("built-in", "frozen"):
        return False
    hiding = _PathFinder.find_spec(found.name, [entry])
    return hiding is not None and hiding.origin not in (None, found.origin)


class Finder:
    """Finds modules that are changed after their import, the facades of other packages, and oneloop itself."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec with a loader of this file for the modules that are changed or replaced.

        For oneloop, return its usual spec. For all other modules return None, so that the other finders find them.
        """
        if _State.is_waiting and name.partition(".")[0] != "oneloop" and not _must_wait():
            _State.is_waiting = False
            _begin()
        chosen = _State.settings
        if chosen is None:
            return None
        if _State.thread == get_ident() and name in sys.stdlib_module_names and not sys.flags.safe_path:
            needed: ModuleSpec | None = _PathFinder.find_spec(name, sys.path[1:])
            if name not in sys.builtin_module_names and _is_hidden(sys.path[0], needed):
                _State.shadowed.append(name)
                return needed
        if name == "oneloop":
            # oneloop might not be on the path of a child process.
            found: ModuleSpec | None = _PathFinder.find_spec(name, [os.path.dirname(_PACKAGE)])
            return found
        if name in _CHANGES:
            spec = self._spec_of_others(name, path)
            if spec is not None and hasattr(spec.loader, "exec_module"):
                spec.loader = _Changed(spec.loader, _CHANGES[name])  # type: ignore[assignment]
            return spec
        # uvloop is replaced only if it is installed. A program that does not find it behaves as under `python`.
        if name in chosen.replace or (
            name == "uvloop" and not chosen.keep_named and self._spec_of_others(name) is not None
        ):
            return type(__spec__)(name, _Facade())  # type: ignore[arg-type]
        return None

    def _spec_of_others(self, name: str, path: Sequence[str] | None = None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is not self and find is not None:
                spec: ModuleSpec | None = find(name, path, None)
                if spec is not None:
                    return spec
        return None


def _activate_after(_: ModuleType) -> None:
    _activate()


def _hide_frames_in(module: ModuleType) -> None:
    # A child process has no frames of ours below its program.
    if not _State.is_child:
        from oneloop.running import frames

        frames.hide_in(module)


_CHANGES = {
    "asyncio": _activate_after,
    "oneloop.loop": _activate_after,
    "traceback": _hide_frames_in,
    "bdb": _hide_frames_in,
}
"""What is done after the import of a module."""


class _Changed:
    """The loader of a module that is changed: calls the original loader, and then a function with the module."""

    def __init__(self, loader: Any, then: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def __getattr__(self, name: str) -> Any:
        # Tools that find modules without their import ask for the source, the file and more.
        if name in ("_loader", "_then"):
            raise AttributeError(name)
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        # The program must see the original loader.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._then(module)


class _Facade:
    """The loader of a facade."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        from oneloop import compat

        # Remove the empty module that the import system has made; the facade replaces it.
        del sys.modules[module.__name__]
        compat.install(module.__name__)
