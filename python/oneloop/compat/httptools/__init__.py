"""httptools' public names, on oneloop's HTTP parser (those of httptools 0.9).

Differences: the parser is strict by RFC 9110 and 9112, where llhttp is not. An HTTP/1.1 request needs one valid
Host; Content-Length beside Transfer-Encoding, repeated Content-Length, codings other than chunked in requests and
fragments in targets are refused, as are trailers that would change the framing. A line of a head is at most 65,535
bytes, a head 256 KiB, a message has 256 header fields at most, trailers included. `set_dangerous_leniencies()` takes
all its arguments, but only `lenient_headers` has an effect: folded lines are joined. `on_url`, `on_status` and
`on_header` always get whole values, never pieces of them. The words of errors are other ones.
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

# The version whose names these are: programs compare it.
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
