"""httptools' public names, on oneloop's HTTP parser (those of httptools 0.9).

Differences: the parser is stricter than llhttp and follows RFC 9110 and 9112. An HTTP/1.1 request must have exactly one
valid Host. These are refused: Content-Length beside Transfer-Encoding, repeated Content-Length, other codings than
chunked in requests, fragments in targets, and trailers that would change the framing. The limits are 65,535 bytes for a
line of a head, 256 KiB for a head, and 256 header fields for a message, including trailers.
`set_dangerous_leniencies()` accepts all arguments, but only `lenient_headers` has an effect: folded lines are joined.
`on_url`, `on_status` and `on_header` always receive whole values, never parts. Error messages have different texts.
"""

from __future__ import annotations

from oneloop.compat.httptools import parser
from oneloop.compat.httptools.parser import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserInvalidMethodError,
    HttpParserInvalidStatusError,
    HttpParserInvalidURLError,
    HttpParserUpgrade,
    HTTPProtocol,
    HttpRequestParser,
    HttpResponseParser,
    parse_url,
)

# The version whose names these are, because programs compare it.
__version__ = "0.9.0"

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
    "__version__",
    "parse_url",
    "parser",
)
