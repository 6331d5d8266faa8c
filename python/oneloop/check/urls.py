"""`url_of`: checks whether a text is a URL that can be requested, and if not, why. Uses neither files nor the network.

It refuses only URLs that are certainly wrong: another scheme than http and https, no host, an invalid port, whitespace
and control characters. The HTTP client finds out whether the host is a valid name and exists.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from oneloop.check.failures import Failure

if TYPE_CHECKING:
    from oneloop.check.result import ErrorClass

__all__ = ["SCHEMES", "URL_CHARACTERS", "refuse_unusual", "shown", "url_of"]

SCHEMES = ("http", "https")

URL_CHARACTERS = 32_768
"""The longest URL that is accepted."""

SHOWN_CHARACTERS = 200
"""Texts in messages are shortened to this length."""

_FORBIDDEN_CLASS = r"\s\x00-\x1f\x7f-\x9f\ud800-\udfff"
# The fast path: most URLs match this, and need no further checks.
_is_plain = re.compile(
    r"https?://[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}))?"
    rf"(?:[/?#][^{_FORBIDDEN_CLASS}]*)?"
).fullmatch
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# `localhost:8080` is a host and a port, but `mailto:me` begins with a scheme. The listed names are schemes even before
# digits.
_OTHER_SCHEME = re.compile(
    r"((?:https?|tel|sms|data|javascript|mailto|urn)(?=:)|[a-z][a-z0-9+-]*(?=:[^0-9/@]))", re.ASCII | re.IGNORECASE
)
_FORBIDDEN = re.compile(rf"[{_FORBIDDEN_CLASS}]")
_FORBIDDEN_IN_HOST = re.compile(r"[\\^<>\"`{|}]")


def url_of(text: str, scheme: str | None = None) -> str:
    """Check a URL.

    Args:
        text: the URL. Whitespace around it is removed.
        scheme: `http` or `https`, which is put in front of a URL without a scheme.

    Returns:
        The URL, otherwise unchanged.

    Raises:
        ValueError: the text is not a URL that can be requested. The message says why and, if possible, what to do.
    """
    if _is_plain(text) and len(text) <= URL_CHARACTERS:
        return text
    return _looked_at(text.strip().lstrip("\ufeff"), scheme)


def _looked_at(text: str, scheme: str | None) -> str:
    if not text:
        raise ValueError("no URL")
    if len(text) > URL_CHARACTERS:
        raise ValueError(f"{len(text)} characters: a URL may have at most {URL_CHARACTERS}")
    forbidden = _FORBIDDEN.search(text)
    if forbidden:
        raise ValueError(_name(forbidden.group(), forbidden.start() + 1))
    text = _with_scheme(text, scheme)
    try:
        parts = urlsplit(text)
        host = parts.hostname
    except ValueError as error:
        # urlsplit refuses brackets without an IPv6 address, and characters that Unicode normalization turns into
        # delimiters.
        raise ValueError(shown(str(error))) from None
    if not host:
        raise ValueError("no host")
    found = _FORBIDDEN_IN_HOST.search(parts.netloc)
    if found:
        raise ValueError(f"the host contains {found.group()!r}")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError("the port is not a number from 1 to 65535")
    return text


def _with_scheme(text: str, scheme: str | None) -> str:
    found = _SCHEME.match(text)
    if found is None:
        other = _OTHER_SCHEME.match(text)
        if other is None:
            bare = text.lstrip("/") if text.startswith("//") else text
            if not bare or bare[0] in "/?#.":
                raise ValueError("no host: write the whole URL")
            if scheme is None:
                raise ValueError(f"no scheme: write https://{shown(bare)}, or use --scheme")
            return f"{scheme}://{bare}"
        found = other
    name = found.group(1).lower()
    if name not in SCHEMES:
        raise ValueError(f"scheme {shown(name)!r}: only http and https can be checked")
    if found.re is not _SCHEME:
        raise ValueError(f"no // after {name}:")
    return text


def _name(character: str, column: int) -> str:
    if "\udc80" <= character <= "\udcff":
        return f"not UTF-8: byte 0x{ord(character) - 0xDC00:02x} at character {column}"
    if "\ud800" <= character <= "\udfff":
        return f"half of a surrogate pair at character {column}"
    if character.isspace():
        return f"whitespace in the URL, at character {column}: write %20 for a space"
    return f"control character 0x{ord(character):02x} at character {column}"


def shown(text: str) -> str:
    """Return a text for a message: shortened, and with control characters escaped, so that a terminal ignores them."""
    short = text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
    if short.isprintable():
        return short
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in short)


def refuse_unusual(text: str, host: str, *, blocks_private: bool) -> None:
    """Refuse unusual notations of IPv4 addresses, such as 0x7f.1: programs disagree on what they mean.

    Args:
        text: the URL as it was written.
        host: its host as it is understood.
        blocks_private: only public addresses are allowed.

    Raises:
        Failure: the notation is unusual.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return
    written = urlsplit(text).hostname
    # A relative redirect has no host.
    if isinstance(address, IPv4Address) and written not in (None, host):
        kind: ErrorClass = "blocked" if blocks_private else "invalid_url"
        raise Failure(kind, f"{shown(written)} is an unusual notation of {address}")
