"""httptools' exceptions: the native parsers raise them."""

from __future__ import annotations

__all__ = (
    "HttpParserCallbackError",
    "HttpParserError",
    "HttpParserInvalidMethodError",
    "HttpParserInvalidStatusError",
    "HttpParserInvalidURLError",
    "HttpParserUpgrade",
)


class HttpParserError(Exception):
    """The bytes are no strict HTTP/1.1."""


class HttpParserCallbackError(HttpParserError):
    """A callback raised; what it raised is the context."""


class HttpParserInvalidStatusError(HttpParserError):
    """A response's status is malformed."""


class HttpParserInvalidMethodError(HttpParserError):
    """A request's method is not known."""


class HttpParserInvalidURLError(HttpParserError):
    """A request's target, or the argument of `parse_url`, is malformed."""


class HttpParserUpgrade(Exception):
    """The message switches protocols; the argument says where in the data it ends."""
