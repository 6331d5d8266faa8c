"""`Places`: URLs, split into where they lead and what is requested there."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit
from weakref import WeakValueDictionary

from oneloop._native import ClientOrigin, plain_target, request_head, split_url
from oneloop.addresses import address_of, is_public
from oneloop.check.failures import TEXT_LIMIT, Failure
from oneloop.check.openings import Way
from oneloop.check.urls import refuse_unusual, shown, url_of

if TYPE_CHECKING:
    from oneloop._native import ClientPool
    from oneloop.check.options import Options
    from oneloop.http.client.proxies import Proxy

__all__ = ["Place", "Places"]

_MOST_PLACES = 4096
_PORTS = {"http": 80, "https": 443}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


class Place:
    """A scheme, host and port, with the fields that are sent there.

    `prefix` is the URL before the path; `tail` is what follows the target in a request's head.
    """

    __slots__ = ("authorization", "is_foreign", "is_forwarded", "origin", "prefix", "tail", "way")

    def __init__(
        self,
        origin: ClientOrigin,
        way: Way,
        prefix: str,
        tail: bytes,
        *,
        authorization: str | None,
        is_foreign: bool,
        is_forwarded: bool,
    ) -> None:
        self.origin = origin
        self.way = way
        self.prefix = prefix
        self.tail = tail
        self.authorization = authorization
        self.is_foreign = is_foreign
        self.is_forwarded = is_forwarded

    def head(self, method: bytes, target: bytes) -> bytes:
        """Return the head of a request."""
        if self.is_forwarded:
            return b"%b %b%b%b" % (method, self.prefix.encode("ascii"), target, self.tail)
        return b"%b %b%b" % (method, target, self.tail)


class Places:
    """The places that were requested from lately.

    Args:
        options: the fields to send.
        pool: the connections.
        proxy: the proxy for all of them.
    """

    def __init__(self, options: Options, pool: ClientPool, proxy: Proxy | None) -> None:
        self._pool = pool
        self._proxy = proxy
        self._blocks_private = options.block_private
        self._fields = [("User-Agent", options.user_agent), ("Accept", "*/*"), ("Accept-Encoding", "gzip, deflate")]
        given = {name.lower() for name, _ in options.headers}
        self._fields = [field for field in self._fields if field[0].lower() not in given]
        self._fields += options.headers
        self._authorization = None if options.auth is None else _basic(*options.auth)
        self._origins: WeakValueDictionary[Way, ClientOrigin] = WeakValueDictionary()
        self._known: dict[str, Place] = {}

    def of(self, url: str) -> tuple[Place, bytes]:
        """Return the place of a URL, and the target to request there.

        Raises:
            Failure: the URL cannot be requested.
        """
        plain = plain_target(url)
        if plain is None:
            return self._parsed(url, None)
        prefix, target = plain
        place = self._known.get(prefix)
        if place is None:
            place, _ = self._parsed(prefix, None)
            if len(self._known) >= _MOST_PLACES:
                del self._known[next(iter(self._known))]
            self._known[prefix] = place
        return place, target

    def next(self, place: Place, target: bytes, location: str) -> tuple[Place, bytes]:
        """Return place and target of the URL that a redirect names.

        Args:
            place: that of the redirect.
            target: that of the redirect.
            location: the URL, absolute or relative.

        Raises:
            Failure: the URL cannot be requested.
        """
        location = location.strip()
        scheme = _SCHEME.match(location)
        if scheme is not None and scheme[1].lower() not in _PORTS:
            raise Failure(
                "invalid_url", f"a redirect to a URL that is not http or https: {shown(location)}"[:TEXT_LIMIT]
            )
        rest = location[scheme.end() :] if scheme is not None else location
        if (scheme is not None or rest.startswith("//")) and not re.match(r"//[^/?#\\]", rest):
            raise Failure("invalid_url", f"a redirect to a URL without a host: {shown(location)}")
        return self._parsed(location, (place, target))

    def _parsed(self, text: str, base: tuple[Place, bytes] | None) -> tuple[Place, bytes]:
        before = None if base is None else base[0]
        try:
            if base is None:
                text = url_of(text)
                parts, _ = split_url(text)
            else:
                parts, _ = split_url(text, base[0].prefix + base[1].decode("ascii"))
        except ValueError as error:
            raise self._refused(text, str(error)) from error
        scheme, user, password, host, port, path, query, _ = parts
        if scheme not in _PORTS or not host:
            raise Failure("invalid_url", "not an http or https URL with a host")
        refuse_unusual(text, host, blocks_private=self._blocks_private)
        way = Way(scheme, host, port or _PORTS[scheme])
        target = (path if query is None else f"{path}?{query}").encode("ascii")
        authorization, is_foreign = self._authorization, False
        if before is not None:
            is_foreign = before.is_foreign or before.way != way
            authorization = before.authorization if before.way == way else None
        if user or password:
            authorization = _basic(unquote(user), unquote(password))
        if before is not None and before.way == way and not (user or password):
            return before, target
        return self._place(way, authorization, is_foreign=is_foreign), target

    def _place(self, way: Way, authorization: str | None, *, is_foreign: bool) -> Place:
        name = f"[{way.host}]" if ":" in way.host else way.host
        if way.port != _PORTS[way.scheme]:
            name = f"{name}:{way.port}"
        fields = self._fields
        if is_foreign:
            fields = [field for field in fields if field[0].lower() not in ("authorization", "cookie")]
        if not any(field[0].lower() == "host" for field in fields):
            fields = [("Host", name), *fields]
        if authorization is not None:
            fields = [*(field for field in fields if field[0].lower() != "authorization")]
            fields.append(("Authorization", authorization))
        proxy = self._proxy
        is_forwarded = proxy is not None and way.scheme == "http"
        if proxy is not None and is_forwarded:
            fields = [*fields, *proxy.fields()]
        head = request_head(b"GET", b"/", [(key.encode(), value.encode()) for key, value in fields])
        origin = self._origins.get(way)
        if origin is None:
            origin = self._origins[way] = ClientOrigin(self._pool, way)
        return Place(
            origin,
            way,
            f"{way.scheme}://{name}",
            head[len(b"GET /") :],
            authorization=authorization,
            is_foreign=is_foreign,
            is_forwarded=is_forwarded,
        )

    def _refused(self, text: str, reason: str) -> Failure:
        if self._blocks_private:
            try:
                address = address_of(urlsplit(text).hostname or "")
            except ValueError:
                address = None
            if address is not None and not is_public(address):
                return Failure("blocked", f"{address} is not a public address")
        return Failure("invalid_url", reason[:TEXT_LIMIT])


def _basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()
