"""`patch_all`, and a function for each module that it patches."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import Any

from oneloop.green import events
from oneloop.green.events import DoNotPatch
from oneloop.green.monkey import drivers, existing, realm, state
from oneloop.green.monkey.state import MonkeyPatchWarning, patch_item

_DNS = ["getaddrinfo", "gethostbyaddr", "gethostbyname", "gethostbyname_ex", "getnameinfo"]
# The other functions of `socket` look up these names when they are called.
_SOCKET = ["SocketType", "socket"]

# Gevent's name for the arguments of the last `patch_all` among the saved modules.
_SETTINGS = "_gevent_saved_patch_all_module_settings"
# The combined arguments of the `patch_all` calls so far.
_done: dict[str, bool] = {}
# Warnings that are issued when patching has ended.
_warnings: list[str] = []


def _notify(name: str, *arguments: object) -> None:
    """Create an event of a class of `oneloop.green.events`, and send it to the subscribers.

    Raises:
        DoNotPatch: a subscriber rejects the patch.
    """
    event = getattr(events, name)(*arguments)
    for subscriber in list(events.subscribers):
        subscriber(event)


def patch_module(target_module: Any, source_module: Any, items: list[str] | None = None) -> bool:
    """Replace names of a module by those of another module.

    Args:
        target_module: the module whose names are replaced.
        source_module: the module with the replacements.
        items: the names; None means those in `source_module.__implements__`.

    Returns:
        True, or False if a subscriber of `oneloop.green.events` raised DoNotPatch.

    Raises:
        AttributeError: there is no `__implements__`, or one of the names is missing.
    """
    name = target_module.__name__
    if items is None:
        items = getattr(source_module, "__implements__", None)
        if items is None:
            raise AttributeError(f"{source_module.__name__} has no __implements__: pass the names in items")
    try:
        _notify("GeventWillPatchModuleEvent", name, source_module, target_module, items)
    except DoNotPatch:
        return False
    realm.prepare()
    for item in items:
        patch_item(target_module, item, getattr(source_module, item))
    existing.rebind_holders(name)
    _notify("GeventDidPatchModuleEvent", name, source_module, target_module)
    return True


def _patch(name: str, items: list[str] | None = None, source: str | None = None) -> bool:
    """Patch a standard library module from the module of the same name in this package."""
    realm.prepare()
    return patch_module(import_module(name), import_module(source or f"oneloop.green.{name}"), items)


def patch_time() -> None:
    """Replace `time.sleep`."""
    _patch("time")


def patch_os() -> None:
    """Replace `os.fork`, `os.waitpid` and the other names in `oneloop.green.os.__implements__`."""
    _patch("os")


def patch_signal() -> None:
    """Replace `signal.signal`, `getsignal`, `raise_signal` and `set_wakeup_fd`."""
    _patch("signal")


def patch_subprocess() -> None:
    """Replace `subprocess.Popen`, which the module's functions use."""
    _patch("subprocess")


def patch_socket(dns: bool = True, aggressive: bool = True) -> None:
    """Replace the socket class, which the module's functions use.

    Args:
        dns: also replace the functions that resolve names.
        aggressive: ignored; accepted because gevent has it.
    """
    _patch("socket", _SOCKET)
    if dns:
        patch_dns()
        # Built on the patched names, which the program may replace again: both modules have this one now.
        import_module("oneloop.green.socket").create_connection = import_module("socket").create_connection  # type: ignore[attr-defined]


def patch_dns() -> None:
    """Replace the functions of `socket` that resolve names."""
    _patch("socket", _DNS)


def patch_ssl() -> None:
    """Replace `ssl.SSLContext` and `SSLSocket`, also where they were imported from `ssl` before."""
    if _patch("ssl"):
        _patch_inside("ssl")
        _warnings.extend(existing.subclass_warnings("ssl", ("SSLContext", "SSLSocket")))
        _tell()


def patch_select(aggressive: bool = True) -> None:
    """Replace `select.select`, `poll` and `epoll`, and the classes of `selectors`."""
    if _patch("select"):
        patch_selectors(aggressive)
        drivers.adapt()


def patch_selectors(aggressive: bool = True) -> None:
    """Replace the classes of `selectors`."""
    if _patch("selectors"):
        _patch_inside("selectors")


def _patch_inside(name: str) -> None:
    """Replace attributes of a module's classes, for code that has imported the classes before."""
    for kind, attribute, value in import_module(f"oneloop.green.{name}").__patched_attributes__:
        patch_item(kind, attribute, value)


def patch_queue() -> None:
    """Replace `queue.SimpleQueue`. The other queues use the locks of `threading`, and become green with them."""
    from oneloop.green.monkey import queues

    # The modules that import the class from `_queue` are few, but `queue` does if it is imported once more.
    if patch_module(import_module("queue"), queues):
        patch_module(import_module("_queue"), queues)


def patch_thread(
    threading: bool = True,
    _threading_local: bool = True,
    Event: bool = True,  # noqa: N803 - gevent's
    logging: bool = True,
    existing_locks: bool = True,
) -> None:
    """Make threads green threads.

    Args:
        threading: also patch `threading`: its threads, locks and thread-locals.
        _threading_local: also replace `_threading_local.local`.
        Event: also list `threading.Event` among the patched names; events use the locks.
        logging: also replace the locks of `logging` and its handlers.
        existing_locks: also replace locks that exist already, in modules, conditions, events and queues.
    """
    realm.prepare()
    from oneloop.green import threading as green_threading

    module = import_module("threading")
    _warnings.extend(existing.running_threads())
    if not _patch("_thread", source="oneloop.green.thread"):
        return
    existing.adapt_imports()
    if threading:
        if not state.is_module_patched("threading"):
            green_threading.adapt(module, realm.real("threading"))
        if _patch("threading") and Event:
            # The class stays, and becomes green with its lock. This is the one that blocks the OS thread.
            state.saved["threading"].setdefault("Event", realm.real("threading").Event)
        module._active_limbo_lock = module.RLock()  # type: ignore[attr-defined]
        if sys.version_info < (3, 13):
            module._shutdown_locks_lock = module.Lock()  # type: ignore[attr-defined]
        import_module("oneloop.green.monkey.executors").adapt()
    if _threading_local:
        _patch("_threading_local", ["local"], "oneloop.green.local")
    if existing_locks or logging:
        existing.replace_locks(of_modules=existing_locks, of_logging=logging)
    realm.serve_patched_classes()
    _tell()


def patch_sys(stdin: bool = True, stdout: bool = True, stderr: bool = True) -> None:
    """Do nothing: the standard streams block, as in gevent."""


def patch_builtins() -> None:
    """Do nothing: once threads are patched, `__import__` uses locks of green threads."""


def patch_contextvars() -> None:
    """Do nothing: every greenlet has its own context."""


def patch_all(
    socket: bool = True,
    dns: bool = True,
    time: bool = True,
    select: bool = True,
    thread: bool = True,
    os: bool = True,
    ssl: bool = True,
    subprocess: bool = True,
    sys: bool = False,
    aggressive: bool = True,
    Event: bool = True,  # noqa: N803 - gevent's
    builtins: bool = True,
    signal: bool = True,
    queue: bool = True,
    contextvars: bool = True,
    **kwargs: object,
) -> bool:
    """Make the standard library's blocking functions let other green threads run. Each argument selects a part.

    Call it in the main thread before anything else is imported. Modules that were imported before are updated where
    possible; a MonkeyPatchWarning lists the rest. asyncio, multiprocessing and process pools continue to use the
    interpreter's threads.

    Returns:
        Whether anything was patched. False if it was patched before, or if a subscriber raised DoNotPatch.
    """
    wanted = {name: bool(value) for name, value in locals().items() if name != "kwargs"}
    if _done:
        if any(_done[name] != value for name, value in wanted.items()):
            _warnings.append(
                "patch_all() is called more than once: the parts that any of the calls selects are patched"
            )
        state.saved[_SETTINGS] = wanted
        if all(_done.get(name) or not value for name, value in wanted.items()):
            _tell()
            return False
    if signal and not os:
        _warnings.append(
            "signal is patched without os: os.waitpid and handlers of SIGCHLD may miss children; patch both"
        )
    try:
        _notify("GeventWillPatchAllEvent", wanted, kwargs)
    except DoNotPatch:
        return False
    state.saved[_SETTINGS] = wanted
    _done.update({name: value or _done.get(name, False) for name, value in wanted.items()})
    with _Silence():
        _patch_each(wanted)
        if thread and select:
            # Let green threads run where asyncio's own loops would sleep.
            import_module("oneloop.green.facade").install()
            _give_loops_selectors()
        _notify("GeventDidPatchBuiltinModulesEvent", wanted, kwargs)
        _notify("GeventDidPatchAllEvent", wanted, kwargs)
    _tell()
    return True


def _patch_each(wanted: dict[str, bool]) -> None:
    parts: dict[str, Any] = {
        "os": patch_os,
        "time": patch_time,
        "thread": lambda: patch_thread(Event=wanted["Event"]),
        "sys": patch_sys,
        "socket": lambda: patch_socket(wanted["dns"], wanted["aggressive"]),
        "select": lambda: patch_select(wanted["aggressive"]),
        "ssl": patch_ssl,
        "subprocess": patch_subprocess,
        "builtins": patch_builtins,
        "signal": patch_signal,
        "queue": patch_queue,
        "contextvars": patch_contextvars,
    }
    for name, patch in parts.items():
        if wanted[name]:
            patch()


def _give_loops_selectors() -> None:
    """Give asyncio's loops a parking selector if the program passes them a selector of the patched module."""
    kind: Any = import_module("asyncio.selector_events").BaseSelectorEventLoop
    ours: Any = import_module("oneloop.green.selectors")
    green = (ours.EpollSelector, ours.PollSelector, ours.SelectSelector)
    parking: Any = import_module("oneloop.green.parking_selector").ParkingSelector
    make = kind.__init__
    if make.__name__ == "init_with_green_selector":
        return

    def init_with_green_selector(self: Any, selector: Any = None) -> None:
        if isinstance(selector, green):
            selector.close()
            selector = parking()
        make(self, selector)

    kind.__init__ = init_with_green_selector


class _Silence:
    """Collects warnings, to issue them at the end."""

    depth = 0

    def __enter__(self) -> None:
        _Silence.depth += 1

    def __exit__(self, *_: object) -> None:
        _Silence.depth -= 1


def _tell() -> None:
    if _Silence.depth:
        return
    collected = list(dict.fromkeys(_warnings))
    _warnings.clear()
    for text in collected:
        warnings.warn(text, MonkeyPatchWarning, stacklevel=3)
