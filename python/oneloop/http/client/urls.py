"""`URL` and `QueryParams`. URLs are parsed as browsers parse them (WHATWG URL Standard), by the Rust crate `url`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

from oneloop._native import split_url
from oneloop.http.client.errors import InvalidURL

__all__ = ["URL", "QueryParams", "to_url"]

_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_HOST_AND_PORT = re.compile(r"(.*?)(?::(\d*))?", re.DOTALL)
_PLACE = "oneloop-relative://"
"""The base of a reference without scheme and host, so that it can be parsed."""


class QueryParams(Mapping[str, str]):
    """The parameters of a query: an immutable mapping in which a name can have several values.

    Args:
        params: a query such as "a=1&b=2", a mapping, pairs, or another QueryParams. Values may be strings, numbers,
            booleans ("true", "false"), None (empty), or sequences of those.
    """

    def __init__(self, params: Any = None, **named: Any) -> None:
        source = named or params
        if isinstance(source, bytes):
            source = source.decode("ascii")
        if source is None:
            pairs: list[tuple[str, str]] = []
        elif isinstance(source, str):
            pairs = parse_qsl(source, keep_blank_values=True)
        elif isinstance(source, QueryParams):
            pairs = source.multi_items()
        else:
            given = source.items() if isinstance(source, Mapping) else source
            pairs = []
            for name, value in given:
                values = value if isinstance(value, (list, tuple)) else [value]
                pairs += [(str(name), _text_of(single)) for single in values]
        self._pairs = pairs

    def multi_items(self) -> list[tuple[str, str]]:
        """Return all pairs in their order."""
        return list(self._pairs)

    def get_list(self, key: str) -> list[str]:
        """Return all values of a name."""
        return [value for name, value in self._pairs if name == key]

    def set(self, key: str, value: Any = None) -> QueryParams:
        """Return a copy in which the name has only this value."""
        return self.merge({key: value})

    def add(self, key: str, value: Any = None) -> QueryParams:
        """Return a copy with one more pair."""
        return QueryParams([*self._pairs, (key, value)])

    def remove(self, key: str) -> QueryParams:
        """Return a copy without the name."""
        return QueryParams([pair for pair in self._pairs if pair[0] != key])

    def merge(self, params: Any = None) -> QueryParams:
        """Return a copy in which the names in `params` have the values there."""
        left = QueryParams(params).multi_items()
        pairs: list[tuple[str, str]] = []
        changed = {name for name, _ in left}
        for name, value in self._pairs:
            if name in changed:
                # They take the place of the first one.
                pairs += [pair for pair in left if pair[0] == name]
                left = [pair for pair in left if pair[0] != name]
            else:
                pairs.append((name, value))
        return QueryParams(pairs + left)

    def update(self, params: Any = None) -> None:
        """Refuse, with httpx's words: it is immutable.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("QueryParams are immutable since 0.18.0. Use `q = q.merge(...)` to create an updated copy.")

    def __getitem__(self, key: str) -> str:
        for name, value in self._pairs:
            if name == key:
                return value
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return any(name == key for name, _ in self._pairs)

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._pairs))

    def __len__(self) -> int:
        return len(dict(self._pairs))

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueryParams) and sorted(self._pairs) == sorted(other._pairs)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return urlencode(self._pairs)

    def __repr__(self) -> str:
        return f"QueryParams({str(self)!r})"


def _text_of(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class URL:
    """A URL: immutable, normalised.

    Args:
        url: the URL; without a scheme and a host it is a reference, for a client with a `base_url`.
        params: the parameters of its query, in place of those in `url`.
        **parts: other parts; see `copy_with`.

    Raises:
        InvalidURL: it cannot be parsed.
        TypeError: it is no string and no URL.
    """

    __slots__ = ("_parts", "_text", "is_absolute_url", "key", "target")

    def __init__(self, url: URL | str = "", *, params: Any = None, **parts: Any) -> None:
        if isinstance(url, URL):
            text = url._text
        elif isinstance(url, str):
            text = url
        else:
            raise TypeError(f"Invalid type for url. Expected str or oneloop.http.URL, got {type(url)}: {url!r}")
        if params is not None:
            text = _with_query(text, str(QueryParams(params)))
        if parts:
            text = str(URL(text).copy_with(**parts))
        self._parse(text)

    def _parse(self, text: str) -> None:
        is_absolute = _has_scheme(text)
        try:
            self._parts, self._text = split_url(text) if is_absolute else split_url(text, _PLACE + "host/")
        except ValueError as error:
            raise InvalidURL(f"Invalid URL {text!r}: {error}") from None
        self.is_absolute_url = is_absolute and bool(self._parts[3])
        if not is_absolute:
            self._text = text
        scheme, _, _, host, port, path, query, _ = self._parts
        self.key = (scheme, host, port or _DEFAULT_PORTS.get(scheme, 0))
        """What connections are kept by: scheme, host, port."""
        self.target = f"{path}?{query}" if query is not None else path
        """What the request line says: path and query."""

    @property
    def scheme(self) -> str:
        """Lower case; "" for a reference."""
        return self._parts[0] if self.is_absolute_url or _has_scheme(self._text) else ""

    @property
    def host(self) -> str:
        """Lower case, ASCII (IDNA), without the brackets of an IPv6 address; "" for a reference."""
        return self._parts[3] if self.is_absolute_url else ""

    @property
    def raw_scheme(self) -> bytes:
        """`scheme`, as it is sent."""
        return self.scheme.encode("ascii")

    @property
    def raw_host(self) -> bytes:
        """`host`, as it is sent."""
        return self.host.encode("ascii")

    @property
    def userinfo(self) -> bytes:
        """User and password, encoded, with the colon between them if there is a password."""
        user, password = self._parts[1], self._parts[2]
        return (f"{user}:{password}" if password else user).encode("ascii")

    @property
    def port(self) -> int | None:
        """None: the default port of the scheme."""
        return self._parts[4]

    @property
    def username(self) -> str:
        """Decoded."""
        return unquote(self._parts[1])

    @property
    def password(self) -> str:
        """Decoded."""
        return unquote(self._parts[2])

    @property
    def netloc(self) -> str:
        """Host and port as in the Host field: the port only if it is not the scheme's."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def path(self) -> str:
        """Decoded."""
        return unquote(self._parts[5])

    @property
    def raw_path(self) -> bytes:
        """Path and query as they are sent."""
        return self.target.encode("ascii")

    @property
    def query(self) -> bytes:
        """Without the question mark, as it is sent."""
        return (self._parts[6] or "").encode("ascii")

    @property
    def params(self) -> QueryParams:
        """The parameters of the query."""
        return QueryParams(self._parts[6])

    @property
    def fragment(self) -> str:
        """Decoded. It is never sent."""
        return unquote(self._parts[7] or "")

    @property
    def is_relative_url(self) -> bool:
        """Whether a scheme or a host is missing."""
        return not self.is_absolute_url

    def join(self, url: URL | str) -> URL:
        """Return the URL that a reference means, seen from this one (RFC 3986 section 5)."""
        text = str(url)
        if not self.is_absolute_url:
            return URL(text)
        try:
            return URL(split_url(text, self._text)[1])
        except ValueError as error:
            raise InvalidURL(f"Invalid URL {text!r}: {error}") from None

    def copy_with(self, **changes: Any) -> URL:
        """Return a copy with other parts.

        Args:
            **changes: scheme, username, password, host, port, path, query, fragment, params; or, as bytes: userinfo
                (user and password), netloc (host and port), raw_path (path and query).
        """
        unknown = changes.keys() - {
            "scheme", "username", "password", "host", "port", "path", "query", "fragment", "params",
            "userinfo", "netloc", "raw_path",
        }  # fmt: skip
        if unknown:
            raise TypeError(f"{min(unknown)!r} is an invalid keyword argument for URL()")
        if changes.keys() & {"userinfo", "netloc", "raw_path"}:
            return self._copy_with_raw(changes)
        host = changes.get("host", self.host)
        port = changes.get("port", self.port)
        username = quote(changes.get("username", self.username) or "", safe="")
        password = quote(changes.get("password", self.password) or "", safe="")
        if "params" in changes:
            query: Any = str(QueryParams(changes["params"])) or None
        else:
            query = changes.get("query", self._parts[6])
        if isinstance(query, bytes):
            query = query.decode("ascii")
        path = quote(changes["path"], safe="/%:@!$&'()*+,;=~-._") if "path" in changes else self._parts[5]
        fragment = changes.get("fragment", self._parts[7])
        user = f"{username}:{password}@" if password else f"{username}@" if username else ""
        at = f"[{host}]" if ":" in host else host
        text = f"{changes.get('scheme', self.scheme)}://{user}{at}" if host else ""
        text += f":{port}" if port is not None and host else ""
        text += path + (f"?{query}" if query is not None else "") + (f"#{fragment}" if fragment else "")
        return URL(text)

    def _copy_with_raw(self, changes: dict[str, Any]) -> URL:
        """`copy_with` for the parts that are several ones."""
        raw = {name: changes.pop(name, None) for name in ("userinfo", "netloc", "raw_path")}
        text = {name: part.decode("ascii") if isinstance(part, bytes) else part for name, part in raw.items()}
        if text["userinfo"] is not None:
            username, _, password = text["userinfo"].partition(":")
            changes = {"username": unquote(username), "password": unquote(password), **changes}
        if text["netloc"] is not None:
            host, port = _HOST_AND_PORT.fullmatch(text["netloc"]).groups()  # type: ignore[union-attr]
            changes = {"host": host.strip("[]"), "port": int(port) if port else None, **changes}
        if text["raw_path"] is None:
            return self.copy_with(**changes)
        path, mark, query = text["raw_path"].partition("?")
        if not self.is_absolute_url:
            return URL(text["raw_path"])
        changed = self.copy_with(**{"query": query if mark else None, **changes})
        # It is encoded already: not as `path`, which would be encoded again.
        origin = changed._text[: changed._text.index("/", changed._text.index("//") + 2)]
        return URL(origin + path + changed._text[len(origin) + len(changed._parts[5]) :])

    def copy_set_param(self, key: str, value: Any = None) -> URL:
        """Return a copy in which the parameter has only this value."""
        return self.copy_with(params=self.params.set(key, value))

    def copy_add_param(self, key: str, value: Any = None) -> URL:
        """Return a copy with one more parameter."""
        return self.copy_with(params=self.params.add(key, value))

    def copy_remove_param(self, key: str) -> URL:
        """Return a copy without the parameter."""
        return self.copy_with(params=self.params.remove(key))

    def copy_merge_params(self, params: Any) -> URL:
        """Return a copy with the parameters changed and added."""
        return self.copy_with(params=self.params.merge(params))

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        shown = self._text
        if self._parts[2]:
            shown = shown.replace(f":{self._parts[2]}@", ":[secure]@", 1)
        return f"URL({shown!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (URL, str)) and self._text == str(to_url(other))

    def __hash__(self) -> int:
        return hash(self._text)


def _has_scheme(text: str) -> bool:
    scheme, colon, _ = text.partition(":")
    return bool(colon) and scheme[:1].isalpha() and all(c.isalnum() or c in "+-." for c in scheme)


def _with_query(text: str, query: str) -> str:
    rest, hash_sign, fragment = text.partition("#")
    rest = rest.partition("?")[0] + (f"?{query}" if query else "")
    return rest + hash_sign + fragment


@lru_cache(maxsize=4096)
def _parsed(text: str) -> URL:
    return URL(text)


def to_url(url: URL | str) -> URL:
    """Return the URL; that of a string that was seen before is not parsed again."""
    if type(url) is str:
        return _parsed(url)
    return url if isinstance(url, URL) else URL(url)
