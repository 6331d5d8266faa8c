"""`patch_all`, and a function for each module that it patches."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import Any

from oneloop.green.monkey import existing, realm, state
from oneloop.green.monkey.notices import DoNotPatch, notify
from oneloop.green.monkey.state import MonkeyPatchWarning, patch_item

_DNS = ["getaddrinfo", "gethostbyaddr", "gethostbyname", "gethostbyname_ex", "getnameinfo"]
# The others of `socket` look its names up when they are called.
_SOCKET = ["SocketType", "socket"]

# The arguments of the calls of `patch_all` so far.
_done: dict[str, bool] = {}
# What is told when patching has ended.
_told: list[str] = []


def patch_module(target_module: Any, source_module: Any, items: list[str] | None = None) -> bool:
    """Replace names of a module by those of another one.

    Args:
        target_module: whose names are replaced.
        source_module: where the others are.
        items: the names; None: those in `source_module.__implements__`.

    Returns:
        Whether it was done: a subscriber of `oneloop.green.events` may raise DoNotPatch.

    Raises:
        AttributeError: there are no `__implements__`, or one of the names is missing.
    """
    name = target_module.__name__
    if items is None:
        items = getattr(source_module, "__implements__", None)
        if items is None:
            raise AttributeError(f"{source_module.__name__} has no __implements__ that says what to patch")
    try:
        notify("GeventWillPatchModuleEvent", name, source_module, target_module, items)
    except DoNotPatch:
        return False
    realm.prepare()
    for item in items:
        patch_item(target_module, item, getattr(source_module, item))
    existing.rebind_holders(name)
    notify("GeventDidPatchModuleEvent", name, source_module, target_module)
    return True


def _patch(name: str, items: list[str] | None = None, source: str | None = None) -> bool:
    """Patch a module of the standard library from ours of the same name."""
    realm.prepare()
    return patch_module(import_module(name), import_module(source or f"oneloop.green.{name}"), items)


def patch_time() -> None:
    """Replace `time.sleep`."""
    _patch("time")


def patch_os() -> None:
    """Replace `os.fork`, `waitpid` and the others of `oneloop.green.os`."""
    _patch("os")


def patch_signal() -> None:
    """Replace `signal.signal`, `getsignal` and `set_wakeup_fd`."""
    _patch("signal")


def patch_subprocess() -> None:
    """Replace `subprocess.Popen` and the functions that use it."""
    _patch("subprocess")


def patch_socket(dns: bool = True, aggressive: bool = True) -> None:
    """Replace the socket class and the functions that make sockets; with `dns`, those that resolve names too."""
    _patch("socket", _SOCKET)
    if dns:
        patch_dns()


def patch_dns() -> None:
    """Replace the functions of `socket` that resolve names."""
    _patch("socket", _DNS)


def patch_ssl() -> None:
    """Replace `ssl.SSLContext` and `SSLSocket`, also where they were imported from `ssl` before."""
    if _patch("ssl"):
        _patch_inside("ssl")
        _told.extend(existing.told_subclasses("ssl", ("SSLContext", "SSLSocket")))
        _tell()


def patch_select(aggressive: bool = True) -> None:
    """Replace `select.select` and `poll`, and the selectors that use them. `select.epoll` stays what it is."""
    if _patch("select"):
        patch_selectors(aggressive)


def patch_selectors(aggressive: bool = True) -> None:
    """Replace `selectors.DefaultSelector`, and what the others wait with. `select.epoll` stays what it is."""
    if _patch("selectors"):
        _patch_inside("selectors")


def _patch_inside(name: str) -> None:
    """What a module's own classes have inside, for those that were imported from it before."""
    for kind, attribute, value in import_module(f"oneloop.green.{name}").__patched_attributes__:
        patch_item(kind, attribute, value)


def patch_queue() -> None:
    """Replace `queue.SimpleQueue`. The other queues wait by the locks of `threading`, and for them with it."""
    from oneloop.green.monkey import queues

    patch_module(import_module("queue"), queues)


def patch_thread(
    threading: bool = True,
    _threading_local: bool = True,
    Event: bool = True,  # noqa: N803 - gevent's
    logging: bool = True,
    existing_locks: bool = True,
) -> None:
    """Have threads be green threads.

    Args:
        threading: also those of `threading`, its locks and thread-locals.
        _threading_local: also `_threading_local.local`.
        Event: nothing; events wait by the locks.
        logging: also the locks of `logging` and its handlers.
        existing_locks: also those that exist already, of modules, conditions, events and queues.
    """
    realm.prepare()
    from oneloop.green import threading as green_threading

    module = import_module("threading")
    _told.extend(existing.running_threads())
    if not _patch("_thread", source="oneloop.green.thread"):
        return
    existing.adapt_imports()
    if threading:
        if not state.is_module_patched("threading"):
            green_threading.adapt(module, realm.real("threading"))
        _patch("threading")
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
    """Nothing: the standard streams block, as in gevent."""


def patch_builtins() -> None:
    """Nothing: `__import__` waits by locks of green threads once threads are patched."""


def patch_contextvars() -> None:
    """Nothing: every greenlet has a context of its own."""


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
    """Have the standard library's blocking functions let other green threads go on. Each argument is a part of it.

    To be called before anything else is imported, in the main thread. What was imported before is mended where that is
    possible; a MonkeyPatchWarning tells what could not be. asyncio, multiprocessing and process pools go on with the
    interpreter's threads.

    Returns:
        Whether anything was patched: False if that was done before, or a subscriber has raised DoNotPatch.
    """
    wanted = {name: bool(value) for name, value in locals().items() if name != "kwargs"}
    if _done:
        if all(_done.get(name) or not value for name, value in wanted.items()):
            return False
        if any(_done[name] != value for name, value in wanted.items()):
            _told.append("patch_all() is called again with other arguments: what any call asks for is patched")
    if signal and not os:
        _told.append("signal is patched without os: os.waitpid and handlers of SIGCHLD may miss children")
    try:
        notify("GeventWillPatchAllEvent", wanted, kwargs)
    except DoNotPatch:
        return False
    _done.update({name: value or _done.get(name, False) for name, value in wanted.items()})
    with _Silence():
        _patch_each(wanted)
        if thread and select:
            # asyncio's own loops let green threads go on where they would sleep.
            import_module("oneloop.green.facade").install()
            _give_loops_selectors()
        notify("GeventDidPatchBuiltinModulesEvent", wanted, kwargs)
        notify("GeventDidPatchAllEvent", wanted, kwargs)
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
    """A loop of asyncio's that the program makes with a selector of the patched module gets one that it can use."""
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
    """What is to be told is told at the end."""

    depth = 0

    def __enter__(self) -> None:
        _Silence.depth += 1

    def __exit__(self, *_: object) -> None:
        _Silence.depth -= 1


def _tell() -> None:
    if _Silence.depth:
        return
    told = list(dict.fromkeys(_told))
    _told.clear()
    for text in told:
        warnings.warn(text, MonkeyPatchWarning, stacklevel=3)
