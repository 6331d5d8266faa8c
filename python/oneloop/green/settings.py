"""`config`: settings of green threads, with gevent's names and environment variables.

The value is the one that the program assigned; otherwise that of the environment variable, read at the first use;
otherwise the default. Gevent's settings of its resolvers' libraries do not exist: AttributeError.
"""

from __future__ import annotations

import importlib
import os
from reprlib import Repr
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from oneloop import _native

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Config", "config", "resolver_class"]

T = TypeVar("T")

_FALSE = {"", "0", "no", "false", "off", "none", "n", "f", "disabled"}
_TRUE = {"1", "yes", "true", "on", "y", "t", "enabled"}
_UNITS = {"kb": 1024, "mb": 1024**2, "gb": 1024**3}


class Setting(Generic[T]):
    """A setting: its name, its source and its valid values."""

    def __init__(self, environment_key: str, default: str, parse: Callable[[Any], T], meaning: str) -> None:
        self.environment_key = environment_key
        self._default = default
        self._parse = parse
        self.__doc__ = meaning

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Setting[T]: ...

    @overload
    def __get__(self, instance: Config, owner: type) -> T: ...

    def __get__(self, instance: Config | None, owner: type) -> Setting[T] | T:
        if instance is None:
            return self
        values = instance.__dict__
        if self.name not in values:
            values[self.name] = self._parsed(os.environ.get(self.environment_key, self._default))
        value: T = values[self.name]
        return value

    def __set__(self, instance: Config, value: Any) -> None:
        instance.__dict__[self.name] = self._parsed(value)

    def _parsed(self, value: Any) -> T:
        try:
            return self._parse(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self.name} ({self.environment_key}) cannot be {value!r}: {error}") from error


def _parse_bool(value: Any) -> bool:
    if not isinstance(value, str):
        return bool(value)
    word = value.strip().lower()
    if word not in _FALSE | _TRUE:
        raise ValueError("use a value such as 1, yes, true, 0, no or false")
    return word in _TRUE


def _parse_seconds(value: Any) -> float:
    seconds = float(value)
    if not seconds > 0:
        raise ValueError("the time must be more than 0 seconds")
    return seconds


def _parse_idle(value: Any) -> float | None:
    return None if value is None or float(value) < 0 else float(value)


def _parse_bytes(value: Any) -> int | None:
    if value is None or value == "":
        return None
    text = str(value).strip().lower()
    unit = _UNITS.get(text[-2:], 1)
    count = int(float(text[:-2] if unit > 1 else text) * unit)
    if count < 0:
        raise ValueError("the number of bytes must not be negative")
    return count


def _parse_function(value: Any) -> Callable[[Any], str]:
    if callable(value):
        function: Any = value
        return function  # type: ignore[no-any-return]
    module, _, name = str(value).rpartition(".")
    if not module:
        raise ValueError("use the name of a function with its module, as in 'package.module.function'")
    imported: Callable[[Any], str] = getattr(importlib.import_module(module), name)
    return imported


def _one_of(shorthands: dict[str, str]) -> Callable[[Any], Any]:
    """Return a parser of an object, or of its full name or shorthand; of several, the first that can be imported."""

    def parse(value: Any) -> Any:
        if not isinstance(value, str | list | tuple):
            return value
        names = [name.strip() for name in value.split(",")] if isinstance(value, str) else list(value)
        for name in names:
            if not isinstance(name, str):
                return name
            module, _, attribute = shorthands.get(name, name).rpartition(".")
            try:
                return getattr(importlib.import_module(module), attribute)
            except (ImportError, AttributeError, ValueError):
                if name is names[-1]:
                    raise ImportError(f"cannot import {name!r}: use {', '.join(shorthands)} or a full name") from None
        raise ImportError("cannot import from an empty list")

    return parse


_RESOLVERS = {
    "thread": "oneloop.green.resolver.thread.Resolver",
    "block": "oneloop.green.resolver.blocking.Resolver",
    "dnspython": "oneloop.green.resolver.dnspython.Resolver",
    "ares": "oneloop.green.resolver.ares.Resolver",
}


def resolver_class(names: str | None = None) -> Any:
    """Return a resolver class.

    Args:
        names: `thread`, `block`, `dnspython`, `ares`, or the full name of a class. Several names are separated by
            commas. None means GEVENT_RESOLVER.

    Raises:
        ImportError: none of the names can be imported.
    """
    if names is None:
        names = os.environ.get("GEVENT_RESOLVER") or "thread"
    missing: ImportError | None = None
    for name in names.split(","):
        module, _, attribute = _RESOLVERS.get(name.strip(), name.strip()).rpartition(".")
        try:
            return getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            missing = ImportError(f"cannot import resolver {name!r}: {error}")
    assert missing is not None
    raise missing


def _parse_resolver(value: Any) -> Any:
    if not isinstance(value, str | list | tuple):
        return value
    return resolver_class(value if isinstance(value, str) else ",".join(value))


def _parse_tracking(value: Any) -> bool:
    tracks = _parse_bool(value)
    _native.track_tree(tracks)
    return tracks


class Config:
    """All settings; `oneloop.green.config` is the only instance. Settings can be assigned anytime, also as strings."""

    max_blocking_time = Setting(
        "GEVENT_MAX_BLOCKING_TIME",
        "0.1",
        _parse_seconds,
        "The monitor reports a loop that is blocked for longer than this many seconds.",
    )
    monitor_thread = Setting(
        "GEVENT_MONITOR_THREAD_ENABLE", "0", _parse_bool, "Each hub that is created from now on starts a monitor."
    )
    print_blocking_reports = Setting(
        "GEVENT_MONITOR_PRINT_BLOCKING_REPORTS",
        "1",
        _parse_bool,
        "The monitor prints its reports to stderr. Events are sent in any case.",
    )
    max_memory_usage = Setting(
        "GEVENT_MONITOR_MEMORY_MAX",
        "",
        _parse_bytes,
        "The monitor reports when the process uses more bytes of memory, such as '100MB'. None disables it.",
    )
    memory_monitor_period = Setting(
        "GEVENT_MONITOR_MEMORY_PERIOD", "5", _parse_seconds, "The time between two memory checks, in seconds."
    )
    threadpool_idle_task_timeout = Setting(
        "GEVENT_THREADPOOL_IDLE_TASK_TIMEOUT",
        "5",
        _parse_idle,
        "A thread of a hub's pool ends after this many idle seconds. None or negative: never.",
    )
    format_context = Setting(
        "GEVENT_FORMAT_CONTEXT",
        "oneloop.green.settings.shortened",
        _parse_function,
        "Formats locals of green threads in reports: a function, or its full name as a string.",
    )

    track_greenlet_tree = Setting(
        "GEVENT_TRACK_GREENLET_TREE", "1", _parse_tracking, "Green threads know which greenlet spawned them."
    )
    loop = Setting("GEVENT_LOOP", "oneloop", _one_of({"oneloop": "oneloop.green.core.loop"}), "Standalone loops.")
    resolver = Setting(
        "GEVENT_RESOLVER", "thread", _parse_resolver, "Called with a hub, returns the object that looks up names."
    )
    threadpool = Setting(
        "GEVENT_THREADPOOL",
        "oneloop.green.threadpool.ThreadPool",
        _one_of({}),
        "The class of the pool of threads of a hub.",
    )
    fileobject = Setting(
        "GEVENT_FILE",
        "posix",
        _one_of(
            {
                "posix": "oneloop.green.fileobject.FileObjectPosix",
                "thread": "oneloop.green.fileobject.FileObjectThread",
                "block": "oneloop.green.fileobject.FileObjectBlock",
            }
        ),
        "The class `FileObject`, if it is set before `oneloop.green.fileobject` is imported.",
    )

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(getattr(type(self), name, None), Setting):
            raise AttributeError(f"there is no setting {name!r}")
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(self.settings)

    @property
    def settings(self) -> dict[str, Setting[Any]]:
        """All settings by name."""
        return {name: one for name, one in vars(type(self)).items() if isinstance(one, Setting)}


_repr = Repr()
_repr.maxstring = _repr.maxother = 200


def shortened(value: object) -> str:
    """The repr of a value, shortened."""
    return _repr.repr(value)


config = Config()
