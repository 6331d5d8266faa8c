"""`local`: an object whose attributes are separate for each greenlet.

The attributes are stored in the object, keyed by the identity of the greenlet. So the garbage collector can find an
object that refers to itself through them. The attributes are dropped when the object or the greenlet is freed, and when
a `Greenlet` ends, even if references to it are kept.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Self

from greenlet import getcurrent

from oneloop.green.greenlet import Greenlet
from oneloop.green.links import own_links

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["local"]

_KEPT = "_oneloop_locals"


class _Kept:
    """The `local` objects that a greenlet has attributes in. Drops these attributes when it is freed."""

    __slots__ = ("__weakref__", "_key", "references")

    def __init__(self, greenlet: object) -> None:
        self._key = id(greenlet)
        self.references: dict[int, weakref.ref[local]] = {}

    def add(self, owner: local) -> dict[str, Any]:
        key = id(owner)
        attributes: dict[str, Any] = {}

        here = weakref.ref(self)

        def forget(_: weakref.ref[local]) -> None:
            kept = here()
            if kept is not None:
                kept.references.pop(key, None)

        self.references[key] = weakref.ref(owner, forget)
        _tables(owner)[self._key] = attributes
        return attributes

    def forget(self, owner: local) -> None:
        self.references.pop(id(owner), None)
        _tables(owner).pop(self._key, None)

    def __del__(self) -> None:
        for reference in list(self.references.values()):
            owner = reference()
            if owner is not None:
                _tables(owner).pop(self._key, None)


class local:  # noqa: N801 - threading's and gevent's name
    """Attributes per greenlet, as `threading.local` has attributes per thread.

    In each greenlet that uses the object, the `__init__` of a subclass is called with the arguments that created the
    object. If it raises, it is called again at the next use in that greenlet. Attributes in `__slots__` are shared.
    """

    __slots__ = ("__weakref__", "_local__arguments", "_local__tables")

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if (args or kwargs) and cls.__init__ is object.__init__:
            raise TypeError("Initialization arguments are not supported", args, kwargs)
        made = object.__new__(cls)
        object.__setattr__(made, "_local__arguments", (args, kwargs))
        object.__setattr__(made, "_local__tables", {})
        # Python calls __init__ in this greenlet after __new__ returns.
        _kept().add(made)
        return made

    def __getattribute__(self, name: str) -> Any:
        attributes = _attributes(self)
        if name == "__dict__":
            return attributes
        if name in attributes:
            if _is_of_class(type(self), name):
                return object.__getattribute__(self, name)
            return attributes[name]
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "__dict__":
            raise AttributeError(f"{type(self).__name__!r} object attribute '__dict__' is read-only")
        attributes = _attributes(self)
        if _is_of_class(type(self), name):
            object.__setattr__(self, name, value)
        else:
            attributes[name] = value

    def __delattr__(self, name: str) -> None:
        if name == "__dict__":
            raise AttributeError(f"{type(self).__name__!r} object attribute '__dict__' is read-only")
        attributes = _attributes(self)
        if _is_of_class(type(self), name):
            object.__delattr__(self, name)
        elif name in attributes:
            del attributes[name]
        else:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __copy__(self) -> Self:
        """A new object with this greenlet's attributes. In other greenlets, it starts as a new object does."""
        attributes = _attributes(self)
        args, kwargs = object.__getattribute__(self, "_local__arguments")
        copied = type(self)(*args, **kwargs)
        _attributes(copied).clear()
        _attributes(copied).update(attributes)
        return copied


_tables: Callable[[local], dict[int, dict[str, Any]]] = local.__dict__["_local__tables"].__get__


def _kept() -> _Kept:
    """The current greenlet's record, created on first use."""
    greenlet = getcurrent()
    kept: _Kept | None = greenlet.__dict__.get(_KEPT)
    if kept is None:
        kept = greenlet.__dict__[_KEPT] = _Kept(greenlet)
        if isinstance(greenlet, Greenlet):
            greenlet.rawlink(_forget)
    return kept


def _forget(greenlet: Greenlet) -> None:
    """Drop the attributes of a green thread that has ended."""
    greenlet.__dict__.pop(_KEPT, None)


own_links.add(_forget)


def attributes_of(greenlet: Any) -> list[tuple[local, dict[str, Any]]]:
    """The `local` objects that a greenlet has attributes in, with these attributes. For reports."""
    kept: _Kept | None = greenlet.__dict__.get(_KEPT)
    if kept is None:
        return []
    owners = [reference() for reference in list(kept.references.values())]
    return [(owner, dict(_tables(owner)[id(greenlet)])) for owner in owners if owner is not None]


def all_local_dicts_for_greenlet(greenlet: Any) -> list[tuple[tuple[type, int], dict[str, Any]]]:
    """Like `attributes_of`, with the class and the id of each object; gevent's name, which debuggers use."""
    return [((type(owner), id(owner)), attributes) for owner, attributes in attributes_of(greenlet)]


def _attributes(owner: local) -> dict[str, Any]:
    """The attributes of the current greenlet, created and initialized on first use."""
    attributes = _tables(owner).get(id(getcurrent()))
    if attributes is not None:
        return attributes
    kept = _kept()
    attributes = kept.add(owner)
    kind = type(owner)
    if kind.__init__ is not object.__init__:
        args, kwargs = object.__getattribute__(owner, "_local__arguments")
        try:
            kind.__init__(owner, *args, **kwargs)
        except BaseException:
            kept.forget(owner)
            raise
    return attributes


def _is_of_class(kind: type, name: str) -> bool:
    """Whether the name is a data descriptor of the class, such as a property or a slot."""
    for base in kind.__mro__:
        if name in base.__dict__:
            found = type(base.__dict__[name])
            return hasattr(found, "__set__") or hasattr(found, "__delete__")
    return False
