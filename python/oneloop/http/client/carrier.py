"""`Carrier`: sends requests of other packages' interfaces on the native core: those of httpcore, httpx and requests.

It takes a request apart as bytes, fields and an iterable body, and gives back the exchange. What the packages' own
objects look like is not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneloop._native import ClientTimeouts, framed_head
from oneloop.http.client.carried import CarrierRoute, Wishes
from oneloop.http.client.errors import LocalProtocolError, UnsupportedProtocol
from oneloop.http.client.forks import forget_in_child
from oneloop.http.client.pools import Pool
from oneloop.http.client.protocols import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from oneloop._native import ClientOrigin
    from oneloop.http.client.proxies import Proxy
    from oneloop.http.client.settings import Limits
    from oneloop.http.client.tracing import Trace
    from oneloop.loop import Loop

__all__ = ["Carrier", "Place", "send_body", "send_body_of_coroutines"]

_PORTS = {b"http": 80, b"https": 443, b"ws": 80, b"wss": 443}
_IDEMPOTENT = frozenset({b"GET", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"TRACE", b"QUERY"})
_WHOLE_PACKAGES = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "_original_httpcore", "_original_httpcore2"})
_NO_TIMEOUTS = (ClientTimeouts(None, None, None), None)
_MOST_KNOWN = 1024
_CHUNKS = -1

# Type of a body -> whether it is there whole.
_whole_types: dict[type, bool] = {}
# Timeouts as programs give them -> those of the core, and the time to connect.
_timeouts: dict[tuple[Any, ...], tuple[ClientTimeouts, float | None]] = {}


class Place:
    """The connections on one loop.

    Attributes:
        loop: the loop.
        pool: its connections.
        origins: scheme, host, port and name for TLS -> the origin.
    """

    __slots__ = ("loop", "origins", "pool")

    def __init__(self, loop: Loop, pool: Pool) -> None:
        self.loop = loop
        self.pool = pool
        self.origins: dict[tuple[Any, ...], ClientOrigin] = {}


class Carrier:
    """Sends requests.

    Args:
        tls: returns the context for https, from when HTTP/2 is spoken; see `protocols`.
        limits: how many connections there may be on a loop.
        proxy: for all requests.
        proxy_fields: the fields for the proxy, in requests that it forwards.
        retries: how often a connection that cannot be opened is tried again.
        local_address: the address to connect from.
        uds: the path of a Unix socket for all connections.
        socket_options: arguments for `socket.setsockopt`.
        http2: when HTTP/2 is spoken; see `protocols`.
    """

    def __init__(
        self,
        *,
        tls: Callable[[int], Any],
        limits: Limits,
        proxy: Proxy | None = None,
        proxy_fields: Iterable[tuple[bytes, bytes]] = (),
        retries: int = 0,
        local_address: str | None = None,
        uds: str | None = None,
        socket_options: Iterable[tuple[Any, ...]] | None = None,
        http2: int = NEVER,
    ) -> None:
        self._tls = tls
        self._limits = limits
        self.proxy = proxy
        self._proxy_fields = list(proxy_fields)
        self._forwards = proxy is not None and proxy.is_http
        self._retries = retries
        # Proxies are asked from everywhere.
        self._local_address = None if proxy is not None else local_address
        self._uds = None if proxy is not None else uds
        self._socket_options = () if proxy is not None else tuple(socket_options or ())
        self._http2 = http2
        self._places: dict[int, Place] = {}
        forget_in_child(self)

    def place(self, loop: Loop) -> Place:
        """Return the connections on a loop."""
        place = self._places.get(id(loop))
        if place is None or place.loop is not loop:
            # Other threads do the same for their loops, so that each step is a single one on the same dict.
            for key, kept in list(self._places.items()):
                if kept.loop.is_closed():
                    self._places.pop(key, None)
            place = Place(loop, Pool(loop, self._limits, self._tls, self._local_address))
            self._places[id(loop)] = place
        return place

    def places(self) -> list[Place]:
        """Return the connections on all loops that are not closed."""
        return [place for place in list(self._places.values()) if not place.loop.is_closed()]

    def start(
        self,
        place: Place,
        number: int,
        method: bytes,
        url: tuple[bytes, bytes, int | None, bytes],
        fields: list[tuple[bytes, bytes]],
        body: Any,
        extensions: Any,
        trace: Trace | None = None,
    ) -> tuple[Any, int | None]:
        """Start an exchange.

        Args:
            place: where.
            number: how the caller waits; see `callers`.
            method: such as b"GET".
            url: scheme, host, port and target.
            fields: with one Host, and the length of the body.
            body: bytes, or an iterable of bytes.
            extensions: those of httpcore: `timeout`, `sni_hostname`.
            trace: is told what happens to the connection.

        Returns:
            The exchange, and how its body is sent: None, it is sent already; -1, in chunks; else its length. The caller
            must call `send_body`.

        Raises:
            LocalProtocolError: the request cannot be sent.
            UnsupportedProtocol: the scheme is not known.
        """
        scheme, host, port, target = url
        key = (scheme, host, port, extensions.get("sni_hostname"))
        origin = place.origins.get(key)
        if origin is None:
            origin = self._origin(place, key)
        if self._forwards and scheme == b"http":
            target, fields = self._forwarded(url, fields)
        head, length = framed_head(method, target, fields)
        is_later = False
        if type(body) is not bytes:
            if is_whole(type(body)):
                body = b"".join(body)
            elif body is None:
                body = b""
            else:
                is_later = True
        if is_later:
            content = None
        else:
            if length != _CHUNKS and len(body) != (length or 0):
                raise _wrong_length(len(body) > (length or 0))
            content = body or None
        times = extensions.get("timeout")
        native, connect = _times(times) if times else _NO_TIMEOUTS
        exchange = origin.start(
            method.decode("ascii"),
            head,
            content,
            is_later,
            length == _CHUNKS,
            method in _IDEMPOTENT and not is_later,
            native,
            None,
            number,
            connect if trace is None else Wishes(connect, trace),
        )
        return exchange, (length or 0) if is_later else None

    def _origin(self, place: Place, key: tuple[Any, ...]) -> ClientOrigin:
        scheme, host, port, sni = key
        default_port = _PORTS.get(scheme)
        if default_port is None:
            text = scheme.decode("ascii", "replace")
            if not text:
                raise UnsupportedProtocol("Request URL is missing an 'http://' or 'https://' protocol.")
            raise UnsupportedProtocol(f"Request URL has an unsupported protocol '{text}://'.")
        route = CarrierRoute(
            "https" if scheme in (b"https", b"wss") else "http",
            host.decode("ascii"),
            port or default_port,
            self.proxy,
            self._uds,
            sni,
            NEVER if self._forwards and scheme == b"http" else self._http2,
            shown_scheme=scheme.decode("ascii"),
            retries=self._retries,
            socket_options=self._socket_options,
        )
        if len(place.origins) >= _MOST_KNOWN:
            place.origins.clear()
        origin = place.origins[key] = place.pool.origin(route)
        return origin

    def _forwarded(
        self, url: tuple[bytes, bytes, int | None, bytes], fields: list[tuple[bytes, bytes]]
    ) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        scheme, host, port, target = url
        own = {name.lower() for name, _ in fields}
        fields = [field for field in self._proxy_fields if field[0].lower() not in own] + fields
        if target.startswith(b"/"):
            host = b"[%b]" % host if b":" in host else host
            place = host if port is None else b"%b:%d" % (host, port)
            target = b"%b://%b%b" % (scheme, place, target)
        return target, fields

    @property
    def is_busy(self) -> bool:
        """Whether a connection carries a request, or a request waits for one."""
        counts = [place.pool.counters() for place in list(self._places.values())]
        return any(count["waiting"] or count["open"] > count["idle"] for count in counts)

    def _forget_parents(self) -> Any:
        """In a forked child: the connections are the parent's."""
        kept = self._places
        self._places = {}
        return kept

    def forget(self, loop: Loop) -> None:
        """Close the connections on a loop."""
        place = self._places.pop(id(loop), None)
        if place is not None and place.loop is loop:
            place.pool.close()

    def close(self) -> list[Pool]:
        """Close all connections. Requests can be sent afterwards, on new ones."""
        pools = [place.pool for place in list(self._places.values())]
        self._places.clear()
        for pool in pools:
            pool.close()
        return pools


def is_whole(kind: type) -> bool:
    """Return whether a body of this type is there whole: it is a `ByteStream` of one of the packages."""
    known = _whole_types.get(kind)
    if known is None:
        if len(_whole_types) >= _MOST_KNOWN:
            _whole_types.clear()
        package = kind.__module__.partition(".")[0]
        known = _whole_types[kind] = kind.__name__ == "ByteStream" and package in _WHOLE_PACKAGES
    return known


def _times(times: Any) -> tuple[ClientTimeouts, float | None]:
    key = (times.get("read"), times.get("write"), times.get("pool"), times.get("connect"))
    known = _timeouts.get(key)
    if known is None:
        if len(_timeouts) >= _MOST_KNOWN:
            _timeouts.clear()
        known = _timeouts[key] = (ClientTimeouts(*key[:3]), key[3])
    return known


def _wrong_length(is_more: bool) -> LocalProtocolError:
    what = "Too much" if is_more else "Too little"
    return LocalProtocolError(f"{what} data for declared Content-Length")


class _Sending:
    """A body that is sent part by part, of the length that was announced."""

    __slots__ = ("_exchange", "_left")

    def __init__(self, exchange: Any, length: int) -> None:
        self._exchange = exchange
        self._left = length

    def add(self, piece: bytes | str) -> None:
        if isinstance(piece, str):
            # As urllib3 does.
            piece = piece.encode()
        if self._left != _CHUNKS:
            if len(piece) > self._left:
                raise _wrong_length(True)
            self._left -= len(piece)
        self._exchange.send(bytes(piece))

    def end(self) -> None:
        if self._left > 0:
            raise _wrong_length(False)
        self._exchange.sent()


async def send_body(exchange: Any, length: int, body: Any) -> None:
    """Send a body of an iterable, in a coroutine that a caller runs. A response that is complete ends it."""
    if not await exchange.drained():
        return
    sending = _Sending(exchange, length)
    for piece in body:
        sending.add(piece)
        if not await exchange.drained():
            return
    sending.end()


async def send_body_of_coroutines(exchange: Any, length: int, body: Any) -> None:
    """Send a body of an asynchronous iterable. A response that is complete ends it."""
    if not await exchange.drained():
        return
    sending = _Sending(exchange, length)
    pieces = body.__aiter__()
    try:
        async for piece in pieces:
            sending.add(piece)
            if not await exchange.drained():
                return
        sending.end()
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()
