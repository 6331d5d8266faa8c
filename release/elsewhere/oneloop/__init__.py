"""oneloop where there is no native wheel: `run` is `asyncio.run`, with one warning, and there is nothing else.

With it a library can depend on oneloop on every system. `hasattr(oneloop, "Loop")` is False here. Importing a name or a
module that only the native package has raises an ImportError that says so.
"""

from __future__ import annotations

import asyncio
import platform
import sys
import warnings
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["__version__", "run"]

_T = TypeVar("_T")

# Both lines are written by release/fallback.py.
__version__ = "0"
_NATIVE_NAMES: frozenset[str] = frozenset()

_warned: list[str] = []


def _reason() -> str:
    here = f"{platform.system()} {platform.machine()}, {platform.python_implementation()} {platform.python_version()}"
    native = "The native package has wheels for Linux on x86-64 and AArch64 with CPython 3.11 to 3.15; this is"
    return f"{native} {here}." + (
        " On Linux, `pip install --no-binary oneloop oneloop` builds it from source." if sys.platform == "linux" else ""
    )


def run(
    main: Coroutine[Any, Any, _T],
    *,
    debug: bool | None = None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> _T:
    """Run a coroutine as `asyncio.run` does; a RuntimeWarning at the first call says that this is asyncio's loop."""
    if not _warned:
        _warned.append("run")
        warnings.warn(f"oneloop.run is asyncio.run on this system. {_reason()}", RuntimeWarning, stacklevel=2)
    if loop_factory is None:
        return asyncio.run(main, debug=debug)
    # asyncio.run() has this parameter from Python 3.12 on.
    with asyncio.Runner(debug=debug, loop_factory=loop_factory) as runner:
        return runner.run(main)


class _Finder:
    """Says why a module of the native package, or a name in `from oneloop import name`, is not there."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        parent, _, last = name.rpartition(".")
        if parent == "oneloop" and last in _NATIVE_NAMES:
            raise ImportError(f"there is no {name} on this system. {_reason()}", name=name)


sys.meta_path.insert(0, _Finder)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        if name in _NATIVE_NAMES:
            raise AttributeError(f"there is no oneloop.{name} on this system. {_reason()}", name=name)
        raise AttributeError(f"module 'oneloop' has no attribute {name!r}", name=name)
