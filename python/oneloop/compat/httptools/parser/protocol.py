"""What a parser calls."""

from __future__ import annotations

from typing import Protocol

__all__ = ("HTTPProtocol",)


class HTTPProtocol(Protocol):
    """The methods that a parser calls, those that the object has."""

    def on_message_begin(self) -> None:
        """The first byte of a message has come."""

    def on_url(self, url: bytes) -> None:
        """A request's target."""

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field, or one of a trailer."""

    def on_headers_complete(self) -> None:
        """The head is complete."""

    def on_body(self, body: bytes) -> None:
        """Bytes of the body."""

    def on_message_complete(self) -> None:
        """The message is complete."""

    def on_chunk_header(self) -> None:
        """A chunk begins."""

    def on_chunk_complete(self) -> None:
        """A chunk ends."""

    def on_status(self, status: bytes) -> None:
        """A response's reason phrase."""
