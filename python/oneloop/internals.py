"""`Missing`: a private name of asyncio's loops that this loop does not have, although `BaseEventLoop` defines it.

A program that looks for the name with `hasattr` finds out before it relies on it, and one that uses it is told why.
"""

from __future__ import annotations

from typing import NoReturn

__all__ = ["Missing"]


class Missing:
    """Raises AttributeError when it is read. A program may set an attribute of the same name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, loop: object, kind: type) -> NoReturn:
        text = (
            f"oneloop.Loop has no {self._name}: its iterations and its poll are native. Packages that run asyncio's"
            " loop step by step, such as nest_asyncio, do not work with it. The documents' page"
            " 'questions' has more."
        )
        raise AttributeError(text, name=self._name, obj=loop)
