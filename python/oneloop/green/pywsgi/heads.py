"""Request heads: bytes to names and values, checked as strictly as RFC 9112 asks.

`parse` needs nothing but the bytes, so that a native function of the same signature can stand in for it.
"""

from __future__ import annotations

import re

__all__ = ["MAX_FIELDS", "HeadError", "Parsed", "environ_key", "is_token", "parse"]

Parsed = tuple[str, str, str, list[tuple[str, str]], int]
"""Method, target, version, header fields, and where the head ends."""

MAX_FIELDS = 100
"""A head with more fields is refused."""

END = b"\r\n\r\n"
_PLAIN = bytes(byte for byte in range(256) if byte >= 0x20 and byte != 0x7F) + b"\t"
_LINE_ENDS = [b"\r\n" * count for count in range(MAX_FIELDS + 1)]
_VERSIONS = frozenset(("HTTP/1.1", "HTTP/1.0"))
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"))
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch
_VERSION = re.compile(r"HTTP/([0-9])\.[0-9]").fullmatch

MAX_KNOWN_NAMES = 1000
_keys: dict[str, str] = {}
"""Names of fields that were found to be tokens, and what they are called in an environ; "": nothing."""
known_key = _keys.get
"""What `environ_key` has said of a name already."""


class HeadError(ValueError):
    """A head that is refused; `status` is the answer's."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status
        self.formatted_message = message


def is_token(text: str) -> bool:
    """Whether it may be a method, or the name of a field."""
    return _TOKEN(text) is not None


def environ_key(name: str) -> str:
    """What a field is called in an environ; "" if it is left out, because its name has an underscore.

    `X_Real` and `X-Real` would be called the same, so that a client could override what a proxy has set.

    Raises:
        HeadError: it is no name.
    """
    key = _keys.get(name)
    if key is None:
        if not is_token(name):
            raise HeadError(f"not the name of a header field: {name!r}")
        upper = name.upper().replace("-", "_")
        special = ("CONTENT_TYPE", "CONTENT_LENGTH")
        key = "" if "_" in name else upper if upper in special else f"HTTP_{upper}"
        if len(_keys) >= MAX_KNOWN_NAMES:
            _keys.clear()
        _keys[name] = key
    return key


def parse(data: bytes, start: int = 0) -> Parsed | None:
    """The head that begins at `start`; None if its end is not there yet.

    Values are latin-1, without the blanks around them.

    Raises:
        HeadError: it is refused.
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
        raise HeadError("a control character, or a line that does not end with CR LF")
    method, target, version = parse_request_line(lines[0])
    fields = []
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if name not in _keys:
            environ_key(name)
        if not colon:
            raise HeadError(f"a header field without a colon: {line!r}")
        fields.append((name, value.strip(" \t")))
    return method, target, version, fields, end + 4


def parse_request_line(line: str) -> tuple[str, str, str]:
    """Method, target and version of a request line.

    Raises:
        HeadError: it is none; or the version is not one of HTTP/1.
    """
    words = line.split(" ")
    if len(words) != 3:
        raise HeadError(f"not a request line: {line!r}")
    method, target, version = words
    if version not in _VERSIONS:
        match = _VERSION(version)
        if match is None:
            raise HeadError(f"not a version of HTTP: {line!r}")
        if match[1] != "1":
            raise HeadError(f"not a version of HTTP/1: {line!r}", 505)
        # A later HTTP/1 is to be read as the one that is known (RFC 9110, 2.5).
        version = "HTTP/1.1"
    if method not in _METHODS and not is_token(method):
        raise HeadError(f"not a method: {line!r}")
    if not target or "\t" in target or "#" in target:
        raise HeadError(f"not a target: {line!r}")
    return method, target, version
