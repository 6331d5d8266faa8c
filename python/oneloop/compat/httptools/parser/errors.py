"""httptools' exceptions, which the native parsers raise."""

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
    """The data is not valid HTTP/1.1."""


class HttpParserCallbackError(HttpParserError):
    """A callback raised an exception, which is the context of this one."""


class HttpParserInvalidStatusError(HttpParserError):
    """The status of a response is malformed."""


class HttpParserInvalidMethodError(HttpParserError):
    """The method of a request is unknown."""


class HttpParserInvalidURLError(HttpParserError):
    """The target of a request, or the argument of `parse_url`, is malformed."""


class HttpParserUpgrade(Exception):
    """The message switches protocols. The argument is the position in the data where the message ends."""
