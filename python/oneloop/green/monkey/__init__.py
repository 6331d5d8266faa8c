"""Patches the standard library so that blocking code lets other green threads run; with gevent's names.

Call it before anything else is imported:

    from oneloop.green import monkey
    monkey.patch_all()

or run the program with `oneloop run --patch script.py` or `python -m oneloop.green.monkey script.py`.

asyncio, multiprocessing, process pools and oneloop itself are not patched: they use the interpreter's threads.
Differences from gevent: `select.epoll` and `selectors.EpollSelector` are not removed, and let other green threads run.
"""

from __future__ import annotations

from oneloop.green.monkey.command import main
from oneloop.green.monkey.patching import (
    patch_all,
    patch_builtins,
    patch_contextvars,
    patch_dns,
    patch_module,
    patch_os,
    patch_queue,
    patch_select,
    patch_selectors,
    patch_signal,
    patch_socket,
    patch_ssl,
    patch_subprocess,
    patch_sys,
    patch_thread,
    patch_time,
)
from oneloop.green.monkey.state import (
    MonkeyPatchWarning,
    get_original,
    is_anything_patched,
    is_module_patched,
    is_object_patched,
    patch_item,
    saved,
)

__all__ = [
    "MonkeyPatchWarning",
    "get_original",
    "is_anything_patched",
    "is_module_patched",
    "is_object_patched",
    "main",
    "patch_all",
    "patch_builtins",
    "patch_contextvars",
    "patch_dns",
    "patch_item",
    "patch_module",
    "patch_os",
    "patch_queue",
    "patch_select",
    "patch_selectors",
    "patch_signal",
    "patch_socket",
    "patch_ssl",
    "patch_subprocess",
    "patch_sys",
    "patch_thread",
    "patch_time",
    "saved",
]
