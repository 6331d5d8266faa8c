"""Request heads: parses bytes into names and values, checked strictly by RFC 9112.

`parse` depends only on its arguments, so that a native function with the same signature can replace it.
"""

from __future__ import annotations

import re

__all__ = ["MAX_FIELDS", "MAX_REQUEST_LINE", "HeadError", "Parsed", "environ_key", "is_token", "parse"]

Parsed = tuple[str, str, str, list[tuple[str, str]], int]
"""Method, target, version, header fields, and the position after the head."""

MAX_REQUEST_LINE = 8192
"""The maximum length of a request line in bytes, and of a chunk's extension."""

MAX_FIELDS = 100
"""The maximum number of header fields."""

END = b"\r\n\r\n"
_PLAIN = bytes(byte for byte in range(256) if byte >= 0x20 and byte != 0x7F) + b"\t"
_LINE_ENDS = [b"\r\n" * count for count in range(MAX_FIELDS + 1)]
_VERSIONS = frozenset(("HTTP/1.1", "HTTP/1.0"))
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"))
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch
_NEVER_FOLDED = frozenset(("host", "content-length", "transfer-encoding", "connection", "upgrade", "expect"))
_VERSION = re.compile(r"HTTP/([0-9])\.[0-9]").fullmatch

MAX_KNOWN_NAMES = 1000
_keys: dict[str, str] = {}
"""Maps valid field names to their keys in an environ; an empty key means that the field is left out."""
known_key = _keys.get
"""The cached result of `environ_key`, or None."""


class HeadError(ValueError):
    """The head is refused. `status` is the status of the response."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status
        self.formatted_message = message


def is_token(text: str) -> bool:
    """Whether a text is a token: valid as a method or a field name."""
    return _TOKEN(text) is not None


def environ_key(name: str) -> str:
    """Return the key of a field in an environ; "" if the field is left out, because its name has an underscore.

    `X_Real` and `X-Real` would have the same key, so a client could override a field that a proxy has set.

    Raises:
        HeadError: the name is invalid.
    """
    key = _keys.get(name)
    if key is None:
        if not is_token(name):
            raise HeadError(f"invalid name of a header field: {name!r}")
        upper = name.upper().replace("-", "_")
        special = ("CONTENT_TYPE", "CONTENT_LENGTH")
        key = "" if "_" in name else upper if upper in special else f"HTTP_{upper}"
        if len(_keys) >= MAX_KNOWN_NAMES:
            _keys.clear()
        _keys[name] = key
    return key


def parse(data: bytes, start: int = 0) -> Parsed | None:
    """Parse the head that begins at `start`.

    Field values are decoded as latin-1, and surrounding whitespace is removed.

    Returns:
        The parsed head; None if it is incomplete.

    Raises:
        HeadError: the head is refused.
    """
    end = data.find(END, start)
    if end < 0:
        return None
    head = data[start:end]
    lines = head.decode("latin-1").split("\r\n")
    count = len(lines) - 1
    if count > MAX_FIELDS:
        raise HeadError(f"more than {MAX_FIELDS} header fields", 431)
    if head.translate(None, _PLAIN) != _LINE_ENDS[count]:
        raise HeadError("control character, or a line that does not end with CR LF")
    method, target, version = parse_request_line(lines[0])
    fields: list[tuple[str, str]] = []
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if name not in _keys:
            if line[0] in " \t":
                fields.append(_unfolded(fields, line))
                continue
            environ_key(name)
        if not colon:
            raise HeadError(f"header field without a colon: {line!r}")
        fields.append((name, value.strip(" \t")))
    return method, target, version, fields, end + 4


def _unfolded(fields: list[tuple[str, str]], line: str) -> tuple[str, str]:
    """Take the last field and return it with its next line: a space replaces the fold (RFC 9112, 5.2).

    Raises:
        HeadError: no field precedes the line, or the field decides which request or body this is. Proxies read such a
            fold in different ways.
    """
    name, value = fields.pop() if fields else ("", "")
    if not name or name.lower() in _NEVER_FOLDED:
        raise HeadError(f"a line that continues a header field is not allowed here: {line!r}")
    return name, " ".join((value, line.strip(" \t"))).strip(" ")


def parse_request_line(line: str) -> tuple[str, str, str]:
    """Return the method, target and version of a request line.

    Raises:
        HeadError: the line is invalid, or the version is not HTTP/1.
    """
    if len(line) >= MAX_REQUEST_LINE:
        raise HeadError(f"the request line has {MAX_REQUEST_LINE} bytes or more", 414)
    words = line.split(" ")
    if len(words) != 3:
        raise HeadError(f"invalid request line: {line!r}")
    method, target, version = words
    if version not in _VERSIONS:
        match = _VERSION(version)
        if match is None:
            raise HeadError(f"invalid HTTP version: {line!r}")
        if match[1] != "1":
            raise HeadError(f"unsupported HTTP version, only HTTP/1 is supported: {line!r}", 505)
        # A later HTTP/1 version is treated as HTTP/1.1 (RFC 9110, 2.5).
        version = "HTTP/1.1"
    if method not in _METHODS and not is_token(method):
        raise HeadError(f"invalid method: {line!r}")
    if not target or "\t" in target or "#" in target:
        raise HeadError(f"invalid target: {line!r}")
    return method, target, version
