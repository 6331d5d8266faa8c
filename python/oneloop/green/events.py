"""Events that the package sends to the program: patching, and a blocked event loop.

`subscribers` is a list of functions that take one argument, the event. They are called in the order of the list, in the
thread where the event occurs. The monitor's events occur in its own thread, where functions must not wait for green
threads. The interfaces (`I...`) are base classes of the events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "DoNotPatch",
    "EventLoopBlocked",
    "GeventDidPatchAllEvent",
    "GeventDidPatchBuiltinModulesEvent",
    "GeventDidPatchModuleEvent",
    "GeventPatchEvent",
    "GeventWillPatchAllEvent",
    "GeventWillPatchEvent",
    "GeventWillPatchModuleEvent",
    "IEventLoopBlocked",
    "IGeventDidPatchAllEvent",
    "IGeventDidPatchBuiltinModulesEvent",
    "IGeventDidPatchEvent",
    "IGeventDidPatchModuleEvent",
    "IGeventPatchEvent",
    "IGeventWillPatchAllEvent",
    "IGeventWillPatchEvent",
    "IGeventWillPatchModuleEvent",
    "IMemoryUsageThresholdExceeded",
    "IMemoryUsageUnderThreshold",
    "IPeriodicMonitorThread",
    "IPeriodicMonitorThreadStartedEvent",
    "MemoryUsageThresholdExceeded",
    "MemoryUsageUnderThreshold",
    "PeriodicMonitorThreadStartedEvent",
    "notify",
    "subscribers",
]

try:
    # As with gevent, programs that use zope.event get these events too.
    from zope.event import notify, subscribers
except ImportError:
    subscribers: list[Callable[[Any], object]] = []  # type: ignore[no-redef]

    def notify(event: object) -> None:
        """Call all subscribers. If one raises an exception, the remaining ones are not called."""
        for subscriber in subscribers:
            subscriber(event)


class _Interface:
    @classmethod
    def providedBy(cls, event: object) -> bool:  # noqa: N802 - zope's name
        """Whether `event` is an instance of this interface."""
        return isinstance(event, cls)

    @classmethod
    def implementedBy(cls, kind: type) -> bool:  # noqa: N802 - zope's name
        """Whether the class `kind` has this interface."""
        return issubclass(kind, cls)

    @classmethod
    def namesAndDescriptions(cls, all: bool = False) -> list[tuple[str, object]]:  # noqa: A002, N802 - zope's name
        """Return an empty list, for `zope.interface.verify`: the events' attributes are not described."""
        return []


# -- the monitor -------------------------------------------------------------------------------------


class IPeriodicMonitorThread(_Interface):
    """The thread that monitors a hub; see `oneloop.green.monitor`."""


class IPeriodicMonitorThreadStartedEvent(_Interface):
    """A monitor has started."""


class IEventLoopBlocked(_Interface):
    """A green thread, a coroutine or a callback keeps the event loop from running others."""


class IMemoryUsageThresholdExceeded(_Interface):
    """The process uses more memory than the limit."""


class IMemoryUsageUnderThreshold(_Interface):
    """The process uses less memory than the limit again."""


class PeriodicMonitorThreadStartedEvent(IPeriodicMonitorThreadStartedEvent):
    """A monitor has started. `event.monitor.add_monitoring_function` adds a program's own functions to it."""

    def __init__(self, monitor: Any) -> None:
        self.monitor = monitor


class EventLoopBlocked(IEventLoopBlocked):
    """The event loop has not run anything else for too long.

    Attributes:
        greenlet: the greenlet that blocks, if known.
        blocking_time: how long it has blocked so far, in seconds.
        info: the lines of a report; the first names the frame.
        hub: the hub whose loop is blocked.
    """

    def __init__(self, greenlet: Any, blocking_time: float, info: list[str], *, hub: Any = None) -> None:
        self.greenlet = greenlet
        self.blocking_time = blocking_time
        self.info = info
        self.hub = hub


class _MemoryEvent:
    def __init__(self, mem_usage: int, max_allowed: int, memory_info: Any) -> None:
        self.mem_usage = mem_usage
        """Bytes in use."""
        self.max_allowed = max_allowed
        """The limit in bytes."""
        self.memory_info = memory_info
        """Details about the memory of the process."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} used={self.mem_usage} max={self.max_allowed} details={self.memory_info!r}>"


class MemoryUsageThresholdExceeded(_MemoryEvent, IMemoryUsageThresholdExceeded):
    """The process uses more memory than `config.max_memory_usage`. Sent once, until it uses less again."""


class MemoryUsageUnderThreshold(_MemoryEvent, IMemoryUsageUnderThreshold):
    """The process uses less memory than the limit again; `max_memory_usage` is the peak in between."""

    def __init__(self, mem_usage: int, max_allowed: int, memory_info: Any, max_usage: int) -> None:
        super().__init__(mem_usage, max_allowed, memory_info)
        self.max_memory_usage = max_usage


# -- patching ----------------------------------------------------------------------------------------


class DoNotPatch(BaseException):
    """A subscriber of a "will patch" event raises this to prevent the patch."""


class IGeventPatchEvent(_Interface):
    """Something is patched."""


class IGeventWillPatchEvent(IGeventPatchEvent):
    """Something will be patched, unless a subscriber raises `DoNotPatch`."""


class IGeventDidPatchEvent(IGeventPatchEvent):
    """Something was patched."""


class IGeventWillPatchModuleEvent(IGeventWillPatchEvent):
    """A module will be patched, unless a subscriber raises `DoNotPatch`."""


class IGeventDidPatchModuleEvent(IGeventDidPatchEvent):
    """A module was patched."""


class IGeventWillPatchAllEvent(IGeventWillPatchEvent):
    """`patch_all` starts."""


class IGeventDidPatchBuiltinModulesEvent(IGeventDidPatchEvent):
    """`patch_all` has patched the standard library."""


class IGeventDidPatchAllEvent(IGeventDidPatchEvent):
    """`patch_all` has finished."""


class GeventPatchEvent(IGeventPatchEvent):
    """Attributes of `source` are copied to `target`."""

    def __init__(self, source: Any, target: Any) -> None:
        self.source = source
        self.target = target

    def __repr__(self) -> str:
        return f"<{type(self).__name__} source={self.source!r} target={self.target!r} at {hex(id(self))}>"


class GeventWillPatchEvent(GeventPatchEvent, IGeventWillPatchEvent):
    """Sent before `target` is patched."""


class _DidPatchEvent(GeventPatchEvent, IGeventDidPatchEvent):
    """Sent after `target` was patched."""


class GeventWillPatchModuleEvent(GeventWillPatchEvent, IGeventWillPatchModuleEvent):
    """A module will be patched.

    Attributes:
        module_name: the name of the standard library module.
        source: the module with the replacements.
        target: the module that is patched.
        target_item_names: the names that are replaced; a subscriber may remove names.
    """

    def __init__(self, module_name: str, source: Any, target: Any, items: list[str]) -> None:
        super().__init__(source, target)
        self.module_name = module_name
        self.target_item_names = items


class GeventDidPatchModuleEvent(_DidPatchEvent, IGeventDidPatchModuleEvent):
    """A module was patched."""

    def __init__(self, module_name: str, source: Any, target: Any) -> None:
        super().__init__(source, target)
        self.module_name = module_name


class _PatchAll:
    def __init__(self, patch_all_arguments: dict[str, Any], patch_all_kwargs: dict[str, Any]) -> None:
        super().__init__(None, None)  # type: ignore[call-arg]
        self._arguments = patch_all_arguments
        self._kwargs = patch_all_kwargs

    @property
    def patch_all_arguments(self) -> dict[str, Any]:
        """A copy of the known arguments of `patch_all`, by name."""
        return self._arguments.copy()

    @property
    def patch_all_kwargs(self) -> dict[str, Any]:
        """A copy of the arguments that `patch_all` does not define."""
        return self._kwargs.copy()


class GeventWillPatchAllEvent(_PatchAll, GeventWillPatchEvent, IGeventWillPatchAllEvent):
    """`patch_all` starts."""

    def will_patch_module(self, module_name: str) -> bool:
        """Whether the arguments of `patch_all` select a module."""
        return bool(self.patch_all_arguments.get(module_name))


class GeventDidPatchBuiltinModulesEvent(_PatchAll, _DidPatchEvent, IGeventDidPatchBuiltinModulesEvent):
    """`patch_all` has patched the standard library. Subscribers may patch more."""


class GeventDidPatchAllEvent(_PatchAll, _DidPatchEvent, IGeventDidPatchAllEvent):
    """`patch_all` has finished, including the patches that subscribers made."""
