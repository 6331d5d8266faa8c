"""The callbacks of a parser."""

from __future__ import annotations

from typing import Protocol

__all__ = ("HTTPProtocol",)


class HTTPProtocol(Protocol):
    """The methods that a parser calls if the object has them."""

    def on_message_begin(self) -> None:
        """Called at the first byte of a message."""

    def on_url(self, url: bytes) -> None:
        """Called with a request's target."""

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called with a header field or a trailer field."""

    def on_headers_complete(self) -> None:
        """Called when the head is complete."""

    def on_body(self, body: bytes) -> None:
        """Called with bytes of the body."""

    def on_message_complete(self) -> None:
        """Called when the message is complete."""

    def on_chunk_header(self) -> None:
        """Called when a chunk begins."""

    def on_chunk_complete(self) -> None:
        """Called when a chunk ends."""

    def on_status(self, status: bytes) -> None:
        """Called with a response's reason phrase."""
