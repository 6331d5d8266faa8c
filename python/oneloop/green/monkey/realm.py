"""The realm: the modules that must not be patched: asyncio, multiprocessing, pools of processes, oneloop itself.

They use copies of the patched modules from before patching: `threading` with the interpreter's threads, `socket` with
blocking sockets, and so on. In modules that are imported already, the names are rebound. The others get their own
`__import__`, which returns the copies, from a finder at the start of `sys.meta_path`.

A copy is made in one of three ways:

- Modules of C functions: copy the dictionary, or make a view of it.
- Modules in which classes are replaced by ours (`socket`, `ssl`): also move the Python functions and the methods of the
  replaced classes to the copy. Objects of these classes work as before. A method that names its class
  (`super(SSLContext, SSLContext)`) does not find our class, which would call the method again.
- Modules whose own classes become green (`threading`): execute the module a second time.
"""

from __future__ import annotations

import builtins
import functools
import sys
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from oneloop.green.monkey import state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["prepare", "real"]

_SHALLOW = ("_thread", "time")
_VIEWED = ("os", "select", "signal")
_MOVED = {"socket": ("socket",), "ssl": ("SSLContext", "SSLSocket")}
_EXECUTED = ("threading", "queue", "selectors", "subprocess")
# In these, asyncio sees the classes and functions that a program (a test) has replaced.
_ASKED = ("ssl", "subprocess")
# Copies that only asyncio uses: its default executor uses the interpreter's threads.
_FUTURES = ("concurrent", "concurrent.futures")
_GREEN = ("threading", "time", "socket", "queue", "executor", "select", "selectors", "ssl", "os", "signal")

_PACKAGES = ("asyncio", "multiprocessing", "oneloop")
_MODULES = ("concurrent.futures.process", "concurrent.futures.interpreter")

_copies: dict[str, Any] = {}
# What asyncio uses instead of some of the copies.
_asked: dict[str, Any] = {}
# Maps the identity of a module or value in patched code to its counterpart in the realm.
_counterparts: dict[int, Any] = {}
# Keeps the objects alive whose identities are keys of `_counterparts`.
_kept: list[Any] = []


def real(name: str) -> Any:
    """The copy of a module from before patching."""
    prepare()
    return _copies[name]


def belongs(name: str) -> bool:
    """Whether a module belongs to the realm."""
    return name in _MODULES or name.partition(".")[0] in _PACKAGES


def prepare() -> None:
    """Make the copies and give them to the modules of the realm. Called before anything is replaced; runs once."""
    if _copies:
        return
    for name in (*_SHALLOW, *_VIEWED, *_MOVED, *_EXECUTED, "concurrent.futures"):
        import_module(name)
    # Import these now, so that they use the original modules.
    for name in (*_GREEN, "subprocess"):
        import_module(f"oneloop.green.{name}")
    _have_native_code_look()
    _make_copies()
    for name, copy in _copies.items():
        _note(sys.modules[name], copy)
    if "concurrent.futures.interpreter" in sys.modules:
        _thread_pools()
    for name, module in list(sys.modules.items()):
        if belongs(name) and isinstance(module, ModuleType):
            _rebind(module)
    sys.meta_path.insert(0, _Finder())


def _make_copies() -> None:
    for name in _SHALLOW:
        _copies[name] = _copied(sys.modules[name])
    for name in _VIEWED:
        _copies[name] = _viewed(sys.modules[name])
    for name, classes in _MOVED.items():
        _copies[name] = _moved(sys.modules[name], classes)
    for name in _EXECUTED:
        _copies[name] = _executed(sys.modules[name])
    _share_outcomes()
    _copy_futures()
    for name in _ASKED:
        _asked[name] = _asking_first(sys.modules[name], _copies[name])


def _have_native_code_look() -> None:
    """Make native code look up `socket.socket` and `ssl.SSLSocket` now: it caches them on first use."""
    from oneloop.loop import Loop

    loop, sock = Loop(), sys.modules["socket"].socket()
    try:
        sock.setblocking(False)
        loop.sock_recv(sock, 1).close()
    finally:
        sock.close()
        loop.close()


# -- copies ------------------------------------------------------------------------------------------


def _copied(module: ModuleType) -> ModuleType:
    copy = ModuleType(module.__name__, module.__doc__)
    copy.__dict__.update(module.__dict__)
    return copy


def _viewed(module: ModuleType) -> ModuleType:
    """A view of the module's current names (a test may have replaced some), except for those that patching replaced."""
    copy = ModuleType(module.__name__, module.__doc__)
    names = module.__dict__
    replaced = state.replaced.setdefault(module.__name__, {})

    def find(name: str) -> Any:
        try:
            value = names[name]
        except KeyError:
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}") from None
        return state.saved[module.__name__][name] if name in replaced and replaced[name] is value else value

    copy.__dict__.update(__getattr__=find, __dir__=lambda: list(names), __file__=getattr(module, "__file__", None))
    if "__all__" in names:
        copy.__dict__["__all__"] = names["__all__"]
    return copy


def _moved(module: ModuleType, classes: Iterable[str]) -> ModuleType:
    copy = _copied(module)
    for name, value in module.__dict__.items():
        if isinstance(value, FunctionType) and value.__globals__ is module.__dict__:
            copy.__dict__[name] = _with_globals(value, copy.__dict__)
    for name in classes:
        _move_methods(getattr(module, name), module, copy)
    copy.__dict__["__builtins__"] = _real_builtins()
    return copy


def _with_globals(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = function.__qualname__
    copy.__doc__ = function.__doc__
    copy.__module__ = function.__module__
    copy.__dict__.update(function.__dict__)
    return copy


def _move_methods(kind: type, module: ModuleType, copy: ModuleType) -> None:
    def moved(value: Any) -> Any:
        if isinstance(value, FunctionType) and value.__globals__ is module.__dict__:
            return _with_globals(value, copy.__dict__)
        if isinstance(value, property):
            return property(moved(value.fget), moved(value.fset), moved(value.fdel), value.__doc__)
        if isinstance(value, (classmethod, staticmethod)):
            return type(value)(moved(value.__func__))
        return value

    for name, value in list(kind.__dict__.items()):
        if isinstance(value, (FunctionType, property, classmethod, staticmethod)):
            setattr(kind, name, moved(value))


def _executed(module: ModuleType) -> ModuleType:
    spec = module.__spec__
    if spec is None or spec.loader is None:
        raise ImportError(f"{module.__name__} cannot be copied: it has no loader", name=module.__name__)
    copy = ModuleType(module.__name__, module.__doc__)
    copy.__dict__.update(__spec__=spec, __file__=module.__file__, __package__=module.__package__)
    copy.__dict__["__builtins__"] = _real_builtins()
    spec.loader.exec_module(copy)
    return copy


def _share_outcomes() -> None:
    """Share classes between both modules that programs catch or receive: exceptions and results."""
    for name in _EXECUTED:
        module, copy = sys.modules[name], _copies[name]
        for item, value in list(copy.__dict__.items()):
            original = module.__dict__.get(item)
            is_ours = isinstance(original, type) and isinstance(value, type)
            if is_ours and original is not value and _is_outcome(item, value):
                copy.__dict__[item] = original
    threads = _copies["threading"]
    patched = sys.modules["threading"]
    threads.excepthook = _asking(patched, "excepthook")
    threads.Thread.run = _ending_hub(threads.Thread.run)
    import_module("oneloop.green.monkey.real_threads").adapt(threads)


def _asking(module: Any, name: str) -> Callable[..., object]:
    """A function that calls the current value of a module's name."""

    def ask(*args: object) -> object:
        return getattr(module, name)(*args)

    return ask


def _asking_first(module: ModuleType, copy: ModuleType) -> ModuleType:
    """The copy, except for classes and functions of the module that a program (a test) has replaced."""
    names, before = module.__dict__, dict(module.__dict__)
    replaced = state.replaced.setdefault(module.__name__, {})
    view = _copied(copy)

    def find(name: str) -> Any:
        value = names.get(name, before.get(name))
        is_ours = value is before.get(name) or value is replaced.get(name)
        return getattr(copy, name) if is_ours else value

    for name, value in before.items():
        if isinstance(value, (type, FunctionType)) and value.__module__ == module.__name__:
            view.__dict__.pop(name, None)
    view.__dict__["__getattr__"] = find
    return view


def _is_outcome(name: str, value: type) -> bool:
    return issubclass(value, BaseException) or name in ("CompletedProcess", "SelectorKey")


def _ending_hub(run: Callable[[Any], None]) -> Callable[[Any], None]:
    """End the hub that patched code may have created in an OS thread."""

    def run_and_end_hub(self: Any) -> None:
        from oneloop.green.hub import end_own_hub

        try:
            run(self)
        finally:
            end_own_hub()

    run_and_end_hub.__name__ = "run"
    return run_and_end_hub


def _copy_futures() -> None:
    """`concurrent.futures` for asyncio. The module of its thread pool is executed on first use."""
    package = sys.modules["concurrent.futures"]
    copy = _copied(package)
    made: list[type] = []

    def find(name: str) -> Any:
        if name != "ThreadPoolExecutor":
            return getattr(package, name)
        if not made:
            made.append(_make_executor(package))
        return made[0]

    copy.__dict__.pop("ThreadPoolExecutor", None)
    copy.__dict__["__getattr__"] = find
    top = _copied(sys.modules["concurrent"])
    top.__dict__["futures"] = copy
    _copies["concurrent"], _copies["concurrent.futures"] = top, copy


@functools.cache
def _thread_pools() -> ModuleType:
    """`concurrent.futures.thread` with the interpreter's threads."""
    green = import_module("concurrent.futures.thread")
    module = _executed(green)
    module.__dict__["BrokenThreadPool"] = green.__dict__["BrokenThreadPool"]
    _note(green, module)
    return module


def _make_executor(package: ModuleType) -> type:
    """`ThreadPoolExecutor` with the interpreter's threads. Instances of patched code's class count as instances."""
    green, module = package.ThreadPoolExecutor, _thread_pools()

    class Kind(type(module.ThreadPoolExecutor)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: object) -> bool:  # pyright: ignore[reportSelfClsParameterName]
            return isinstance(instance, green) or super().__instancecheck__(instance)

    executor: type = Kind("ThreadPoolExecutor", (module.ThreadPoolExecutor,), {"__doc__": green.__doc__})
    executor.__module__ = green.__module__
    return executor


# -- giving the copies to modules ----------------------------------------------------------------------


def _note(module: ModuleType, copy: ModuleType) -> None:
    _kept.append(module)
    _counterparts[id(module)] = copy
    if module.__name__ in _FUTURES:
        return
    for name, value in module.__dict__.items():
        other = copy.__dict__.get(name, value)
        if other is not value and isinstance(value, (type, FunctionType)):
            _kept.append(value)
            _counterparts[id(value)] = other


def _rebind(module: ModuleType) -> None:
    package = module.__name__.partition(".")[0]
    # Our kinds of threads are green.
    is_asyncio, is_ours = package == "asyncio", package == "oneloop"
    for name, value in list(module.__dict__.items()):
        other = _counterparts.get(id(value))
        if is_asyncio and isinstance(other, ModuleType):
            other = _asked.get(other.__name__, other)
        if other is not None and (is_asyncio or getattr(other, "__name__", "") not in _FUTURES):
            module.__dict__[name] = other
        if isinstance(value, type) and value.__module__ == module.__name__ and not is_ours:
            _rebase(value)


def _rebase(kind: type) -> None:
    """Derive a class, such as a kind of thread, from the copies of its bases."""
    bases = tuple(_counterparts.get(id(base), base) for base in kind.__bases__)
    if bases != kind.__bases__:
        kind.__bases__ = bases


_SERVED = ("Event", "Lock", "RLock", "Semaphore", "BoundedSemaphore", "Condition", "Barrier")


def serve_patched_classes() -> None:
    """Make multiprocessing's managers create the classes that patched code uses under these names now.

    Locks of green threads also work in the interpreter's threads.
    """
    managers = sys.modules.get("multiprocessing.managers")
    if managers is None:
        return
    registry = managers.SyncManager._registry
    queue, threading = sys.modules["queue"].Queue, sys.modules["threading"]
    served = {"Queue": queue, "JoinableQueue": queue, **{name: getattr(threading, name) for name in _SERVED}}
    for name, made in served.items():
        registry[name] = (made, *registry[name][1:])


def _import(
    name: str,
    globals: Any = None,  # noqa: A002 - the interpreter's names
    locals: Any = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    """`__import__` for the modules of the realm."""
    found = builtins.__import__(name, globals, locals, fromlist or (), level)
    if level == 0:
        wanted = name if fromlist else name.partition(".")[0]
        copy = _copies.get(wanted)
        if wanted in _asked and _is_asyncio(globals):
            return _asked[wanted]
        if copy is not None and (wanted not in _FUTURES or _is_asyncio(globals)):
            return copy
    return found


def _is_asyncio(names: dict[str, Any] | None) -> bool:
    return bool(names) and str((names or {}).get("__name__")).partition(".")[0] == "asyncio"


def _real_builtins() -> dict[str, Any]:
    return {**builtins.__dict__, "__import__": _import}


class _Finder:
    """Finds modules of the realm with the finders behind this one, and makes them use the `__import__` above."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name == "_queue":
            return _patched_again(found_behind(self, name, path, target))
        if not belongs(name):
            return None
        spec = found_behind(self, name, path, target)
        if spec is not None and hasattr(spec.loader, "get_code") and not isinstance(spec.loader, ExtensionFileLoader):
            _adapt_loader(spec.loader)
        return spec


def _patched_again(spec: ModuleSpec | None) -> ModuleSpec | None:
    """Make a patched C module that is loaded once more (as tests do) have the replacements too."""
    if spec is not None and isinstance(spec.loader, ExtensionFileLoader):
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            green = sys.modules["oneloop.green.queue"].__dict__
            # Also the exception, which would be another class.
            module.__dict__.update(state.replaced.get(module.__name__, {}), Empty=green["Empty"])

        loader.exec_module = exec_module
    return spec


def found_behind(finder: Any, name: str, path: Any, target: Any) -> ModuleSpec | None:
    """Find a module with the finders that stand behind one in `sys.meta_path`."""
    for other in sys.meta_path[sys.meta_path.index(finder) + 1 :]:
        find = getattr(other, "find_spec", None)
        spec: ModuleSpec | None = None if find is None else find(name, path, target)
        if spec is not None:
            return spec
    return None


def _adapt_loader(loader: Any) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        module.__dict__["__builtins__"] = _real_builtins()
        execute(module)
        if module.__name__ == "multiprocessing.managers":
            serve_patched_classes()
        elif module.__name__ == "concurrent.futures.interpreter":
            _thread_pools()
            _rebind(module)

    loader.exec_module = exec_module
