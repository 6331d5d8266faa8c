"""Facades: modules with another package's names, implemented by oneloop.

After `install(name)`, or under `oneloop run --replace name`, a program that imports the package gets the facade.
"""

from __future__ import annotations

import sys
from importlib import import_module

__all__ = ["KNOWN", "install"]

# Package -> the modules of its facade, parents first.
_MODULES = {
    "aiofiles": (
        "aiofiles",
        "aiofiles.base",
        "aiofiles.os",
        "aiofiles.ospath",
        "aiofiles.tempfile",
        "aiofiles.tempfile.temptypes",
        "aiofiles.threadpool",
        "aiofiles.threadpool.binary",
        "aiofiles.threadpool.text",
        "aiofiles.threadpool.utils",
    ),
    # Its other modules are created when they are imported.
    "gevent": ("gevent",),
    # Their other modules are those of the package itself.
    "httpcore": ("httpcore",),
    "httpcore2": ("httpcore2",),
    "httptools": (
        "httptools",
        "httptools.parser",
        "httptools.parser.errors",
        "httptools.parser.parser",
        "httptools.parser.protocol",
        "httptools.parser.url_parser",
    ),
    "linux_aio": (
        "linux_aio",
        "linux_aio.aio_context",
        "linux_aio.aio_event",
        "linux_aio.block",
        "linux_aio.block.base",
        "linux_aio.block.non_rw",
        "linux_aio.block.non_vector",
        "linux_aio.block.rw",
        "linux_aio.block.vector",
        # Programs on linux_aio import its enumerations from here.
        "linux_aio_bind",
    ),
    "uvloop": ("uvloop", "uvloop.loop"),
}

KNOWN = tuple(sorted(_MODULES))
"""The names of the packages that have a facade."""


def install(name: str) -> None:
    """Make `import name` return the facade in this process from now on.

    It does not matter whether the package itself is installed, except for httpcore and httpcore2.

    Args:
        name: the name of the package, one of `KNOWN`.

    Raises:
        ValueError: there is no facade with this name; the message lists the available ones.
        RuntimeError: the package was already imported, so parts of the program would continue to use it.
        ImportError: the facade of gevent requires the greenlet package, which is missing; those of httpcore and
            httpcore2 require the package itself.
    """
    modules = _MODULES.get(name)
    if modules is None:
        raise ValueError(f"no facade for {name!r}; use one of: {', '.join(KNOWN)}")
    facades = {module: import_module(f"{__name__}.{module}") for module in modules}
    for module, facade in facades.items():
        if sys.modules.get(module, facade) is not facade:
            raise RuntimeError(f"{module!r} was already imported: install the facade before the first import")
    claim = getattr(facades[name], "claim", None)
    if claim is not None:
        claim()
    sys.modules.update(facades)
