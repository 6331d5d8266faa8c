"""Parts of responses: checked and encoded status lines and header fields, dates, and responses to bad requests."""

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
    """Return a status as bytes for the status line, and its number.

    Args:
        status: the status code and the reason phrase, as in "200 OK".

    Raises:
        UnicodeError: the status is not a str.
        ValueError: the status is invalid.
    """
    known = _statuses.get(status) if isinstance(status, str) else None
    if known is None:
        if not isinstance(status, str):
            raise UnicodeError("The status string must be a native string")
        if "\r" in status or "\n" in status:
            raise ValueError("carriage return or newline in status", status)
        if _STATUS(status) is None:
            raise ValueError("invalid status, or one with a control character", status)
        known = status.encode("latin-1"), int(status[:3])
        if len(_statuses) >= MAX_KNOWN:
            _statuses.clear()
        _statuses[status] = known
    return known


def encode_field(field: tuple[Any, Any]) -> tuple[bytes, bytes, str]:
    """Return the encoded name and value of a header field, and the name in lower case.

    Args:
        field: name and value.

    Raises:
        UnicodeError: the name or the value is not a str, or not latin-1.
        ValueError: the name or the value has characters that would change the head.
    """
    name, value = field
    if not isinstance(name, str) or not isinstance(value, str):
        raise UnicodeError("names and values of header fields must be str", name, value)
    if "\r" in name or "\n" in name:
        raise ValueError("carriage return or newline in header name", name)
    if not is_token(name):
        raise ValueError("invalid name of a header field", name)
    if _VALUE(value) is None:
        if any(ord(char) > 255 for char in value):
            raise UnicodeError("Non-latin1 header", name, value)
        if "\r" in value or "\n" in value:
            raise ValueError("carriage return or newline in header value", name, value)
        raise ValueError("control character in the value of a header field", name, value)
    encoded = name.encode("latin-1"), value.encode("latin-1"), name.lower()
    if len(value) <= 100:
        if len(_fields) >= MAX_KNOWN:
            _fields.clear()
        _fields[name, value] = encoded
    return encoded


known_field = _fields.get
"""The cached result of `encode_field`, or None."""


def parse_length(text: str) -> int:
    """Parse the Content-Length of an application.

    Raises:
        ValueError: it is not a number.
    """
    if not text.isascii() or not text.isdigit():
        raise ValueError("invalid Content-Length", text)
    return int(text)


class _Clock:
    """The current time as text, formatted once per second."""

    def __init__(self) -> None:
        self._second = -1
        self._http = b""
        self._local_second = -1
        self._local = ""

    def http_date(self) -> bytes:
        """The time in the format of the `Date` field."""
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
        """The local time in the format of logs."""
        now = int(time())
        if now != self._local_second:
            at = localtime(now)
            self._local = f"{at.tm_year}-{at.tm_mon:02}-{at.tm_mday:02} {at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02}"
            self._local_second = now
        return self._local


clock = _Clock()


def refusal(status: int) -> tuple[str, bytes]:
    """Return a complete response without a body that closes the connection: its status, and the bytes to send."""
    phrase = HTTPStatus(status).phrase
    text = f"HTTP/1.1 {status} {phrase}\r\nDate: "
    head = text.encode() + clock.http_date() + b"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    return f"{status} {phrase}", head
