"""Evaluates a request head: the target, the body's framing, and the connection. Strict, by RFC 9112."""

from __future__ import annotations

import re
from typing import NamedTuple

from oneloop.green.pywsgi.heads import HeadError

__all__ = ["Frame", "Target", "add_field", "frame", "parse_content_length", "split_target", "tokens"]

_SINGLE = frozenset(("HTTP_HOST", "CONTENT_LENGTH", "CONTENT_TYPE", "HTTP_TRANSFER_ENCODING"))
_HOST = re.compile(r"(?:[A-Za-z0-9\-._~%!$&'()*+,;=]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?").fullmatch
_DIGITS = re.compile(r"[0-9]{1,18}").fullmatch
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://([^/?]*)(.*)").fullmatch


class Frame(NamedTuple):
    """How the body is framed, and what happens to the connection after it."""

    content_length: int | None
    is_chunked: bool
    keeps_alive: bool
    expects_continue: bool
    upgrade: str
    """The protocol that the client wants to switch to, in lower case; empty if none."""


class Target(NamedTuple):
    """The target of a request."""

    path: str
    query: str
    host: str | None
    """The host of an absolute target. It takes precedence over the Host field."""


def add_field(fields: dict[str, str], key: str, value: str) -> None:
    """Append the value of a repeated field.

    Raises:
        HeadError: the field must not be repeated.
    """
    if key in _SINGLE:
        raise HeadError(f"more than one {key.removeprefix('HTTP_').replace('_', '-').title()} field")
    fields[key] += f"; {value}" if "COOKIE" in key else f",{value}"


def tokens(value: str) -> list[str]:
    """The items of a comma-separated list, in lower case."""
    return [item.strip(" \t").lower() for item in value.split(",")]


def parse_content_length(text: str) -> int:
    """Parse a request's Content-Length.

    Raises:
        HeadError: it is not a number.
    """
    if _DIGITS(text) is None:
        raise HeadError(f"invalid Content-Length: {text!r}")
    return int(text)


def frame(version: str, fields: dict[str, str]) -> Frame:
    """Evaluate the fields of a head.

    Args:
        version: the HTTP version.
        fields: the fields by their names in an environ.

    Raises:
        HeadError: the body's framing is unknown or ambiguous, or the host is invalid.
    """
    is_latest = version == "HTTP/1.1"
    length = None
    if "CONTENT_LENGTH" in fields:
        length = parse_content_length(fields["CONTENT_LENGTH"])
    is_chunked = "HTTP_TRANSFER_ENCODING" in fields
    if is_chunked:
        _check_coding(fields["HTTP_TRANSFER_ENCODING"], is_latest and length is None)
    # Like gevent, and unlike RFC 9112, this server answers requests without a Host field: those of simple probes.
    host = fields.get("HTTP_HOST")
    if host is not None and _HOST(host) is None:
        raise HeadError(f"invalid host: {host!r}")
    connection = fields.get("HTTP_CONNECTION")
    upgrade = ""
    keeps_alive = is_latest
    if connection == "keep-alive":
        keeps_alive = True
    elif connection is not None:
        options = tokens(connection)
        keeps_alive = "close" not in options and (is_latest or "keep-alive" in options)
        if is_latest and "upgrade" in options:
            upgrade = fields.get("HTTP_UPGRADE", "upgrade").lower()
    if is_latest and not upgrade and fields.get("HTTP_UPGRADE", "").lower() == "websocket":
        upgrade = "websocket"
    expects = is_latest and "HTTP_EXPECT" in fields and fields["HTTP_EXPECT"].lower() == "100-continue"
    return Frame(length, is_chunked, keeps_alive, expects, upgrade)


def _check_coding(coding: str, may_be_chunked: bool) -> None:
    if not may_be_chunked:
        raise HeadError("Transfer-Encoding must not be used in HTTP/1.0 or beside Content-Length")
    if coding.lower() != "chunked":
        raise HeadError(f"unknown transfer coding: {coding!r}", 501)


def split_target(method: str, target: str) -> Target:
    """Split a target: `/path?query`, `http://host/path?query`, or `*` for OPTIONS.

    Raises:
        HeadError: the target has another form.
    """
    host = None
    if target[0] != "/":
        match = _ABSOLUTE(target)
        if match is not None and method != "CONNECT":
            host, target = match[1], match[2]
            if _HOST(host) is None:
                raise HeadError(f"invalid host: {host!r}")
            if target[:1] != "/":
                target = f"/{target}"
        elif target != "*" or method != "OPTIONS":
            raise HeadError(f"invalid target for {method}: {target!r}")
    path, _, query = target.partition("?")
    return Target(path, query, host)
