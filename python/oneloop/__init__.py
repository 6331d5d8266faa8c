"""One native event loop for all of a Python program's I/O.

Importing this package imports neither asyncio nor the native core: each name is loaded when it is
first used. This is the package for Linux. On other systems a package with `run` alone is installed.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oneloop import aio as aio
    from oneloop import check as check
    from oneloop import compat as compat
    from oneloop import files as files
    from oneloop import green as green
    from oneloop import http as http
    from oneloop import stats_socket as stats_socket
    from oneloop import testing as testing
    from oneloop import tls as tls
    from oneloop._native import (
        DatagramTransport,
        Handle,
        ReadPipeTransport,
        StreamTransport,
        TimerHandle,
        TlsTransport,
        WritePipeTransport,
        __version__,
    )
    from oneloop.loop import Loop
    from oneloop.policy import EventLoopPolicy
    from oneloop.runner import install, new_event_loop, run
    from oneloop.statistics import Statistics

__all__ = [
    "DatagramTransport",
    "Handle",
    "Loop",
    "ReadPipeTransport",
    "Statistics",
    "StreamTransport",
    "TimerHandle",
    "TlsTransport",
    "WritePipeTransport",
    "__version__",
    "install",
    "new_event_loop",
    "run",
]
if sys.version_info < (3, 16):
    # Python 3.16 removes asyncio's policies.
    __all__ += ["EventLoopPolicy"]

# Public name -> the module that defines it.
_MODULES = {
    "DatagramTransport": "oneloop._native",
    "EventLoopPolicy": "oneloop.policy",
    "Handle": "oneloop._native",
    "Loop": "oneloop.loop",
    "ReadPipeTransport": "oneloop._native",
    "Statistics": "oneloop.statistics",
    "StreamTransport": "oneloop._native",
    "TimerHandle": "oneloop._native",
    "TlsTransport": "oneloop._native",
    "WritePipeTransport": "oneloop._native",
    "__version__": "oneloop._native",
    "install": "oneloop.runner",
    "new_event_loop": "oneloop.runner",
    "run": "oneloop.runner",
}

# Imported on first attribute access. Some need another package, or a module that a Python may lack.
_SUBMODULES = ("aio", "check", "compat", "files", "green", "http", "stats_socket", "testing", "tls")


if not TYPE_CHECKING:  # with a `__getattr__`, a type checker would accept any name

    def __getattr__(name):
        if name in _SUBMODULES:
            try:
                return import_module(f"oneloop.{name}")
            except ImportError as error:
                # hasattr() is then False; `import oneloop.tls`, `from oneloop import tls` raise the ImportError itself.
                raise AttributeError(f"oneloop.{name} cannot be imported: {error}", name=name) from error
        module = _MODULES.get(name)
        if module is None or name not in __all__:
            raise AttributeError(f"module 'oneloop' has no attribute {name!r}")
        value = getattr(import_module(module), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    hidden = {"TYPE_CHECKING", "annotations", "import_module", "sys"}
    return sorted(({*globals(), *__all__} - hidden) | {*_SUBMODULES})
