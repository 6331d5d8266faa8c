"""Whether a text is a URL that can be requested, and if not, why; knows neither files nor the network.

Only what is wrong for sure is refused: no http(s), no host, a port that is none, whitespace and control characters.
Whether a host exists, or is a name at all, is the client's to find out.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

__all__ = ["SCHEMES", "URL_CHARACTERS", "shown", "url_of"]

SCHEMES = ("http", "https")

URL_CHARACTERS = 32_768
"""A URL may be so long."""

SHOWN_CHARACTERS = 200
"""What is wrong is shown up to this length."""

_FORBIDDEN_CLASS = r"\s\x00-\x1f\x7f-\x9f\ud800-\udfff"
# Most URLs need no closer look.
_is_plain = re.compile(
    r"https?://[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}))?"
    rf"(?:[/?#][^{_FORBIDDEN_CLASS}]*)?"
).fullmatch
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# `localhost:8080` is a host and a port; `mailto:me` is a scheme, and so are these where digits follow.
_OTHER_SCHEME = re.compile(
    r"((?:https?|tel|sms|data|javascript|mailto|urn)(?=:)|[a-z][a-z0-9+-]*(?=:[^0-9/@]))", re.ASCII | re.IGNORECASE
)
_FORBIDDEN = re.compile(rf"[{_FORBIDDEN_CLASS}]")
_FORBIDDEN_IN_HOST = re.compile(r"[\\^<>\"`{|}]")


def url_of(text: str, scheme: str | None = None) -> str:
    """The URL that a text is, as it stands there; with `scheme://` in front if it has none and `scheme` is given.

    Raises:
        ValueError: it is none; the message says what to do, where that is known.
    """
    if _is_plain(text) and len(text) <= URL_CHARACTERS:
        return text
    return _looked_at(text.strip().lstrip("\ufeff"), scheme)


def _looked_at(text: str, scheme: str | None) -> str:
    if not text:
        raise ValueError("no URL")
    if len(text) > URL_CHARACTERS:
        raise ValueError(f"{len(text)} characters: a URL has at most {URL_CHARACTERS}")
    forbidden = _FORBIDDEN.search(text)
    if forbidden:
        raise ValueError(_name(forbidden.group(), forbidden.start() + 1))
    text = _with_scheme(text, scheme)
    try:
        parts = urlsplit(text)
        host = parts.hostname
    except ValueError as error:
        # Brackets that are no IPv6 address, characters that Unicode's normal form makes delimiters.
        raise ValueError(shown(str(error))) from None
    if not host:
        raise ValueError("no host")
    found = _FORBIDDEN_IN_HOST.search(parts.netloc)
    if found:
        raise ValueError(f"{found.group()!r} in the host")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError("the port is no number from 1 to 65535")
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
        raise ValueError(f"no // behind {name}:")
    return text


def _name(character: str, column: int) -> str:
    if "\udc80" <= character <= "\udcff":
        return f"not UTF-8: byte 0x{ord(character) - 0xDC00:02x} at character {column}"
    if "\ud800" <= character <= "\udfff":
        return f"half of a surrogate pair at character {column}"
    if character.isspace():
        return f"whitespace within the URL, at character {column}: write %20 for a space"
    return f"control character 0x{ord(character):02x} at character {column}"


def shown(text: str) -> str:
    """A text for people: shortened, and without anything that a terminal would obey."""
    short = text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"
    if short.isprintable():
        return short
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in short)
