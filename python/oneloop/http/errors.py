"""Exceptions that the server raises in applications."""

from __future__ import annotations

__all__ = ["DisconnectedError"]


class DisconnectedError(ConnectionResetError):
    """The client has disconnected: data cannot be sent, and the rest of the request's body cannot be read.

    Raised by `send` in an ASGI application (the ASGI HTTP specification 2.4 requires an OSError), and by `wsgi.input`
    and `write` in a WSGI application. If the application does not catch it, no error is logged.
    """
