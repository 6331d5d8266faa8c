"""Facades: modules that present another package's names on oneloop.

A program that imports such a package gets the facade after `install(name)`, or under
`oneloop run --replace name`.
"""

from __future__ import annotations

import sys
from importlib import import_module

__all__ = ["KNOWN", "install"]

# Package: the modules of its facade, parents first.
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
    # Its modules are found one by one, when they are imported.
    "gevent": ("gevent",),
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
        # Where programs on linux_aio get its enumerations from.
        "linux_aio_bind",
    ),
    "uvloop": ("uvloop", "uvloop.loop"),
}

KNOWN = tuple(sorted(_MODULES))
"""Names of the packages that have a facade."""


def install(name: str) -> None:
    """Make `import name` give the facade, in this process and from here on.

    Whether the package itself is installed does not matter.

    Raises:
        ValueError: there is no facade of that name; the message lists those there are.
        RuntimeError: the package itself has been imported already; parts of the program would go
            on using it.
        ImportError: the facade of gevent, without the greenlet package.
    """
    modules = _MODULES.get(name)
    if modules is None:
        raise ValueError(f"no facade for {name!r}; known are: {', '.join(KNOWN)}")
    facades = {module: import_module(f"{__name__}.{module}") for module in modules}
    for module, facade in facades.items():
        if sys.modules.get(module, facade) is not facade:
            raise RuntimeError(f"{module!r} has been imported already: install the facade before it")
    claim = getattr(facades[name], "claim", None)
    if claim is not None:
        claim()
    sys.modules.update(facades)
