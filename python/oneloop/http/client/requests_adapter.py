"""`RequestsAdapter`: requests on the native client, as an adapter that is mounted in a session.

What the program reads from a response is urllib3's: decoding and `raw` are the same as with requests' own adapter; see
`requests_raw`.
"""

from __future__ import annotations

import ssl
from functools import partial
from http.client import HTTPMessage
from typing import TYPE_CHECKING, Any

from requests import exceptions
from requests.adapters import BaseAdapter
from requests.cookies import extract_cookies_to_jar
from requests.models import PreparedRequest, Response
from requests.structures import CaseInsensitiveDict
from requests.utils import get_encoding_from_headers, prepend_scheme_if_needed, select_proxy

from oneloop._native import parse_response_head, plain_target
from oneloop.http.client import errors
from oneloop.http.client.callers import Callers, PlainCaller, watch_end
from oneloop.http.client.carrier import Carrier, send_body
from oneloop.http.client.proxies import Proxy
from oneloop.http.client.requests_raw import PendingRaw, raw_response
from oneloop.http.client.settings import Limits
from oneloop.http.client.trust import context_for
from oneloop.http.client.urls import to_url

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from urllib3 import HTTPResponse

    from oneloop.http.client.callers import Caller

__all__ = ["RequestsAdapter"]

_HAS_COOKIES = 1
_BLOCK_BYTES = 64 * 1024
# A program may send its requests with many proxies and certificates.
_MOST_CARRIERS = 64
_MOST_KNOWN = 1024

# URLs up to their paths, as programs write them -> scheme, host, port, and the value of Host.
_places: dict[str, tuple[bytes, bytes, int | None, bytes]] = {}
# Content-Type -> what requests makes of it.
_encodings: dict[str, str | None] = {}
# Timeouts as programs give them -> as the carrier has them.
_timeouts: dict[Any, dict[str, Any]] = {}


class RequestsAdapter(BaseAdapter):
    """An adapter for `requests.Session` in green threads and in plain code.

    `session.mount("https://", RequestsAdapter())`, and the same for "http://". In plain code each thread has its own
    connections.

    Args:
        pool_connections: of how many origins connections are kept.
        pool_maxsize: how many are kept for each of them.
        max_retries: how often a connection that cannot be opened is tried again; a number, or urllib3's `Retry`, of
            which only that number counts.
        pool_block: open no more than `pool_maxsize` connections to an origin.
    """

    def __init__(
        self, pool_connections: int = 10, pool_maxsize: int = 10, max_retries: Any = 0, pool_block: bool = False
    ) -> None:
        super().__init__()
        if not isinstance(max_retries, int):
            counts = [count for count in (max_retries.connect, max_retries.total) if isinstance(count, int)]
            max_retries = min(counts, default=0)
        self.max_retries = int(max_retries)
        self._limits = Limits(
            None, pool_connections * pool_maxsize, None, max_connections_per_origin=pool_maxsize if pool_block else None
        )
        self._callers = Callers()
        self._carriers: dict[tuple[Any, ...], Carrier] = {}

    def send(
        self,
        request: PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> Response:
        """Send a request; called by the session.

        Raises:
            requests.RequestException: there is no response; its subclass says why.
        """
        caller = self._callers.here()
        carrier = self._carrier(request, verify, cert, proxies)
        try:
            # Its loop must be able to close its connections when the thread has ended.
            if isinstance(caller, PlainCaller) and caller.end is None:
                # Not a method: the adapter must be free to go before the thread.
                watch_end(caller, partial(_forget, self._carriers))
            exchange = caller.run(_exchange(carrier, caller, request, timeout))
        except errors.InvalidURL as error:
            raise exceptions.InvalidURL(error, request=request) from error
        except errors.TransportError as error:
            raise _error(error, request, carrier.proxy) from error
        return self._response(request, exchange, caller)

    def _carrier(self, request: PreparedRequest, verify: Any, cert: Any, proxies: Mapping[str, str] | None) -> Carrier:
        proxy = select_proxy(request.url or "", proxies) if proxies else None  # type: ignore[arg-type]
        key = (verify, tuple(cert) if isinstance(cert, list) else cert, proxy)
        carrier = self._carriers.get(key)
        if carrier is not None:
            return carrier
        made: list[Any] = []

        def tls(_http2: int) -> Any:
            if not made:
                made.append(context_for(verify, cert))
            return made[0]

        chosen = None
        if proxy:
            try:
                chosen = Proxy(prepend_scheme_if_needed(proxy, "http"))
            except (ValueError, errors.InvalidURL) as error:
                raise exceptions.InvalidProxyURL(str(error), request=request) from error
        fields = [] if chosen is None else [(name.encode(), value.encode()) for name, value in chosen.fields()]
        if len(self._carriers) >= _MOST_CARRIERS:
            self._drop_unused()
        carrier = Carrier(tls=tls, limits=self._limits, proxy=chosen, proxy_fields=fields, retries=self.max_retries)
        # Another thread may have been quicker.
        return self._carriers.setdefault(key, carrier)

    def _response(self, request: PreparedRequest, exchange: Any, caller: Caller) -> Response:
        head = parse_response_head(exchange.response_head)
        response = Response()
        response.status_code = exchange.status
        headers = response.headers
        for name, value in head[2]:
            headers[name.decode("latin-1")] = value.decode("latin-1")
        raw: HTTPResponse
        if len(headers) == len(head[2]) and not exchange.has & _HAS_COOKIES:
            raw = PendingRaw(exchange, caller, head, request.method, request.url)
        else:
            # urllib3 knows what fields of the same name are together.
            original = _Original(head[2]) if exchange.has & _HAS_COOKIES else None
            raw = raw_response(exchange, caller, head, request.method, request.url, original)
            response.headers = CaseInsensitiveDict(raw.headers)
            extract_cookies_to_jar(response.cookies, request, raw)
        response.encoding = _encoding_of(response.headers)
        response.raw = raw
        response.reason = head[0].decode("latin-1")
        response.url = request.url or ""
        response.request = request
        response.connection = self  # type: ignore[assignment]
        return response

    def _drop_unused(self) -> None:
        """Close the connections of the carriers that carry nothing at the moment."""
        for key, carrier in list(self._carriers.items()):
            if not carrier.is_busy:
                del self._carriers[key]
                carrier.close()

    def close(self) -> None:
        """Close all connections."""
        self._callers.finish(self._close_carriers)

    def _close_carriers(self) -> None:
        for carrier in list(self._carriers.values()):
            carrier.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"max_retries": self.max_retries, "_limits": self._limits}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _callers=Callers(), _carriers={})


def _forget(carriers: dict[Any, Carrier], loop: Any) -> None:
    """Close the connections on the loop of a thread that has ended."""
    for carrier in list(carriers.values()):
        carrier.forget(loop)


async def _exchange(carrier: Carrier, caller: Caller, request: PreparedRequest, timeout: Any) -> Any:
    (scheme, host, port, netloc), target = _place_of(request)
    headers = request.headers
    # The same pairs, without a lookup for each.
    pairs = headers._store.values() if type(headers) is CaseInsensitiveDict else headers.items()
    fields = [
        (
            name.encode("latin-1") if type(name) is str else _raw(name),
            value.encode("latin-1") if type(value) is str else _raw(value),
        )
        for name, value in pairs
    ]
    if "host" not in headers:
        fields.insert(0, (b"Host", netloc))
    body = _body(request.body)
    exchange = None
    try:
        exchange, later = carrier.start(
            carrier.place(caller.loop),
            caller.number,
            _raw(request.method or "GET"),
            (scheme, host, port, target),
            fields,
            body,
            _extensions(timeout),
        )
        if later is not None:
            await send_body(exchange, later, body)
        await exchange.answered()
    except BaseException as error:
        if exchange is not None:
            exchange.close()
            if exchange.status is not None and isinstance(error, errors.RemoteProtocolError):
                # What came with the head already was no body.
                raise exceptions.ChunkedEncodingError(str(error), request=request) from error
        raise
    return exchange


def _place_of(request: PreparedRequest) -> tuple[tuple[bytes, bytes, int | None, bytes], bytes]:
    """Return scheme, host, port, and the value of Host; and the target."""
    url = request.url or ""
    plain = plain_target(url)
    if plain is None:
        return _parsed_place(url), _raw(request.path_url)
    known = _places.get(plain[0])
    if known is None:
        if len(_places) >= _MOST_KNOWN:
            _places.clear()
        known = _places[plain[0]] = _parsed_place(url)
    # What requests' own property finds, except that it drops an empty query.
    is_own = type(request) is PreparedRequest and not plain[1].endswith(b"?")
    return known, plain[1] if is_own else _raw(request.path_url)


def _parsed_place(url: str) -> tuple[bytes, bytes, int | None, bytes]:
    parsed = to_url(url)
    scheme, host, port = parsed.key
    return scheme.encode(), host.encode(), port, parsed.netloc.encode()


def _raw(text: Any) -> bytes:
    return text.encode("latin-1") if isinstance(text, str) else bytes(text)


def _body(body: Any) -> Any:
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, (bytearray, memoryview)):
        return bytes(body)
    return _blocks(body) if hasattr(body, "read") else body


def _blocks(file: Any) -> Iterator[bytes]:
    while block := file.read(_BLOCK_BYTES):
        yield block.encode() if isinstance(block, str) else block


def _extensions(timeout: Any) -> dict[str, Any]:
    if timeout is not None and type(timeout) not in (float, int):
        return {"timeout": _phases(timeout)}
    known = _timeouts.get(timeout)
    if known is None:
        if len(_timeouts) >= _MOST_KNOWN:
            _timeouts.clear()
        known = _timeouts[timeout] = {"timeout": _phases(timeout)}
    return known


def _encoding_of(headers: CaseInsensitiveDict[str]) -> str | None:
    kind = headers.get("content-type")
    if kind is None:
        return None
    if kind not in _encodings:
        if len(_encodings) >= _MOST_KNOWN:
            _encodings.clear()
        _encodings[kind] = get_encoding_from_headers(headers)
    return _encodings[kind]


def _phases(timeout: Any) -> dict[str, float | None]:
    """The timeout as the core has it."""
    if isinstance(timeout, tuple):
        if len(timeout) != 2:
            raise ValueError(
                f"Invalid timeout {timeout}. Pass a (connect, read) timeout tuple, or a single float to set both "
                "timeouts to the same value."
            )
        connect, read = timeout
    elif hasattr(timeout, "connect_timeout"):
        connect, read = timeout.connect_timeout, timeout.read_timeout
        connect, read = (value if isinstance(value, (int, float)) else None for value in (connect, read))
    else:
        connect = read = timeout
    return {"connect": connect, "read": read, "write": read, "pool": None}


_ERRORS: dict[type[Exception], Any] = {
    errors.ConnectTimeout: exceptions.ConnectTimeout,
    errors.ReadTimeout: exceptions.ReadTimeout,
    errors.WriteTimeout: exceptions.ReadTimeout,
    errors.TotalTimeout: exceptions.ReadTimeout,
    errors.ProxyError: exceptions.ProxyError,
    errors.LocalProtocolError: exceptions.InvalidHeader,
    errors.UnsupportedProtocol: exceptions.InvalidSchema,
}


def _error(error: errors.TransportError, request: PreparedRequest, proxy: Proxy | None) -> Exception:
    kind = _ERRORS.get(type(error), exceptions.ConnectionError)
    if isinstance(error.__cause__, ssl.SSLError):
        kind = exceptions.SSLError
    elif proxy is not None and proxy.is_http and isinstance(error, (errors.ConnectError, errors.ConnectTimeout)):
        kind = exceptions.ProxyError
    made: Exception = kind(str(error), request=request)
    return made


class _Original:
    """What `http.cookiejar` reads the cookies from."""

    def __init__(self, fields: list[tuple[bytes, bytes]]) -> None:
        self.msg = HTTPMessage()
        for name, value in fields:
            self.msg[name.decode("latin-1")] = value.decode("latin-1")

    def isclosed(self) -> bool:
        return True

    def close(self) -> None:
        pass
