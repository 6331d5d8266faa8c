"""What answers are made of: status lines and header fields, checked and encoded; dates; the answers to bad requests."""

from __future__ import annotations

import re
from http import HTTPStatus
from time import gmtime, localtime, time
from typing import Any

from oneloop.green.pywsgi.heads import is_token

__all__ = ["clock", "encode_field", "encode_status", "known_field", "parse_length", "refusal"]

MAX_KNOWN = 1000
_STATUS = re.compile(r"[1-9][0-9][0-9](?: [\t\x20-\x7e\x80-\xff]*)?").fullmatch
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*").fullmatch
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_statuses: dict[str, tuple[bytes, int]] = {}
_fields: dict[tuple[str, str], tuple[bytes, bytes, str]] = {}


def encode_status(status: Any) -> tuple[bytes, int]:
    """A status for the status line, and its number.

    Raises:
        UnicodeError: it is no str.
        ValueError: it is no status.
    """
    known = _statuses.get(status) if isinstance(status, str) else None
    if known is None:
        if not isinstance(status, str):
            raise UnicodeError("The status string must be a native string")
        if _STATUS(status) is None:
            raise ValueError("not a status, or one with a control character", status)
        known = status.encode("latin-1"), int(status[:3])
        if len(_statuses) >= MAX_KNOWN:
            _statuses.clear()
        _statuses[status] = known
    return known


def encode_field(field: tuple[Any, Any]) -> tuple[bytes, bytes, str]:
    """Name and value of a header field as they are sent, and the name in lower case.

    Raises:
        UnicodeError: they are no str, or not latin-1.
        ValueError: they have characters that would change the head.
    """
    name, value = field
    if not isinstance(name, str) or not isinstance(value, str):
        raise UnicodeError("names and values of header fields must be native strings", name, value)
    if not is_token(name):
        raise ValueError("not the name of a header field", name)
    if _VALUE(value) is None:
        if any(ord(char) > 255 for char in value):
            raise UnicodeError("Non-latin1 header", name, value)
        raise ValueError("a control character in the value of a header field", name, value)
    encoded = name.encode("latin-1"), value.encode("latin-1"), name.lower()
    if len(value) <= 100:
        if len(_fields) >= MAX_KNOWN:
            _fields.clear()
        _fields[name, value] = encoded
    return encoded


known_field = _fields.get
"""What `encode_field` has said of a field already."""


def parse_length(text: str) -> int:
    """The Content-Length of an application.

    Raises:
        ValueError: it is none.
    """
    if not text.isascii() or not text.isdigit():
        raise ValueError("not a Content-Length", text)
    return int(text)


class _Clock:
    """The time of day as text, made once a second."""

    def __init__(self) -> None:
        self._second = -1
        self._http = b""
        self._local_second = -1
        self._local = ""

    def http_date(self) -> bytes:
        """For the `Date` field."""
        now = int(time())
        if now != self._second:
            at = gmtime(now)
            self._http = (
                f"{_DAYS[at.tm_wday]}, {at.tm_mday:02} {_MONTHS[at.tm_mon - 1]} {at.tm_year} "
                f"{at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02} GMT"
            ).encode()
            self._second = now
        return self._http

    def local(self) -> str:
        """For logs."""
        now = int(time())
        if now != self._local_second:
            at = localtime(now)
            self._local = f"{at.tm_year}-{at.tm_mon:02}-{at.tm_mday:02} {at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02}"
            self._local_second = now
        return self._local


clock = _Clock()


def refusal(status: int) -> tuple[str, bytes]:
    """A whole answer without a body, after which the connection ends: its status, and what is sent."""
    phrase = HTTPStatus(status).phrase
    text = f"HTTP/1.1 {status} {phrase}\r\nDate: "
    head = text.encode() + clock.http_date() + b"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    return f"{status} {phrase}", head
