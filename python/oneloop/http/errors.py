"""What applications are told by an exception."""

from __future__ import annotations

__all__ = ["DisconnectedError"]


class DisconnectedError(ConnectionResetError):
    """The client has gone: what is sent does not arrive, and what was to be read of its request does not come.

    Raised by `send` of an ASGI application (HTTP specification 2.4: an OSError), by `wsgi.input` and `write` of a WSGI
    application. An application that lets it through is not reported.
    """
