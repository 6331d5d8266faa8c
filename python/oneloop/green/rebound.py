"""`rebound`: a function of the standard library's that finds other names where it looks for its module's.

So what the standard library builds on its sockets (`create_connection`, `ssl.create_default_context`) is built on green
ones, as every version of Python has it, and whether or not anything is patched.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["rebound"]


def rebound(function: Callable[..., Any], names: dict[str, Any]) -> Any:
    """A copy of a Python function whose globals are `names`, which are not copied."""
    assert isinstance(function, FunctionType)
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__doc__ = function.__doc__
    copy.__qualname__ = function.__qualname__
    return copy
