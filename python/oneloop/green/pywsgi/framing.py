"""What a request head says about its target, its body, and the connection; RFC 9112, as strictly as it can be read."""

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
    """How a body is found, and what becomes of the connection after it."""

    content_length: int | None
    is_chunked: bool
    keeps_alive: bool
    expects_continue: bool
    upgrade: str
    """The protocol that the client asks for instead, in lower case; "": none."""


class Target(NamedTuple):
    """What a request is for."""

    path: str
    query: str
    host: str | None
    """Of an absolute target, which counts more than the header."""


def add_field(fields: dict[str, str], key: str, value: str) -> None:
    """Put in a field that is there already.

    Raises:
        HeadError: there may be one of its name only.
    """
    if key in _SINGLE:
        raise HeadError(f"more than one {key.removeprefix('HTTP_').replace('_', '-').title()}")
    fields[key] += f"; {value}" if key == "HTTP_COOKIE" else f",{value}"


def tokens(value: str) -> list[str]:
    """The items of a list, in lower case."""
    return [item.strip(" \t").lower() for item in value.split(",")]


def parse_content_length(text: str) -> int:
    """The length.

    Raises:
        HeadError: it is none.
    """
    if _DIGITS(text) is None:
        raise HeadError(f"not a Content-Length: {text!r}")
    return int(text)


def frame(version: str, fields: dict[str, str]) -> Frame:
    """What the fields of a head say, under their names in an environ.

    Raises:
        HeadError: the body cannot be found, or could be found in more than one way; or the host is none.
    """
    is_latest = version == "HTTP/1.1"
    length = None
    if "CONTENT_LENGTH" in fields:
        length = parse_content_length(fields["CONTENT_LENGTH"])
    is_chunked = "HTTP_TRANSFER_ENCODING" in fields
    if is_chunked:
        _check_coding(fields["HTTP_TRANSFER_ENCODING"], is_latest and length is None)
    host = fields.get("HTTP_HOST")
    if host is None:
        if is_latest:
            raise HeadError("no Host")
    elif _HOST(host) is None:
        raise HeadError(f"not a host: {host!r}")
    connection = fields.get("HTTP_CONNECTION")
    upgrade = ""
    keeps_alive = is_latest
    if connection == "keep-alive":
        keeps_alive = True
    elif connection is not None:
        options = tokens(connection)
        keeps_alive = "close" not in options and (is_latest or "keep-alive" in options)
        if is_latest and "upgrade" in options:
            upgrade = fields.get("HTTP_UPGRADE", "").lower()
    expects = is_latest and "HTTP_EXPECT" in fields and fields["HTTP_EXPECT"].lower() == "100-continue"
    return Frame(length, is_chunked, keeps_alive, expects, upgrade)


def _check_coding(coding: str, may_be_chunked: bool) -> None:
    if not may_be_chunked:
        raise HeadError("Transfer-Encoding in HTTP/1.0, or beside Content-Length")
    if coding.lower() != "chunked":
        raise HeadError(f"a transfer coding that is not known: {coding!r}", 501)


def split_target(method: str, target: str) -> Target:
    """The parts of a target: `/path?query`, `http://host/path?query`, or `*` of OPTIONS.

    Raises:
        HeadError: it is none of them.
    """
    host = None
    if target[0] != "/":
        match = _ABSOLUTE(target)
        if match is not None and method != "CONNECT":
            host, target = match[1], match[2]
            if _HOST(host) is None:
                raise HeadError(f"not a host: {host!r}")
            if target[:1] != "/":
                target = f"/{target}"
        elif target != "*" or method != "OPTIONS":
            raise HeadError(f"not a target for {method}: {target!r}")
    path, _, query = target.partition("?")
    return Target(path, query, host)
