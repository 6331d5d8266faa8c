"""How a public name is deprecated: docs/explanation/stability.md says for how long it stays."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["moved_names", "warn_deprecated"]


def warn_deprecated(what: str, instead: str, *, removed_in: str, stacklevel: int = 1) -> None:
    """Issue the DeprecationWarning for a use of `what`.

    Args:
        what: the name as a program writes it, such as `oneloop.http.serve(reload_dirs=)`.
        instead: what to use, such as `reload`.
        removed_in: the version that will not have it, `0.MINOR`. A literal: a test looks for it.
        stacklevel: 1 blames the caller of the function that calls this one, 2 its caller, and so on.
    """
    text = f"{what} is deprecated and will be removed in oneloop {removed_in}: use {instead}"
    warnings.warn(text, DeprecationWarning, stacklevel=stacklevel + 2)


def moved_names(
    module: str, names: Mapping[str, tuple[str, Callable[[], Any]]], *, removed_in: str
) -> Callable[[str], Any]:
    """Return a module's `__getattr__` for names that have moved. Each use of one issues a DeprecationWarning.

    Args:
        module: the module's name.
        names: old name → what to use instead, and a function that returns the object.
        removed_in: as in `warn_deprecated`.
    """

    def __getattr__(name: str) -> Any:  # noqa: N807 - it becomes that function
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        instead, get = names[name]
        warn_deprecated(f"{module}.{name}", instead, removed_in=removed_in)
        return get()

    return __getattr__
