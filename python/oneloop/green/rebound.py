"""`rebound`: a copy of a standard library function with different globals.

Standard library functions that are built on sockets (`create_connection`, `ssl.create_default_context`) can so be
rebuilt on green sockets. They behave as in the running version of Python, whether or not anything is patched.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["rebound"]


def rebound(function: Callable[..., Any], names: dict[str, Any]) -> Any:
    """Return a copy of a Python function whose globals are the dictionary `names` itself."""
    assert isinstance(function, FunctionType)
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__doc__ = function.__doc__
    copy.__qualname__ = function.__qualname__
    return copy
