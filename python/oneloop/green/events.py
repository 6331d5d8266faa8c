"""Events that the package tells a program of: what is patched, and what blocks the loop.

`subscribers` holds functions of one argument, the event. They are called in the order of the list, where the event
happens: those of the monitor in its own thread, which may not wait for green threads. The interfaces (`I...`) are
classes that the events are instances of.
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

subscribers: list[Callable[[Any], object]] = []


def notify(event: object) -> None:
    """Tell all subscribers. What one of them raises ends it: the rest is not told."""
    for subscriber in subscribers:
        subscriber(event)


class _Interface:
    @classmethod
    def providedBy(cls, event: object) -> bool:  # noqa: N802 - zope's name
        """Whether it is such an event."""
        return isinstance(event, cls)


# -- the monitor -------------------------------------------------------------------------------------


class IPeriodicMonitorThread(_Interface):
    """The thread that monitors a hub; see `oneloop.green.monitor`."""


class IPeriodicMonitorThreadStartedEvent(_Interface):
    """A monitor has started."""


class IEventLoopBlocked(_Interface):
    """A green thread, a coroutine or a callback does not let others go on."""


class IMemoryUsageThresholdExceeded(_Interface):
    """The process uses more memory than it should."""


class IMemoryUsageUnderThreshold(_Interface):
    """It uses less again."""


class PeriodicMonitorThreadStartedEvent(IPeriodicMonitorThreadStartedEvent):
    """A monitor has started, and may be given functions of a program's own: `event.monitor.add_monitoring_function`."""

    def __init__(self, monitor: Any) -> None:
        self.monitor = monitor


class EventLoopBlocked(IEventLoopBlocked):
    """Nothing else has run for too long.

    Attributes:
        greenlet: what blocks, if it can be told.
        blocking_time: for how many seconds it has done so, by now.
        info: the lines of a report; the first names the frame.
        hub: whose loop is blocked.
    """

    def __init__(self, greenlet: Any, blocking_time: float, info: list[str], *, hub: Any = None) -> None:
        self.greenlet = greenlet
        self.blocking_time = blocking_time
        self.info = info
        self.hub = hub


class _MemoryEvent:
    def __init__(self, mem_usage: int, max_allowed: int, memory_info: Any) -> None:
        self.mem_usage = mem_usage
        """Bytes that are used."""
        self.max_allowed = max_allowed
        """Bytes that may be used."""
        self.memory_info = memory_info
        """What is known of the process's memory."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} used={self.mem_usage} max={self.max_allowed} details={self.memory_info!r}>"


class MemoryUsageThresholdExceeded(_MemoryEvent, IMemoryUsageThresholdExceeded):
    """The process uses more memory than `config.max_memory_usage`. Told once, until it uses less again."""


class MemoryUsageUnderThreshold(_MemoryEvent, IMemoryUsageUnderThreshold):
    """It uses less again; `max_memory_usage` is the most that it has used meanwhile."""

    def __init__(self, mem_usage: int, max_allowed: int, memory_info: Any, max_usage: int) -> None:
        super().__init__(mem_usage, max_allowed, memory_info)
        self.max_memory_usage = max_usage


# -- patching ----------------------------------------------------------------------------------------


class DoNotPatch(BaseException):
    """Raised by a subscriber of an event that tells what will be patched: it is not."""


class IGeventPatchEvent(_Interface):
    """Something is patched."""


class IGeventWillPatchEvent(IGeventPatchEvent):
    """It will be, unless a subscriber raises `DoNotPatch`."""


class IGeventDidPatchEvent(IGeventPatchEvent):
    """It was."""


class IGeventWillPatchModuleEvent(IGeventWillPatchEvent):
    """A module will be."""


class IGeventDidPatchModuleEvent(IGeventDidPatchEvent):
    """A module was."""


class IGeventWillPatchAllEvent(IGeventWillPatchEvent):
    """`patch_all` begins."""


class IGeventDidPatchBuiltinModulesEvent(IGeventDidPatchEvent):
    """`patch_all` has patched the standard library."""


class IGeventDidPatchAllEvent(IGeventDidPatchEvent):
    """`patch_all` has ended."""


class GeventPatchEvent(IGeventPatchEvent):
    """`target` gets attributes of `source`."""

    def __init__(self, source: Any, target: Any) -> None:
        self.source = source
        self.target = target

    def __repr__(self) -> str:
        return f"<{type(self).__name__} source={self.source!r} target={self.target!r} at {hex(id(self))}>"


class GeventWillPatchEvent(GeventPatchEvent, IGeventWillPatchEvent):
    """Before it is patched."""


class _DidPatchEvent(GeventPatchEvent, IGeventDidPatchEvent):
    """After it was patched."""


class GeventWillPatchModuleEvent(GeventWillPatchEvent, IGeventWillPatchModuleEvent):
    """A module will be patched.

    Attributes:
        module_name: the name of the standard library's module.
        source: the module with the replacements.
        target: the module that is patched.
        target_item_names: what is replaced; a subscriber may take names out.
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
        """A copy of the arguments of `patch_all`, by name."""
        return self._arguments.copy()

    @property
    def patch_all_kwargs(self) -> dict[str, Any]:
        """A copy of the arguments that it does not know."""
        return self._kwargs.copy()


class GeventWillPatchAllEvent(_PatchAll, GeventWillPatchEvent, IGeventWillPatchAllEvent):
    """`patch_all` begins."""

    def will_patch_module(self, module_name: str) -> bool:
        """Whether its arguments ask for a module."""
        return bool(self.patch_all_arguments.get(module_name))


class GeventDidPatchBuiltinModulesEvent(_PatchAll, _DidPatchEvent, IGeventDidPatchBuiltinModulesEvent):
    """`patch_all` has patched the standard library. Subscribers may patch more."""


class GeventDidPatchAllEvent(_PatchAll, _DidPatchEvent, IGeventDidPatchAllEvent):
    """`patch_all` has ended, with all that subscribers have patched."""
