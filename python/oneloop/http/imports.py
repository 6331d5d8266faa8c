"""`import_for`: what a server will need, imported before its application.

Importing the application puts its folder first in `sys.path`, so that its modules hide those of the standard library
that have the same name. The application may also take away what an import needs: descriptors, rights, the root
directory. So requests must find everything imported, and nothing here is imported without need, because servers start
quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# Raised by native code.
import oneloop.http.errors  # noqa: F401  # pyright: ignore[reportUnusedImport]

if TYPE_CHECKING:
    from oneloop.http.options import Options

__all__ = ["import_for"]


def import_for(options: Options) -> None:
    """Import what only some options need."""
    if options.interface in ("auto", "wsgi") and not options.green:
        # At the end, an executor waits for the threads.
        import concurrent.futures.thread  # noqa: F401  # pyright: ignore[reportUnusedImport]
    if options.access_log and options.access_log_format == "json":
        import json.encoder  # noqa: F401  # pyright: ignore[reportUnusedImport]
    if options.static:
        from oneloop.files import engine  # noqa: F401  # pyright: ignore[reportUnusedImport]
        from oneloop.http.static import content_types

        content_types()
    if options.compress:
        from oneloop.http.compression import encoders

        encoders()
