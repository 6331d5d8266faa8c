"""Requests URLs and reports each one's status or error, and how long the request took.

In Python: `async for result in check(urls): ...`. On the command line: `oneloop check urls.txt`. The HTTP client is
oneloop's own. Names are resolved by c-ares: `pip install 'oneloop[check]'` installs pycares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oneloop.check.options import OptionError, Options
from oneloop.check.result import BadLine, ErrorClass, Hop, Result, Target

if TYPE_CHECKING:
    from oneloop.check.checking import check

__all__ = ["BadLine", "ErrorClass", "Hop", "OptionError", "Options", "Result", "Target", "check"]

if not TYPE_CHECKING:  # with __getattr__, a type checker would accept every name

    def __getattr__(name):
        if name != "check":
            raise AttributeError(f"module 'oneloop.check' has no attribute {name!r}")
        try:
            from oneloop.check.checking import check
        except ImportError as error:
            if error.name != "pycares":
                raise
            raise ImportError(f"oneloop.check needs {error.name}: pip install 'oneloop[check]'") from error
        globals()["check"] = check
        return check


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
