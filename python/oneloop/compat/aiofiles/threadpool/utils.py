"""`aiofiles.threadpool.utils`: class decorators that add methods and properties to a file class by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from oneloop.compat.aiofiles.base import OURS, call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    C = TypeVar("C", bound=type)

__all__ = ["cond_delegate_to_executor", "delegate_to_executor", "proxy_method_directly", "proxy_property_directly"]


def _builder(make: Callable[[str], Any], attrs: tuple[str, ...]) -> Callable[[C], C]:
    def cls_builder(cls: C) -> C:
        for attr_name in attrs:
            setattr(cls, attr_name, make(attr_name))
        return cls

    return cls_builder


def delegate_to_executor(*attrs: str) -> Callable[[C], C]:
    """Add coroutine methods. They await the methods of oneloop's files, and run those of other files in the pool."""
    return _builder(_make_delegate_method, attrs)


def proxy_method_directly(*attrs: str) -> Callable[[C], C]:
    """Add methods that call the file's methods directly."""
    return _builder(_make_proxy_method, attrs)


def proxy_property_directly(*attrs: str) -> Callable[[C], C]:
    """Add properties that read the file's attributes."""
    return _builder(_make_proxy_property, attrs)


def cond_delegate_to_executor(*attrs: str) -> Callable[[C], C]:
    """Add coroutine methods for spooled temporary files. They use the pool only if the file is on the disk."""
    return _builder(_make_cond_delegate_method, attrs)


def _make_delegate_method(attr_name: str) -> Callable[..., Awaitable[Any]]:
    async def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        file = self._file
        if isinstance(file, OURS):
            result = getattr(file, attr_name)(*args, **kwargs)
            return await result if hasattr(result, "__await__") else result
        return await call(self._loop, self._executor, getattr(file, attr_name), *args, **kwargs)

    method.__name__ = attr_name
    return method


def _make_proxy_method(attr_name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._file, attr_name)(*args, **kwargs)

    method.__name__ = attr_name
    return method


def _make_proxy_property(attr_name: str) -> property:
    def proxy_property(self: Any) -> Any:
        return getattr(self._file, attr_name)

    return property(proxy_property)


def _make_cond_delegate_method(attr_name: str) -> Callable[..., Awaitable[Any]]:
    async def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        function = getattr(self._file, attr_name)
        if self._file._rolled:
            return await call(self._loop, self._executor, function, *args, **kwargs)
        return function(*args, **kwargs)

    method.__name__ = attr_name
    return method
