"""oneloop for systems without a native wheel. It contains only `run`, which is `asyncio.run` with one warning.

It allows a library to depend on oneloop on every system. `hasattr(oneloop, "Loop")` is False here. Importing a name or
a module that only the native package has raises an ImportError that says so.
"""

from __future__ import annotations

import asyncio
import platform
import sys
import sysconfig
import warnings
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ["__version__", "run"]

_T = TypeVar("_T")

# release/fallback.py replaces both lines.
__version__ = "0"
_NATIVE_NAMES: frozenset[str] = frozenset()

_warned: list[str] = []


def _reason() -> str:
    implementation = platform.python_implementation()
    here = f"{platform.system()} {platform.machine()}, {implementation} {platform.python_version()}"
    is_free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    if is_free_threaded:
        here += " (free-threaded)"
    native = "The native package has wheels for Linux on x86-64 and AArch64 with CPython 3.11 to 3.15; this is"
    text = f"{native} {here}."
    if implementation != "CPython" or is_free_threaded:
        text += " PyPy and free-threaded builds are not supported."
    elif sys.platform == "linux":
        text += (
            " If that fits, update pip and install oneloop again; on other processors,"
            " `pip install --no-binary oneloop oneloop` builds it from source."
        )
    return text


def run(
    main: Coroutine[Any, Any, _T],
    *,
    debug: bool | None = None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> _T:
    """Run a coroutine as `asyncio.run` does. The first call emits a RuntimeWarning that this is asyncio's loop.

    Args:
        main: the coroutine.
        debug: asyncio's debug mode; None means the default.
        loop_factory: makes the loop; None means asyncio's default loop.

    Returns:
        The result of the coroutine.
    """
    if not _warned:
        _warned.append("run")
        warnings.warn(f"oneloop.run is asyncio.run on this system. {_reason()}", RuntimeWarning, stacklevel=2)
    if loop_factory is None:
        return asyncio.run(main, debug=debug)
    # asyncio.run() has this parameter from Python 3.12 on.
    with asyncio.Runner(debug=debug, loop_factory=loop_factory) as runner:
        return runner.run(main)


class _Finder:
    """Raises an ImportError with an explanation for modules and names that only the native package has."""

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
