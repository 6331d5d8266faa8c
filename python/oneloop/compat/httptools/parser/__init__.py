"""httptools' parsers, exceptions, and the protocol of their callbacks."""

from __future__ import annotations

from oneloop.compat.httptools.parser.errors import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserInvalidMethodError,
    HttpParserInvalidStatusError,
    HttpParserInvalidURLError,
    HttpParserUpgrade,
)
from oneloop.compat.httptools.parser.parser import HttpRequestParser, HttpResponseParser
from oneloop.compat.httptools.parser.protocol import HTTPProtocol
from oneloop.compat.httptools.parser.url_parser import parse_url

__all__ = (
    "HTTPProtocol",
    "HttpParserCallbackError",
    "HttpParserError",
    "HttpParserInvalidMethodError",
    "HttpParserInvalidStatusError",
    "HttpParserInvalidURLError",
    "HttpParserUpgrade",
    "HttpRequestParser",
    "HttpResponseParser",
    "parse_url",
)
