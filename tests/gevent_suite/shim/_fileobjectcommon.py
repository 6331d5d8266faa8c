"""What gevent's tests of files import of its private `_fileobjectcommon`. The tests of these classes are not run."""

from __future__ import annotations

__all__ = ["OpenDescriptor"]


class OpenDescriptor:
    """Parses the arguments of FileObject, in gevent."""
