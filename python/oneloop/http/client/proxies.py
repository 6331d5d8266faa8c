"""Proxies: HTTP and HTTPS by forwarding and CONNECT, SOCKS5; from arguments and from the environment."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any
from urllib.request import getproxies

from oneloop._native import request_head
from oneloop.http.client.errors import InvalidURL, ProxyError
from oneloop.http.client.headers import Headers
from oneloop.http.client.urls import URL, to_url

if TYPE_CHECKING:
    from oneloop.loop import Loop

__all__ = ["Proxies", "Proxy", "open_tunnel"]

_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
# The longest response to CONNECT that is read.
_HEAD_BYTES = 64 * 1024


class Proxy:
    """A proxy.

    Args:
        url: `http://`, `https://`, `socks5://` or `socks5h://` (the same: names are resolved by the proxy), with a user
            and a password if it wants them.
        auth: user and password, in place of those in the URL.
        headers: sent to the proxy.
        ssl_context: for `https://`.

    Raises:
        ValueError: another scheme.
    """

    def __init__(
        self, url: URL | str, *, ssl_context: Any = None, auth: tuple[str, str] | None = None, headers: Any = None
    ) -> None:
        self.url = to_url(url)
        if self.url.scheme not in _PORTS:
            raise ValueError(f"Unknown scheme for proxy URL {str(self.url)!r}")
        self.host = self.url.host
        self.port = self.url.port or _PORTS[self.url.scheme]
        in_url = (self.url.username, self.url.password) if self.url.username or self.url.password else None
        self.auth = auth or in_url
        self.headers = Headers(headers)
        self.ssl_context = ssl_context
        # It is made at its first use, when the proxy may be a key already.
        self._context_key = id(ssl_context)

    @property
    def raw_auth(self) -> tuple[bytes, bytes] | None:
        """User and password as bytes."""
        return None if self.auth is None else (self.auth[0].encode(), self.auth[1].encode())

    @property
    def is_http(self) -> bool:
        """It speaks HTTP; otherwise SOCKS."""
        return self.url.scheme in ("http", "https")

    @property
    def is_tls(self) -> bool:
        """The connection to it is encrypted."""
        return self.url.scheme == "https"

    def tls_context(self) -> Any:
        """Return the context for the connection to the proxy."""
        if self.ssl_context is None:
            self.ssl_context = ssl.create_default_context()
        return self.ssl_context

    def secured(self) -> dict[str, Any]:
        """Return the arguments of `create_connection` for TLS to the proxy."""
        return {"ssl": self.tls_context(), "server_hostname": self.host} if self.is_tls else {}

    def fields(self) -> list[tuple[str, str]]:
        """Return the fields for the proxy."""
        fields = self.headers.multi_items()
        if self.auth is not None:
            token = base64.b64encode(":".join(self.auth).encode()).decode()
            fields.append(("Proxy-Authorization", f"Basic {token}"))
        return fields

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes connections through it interchangeable."""
        return (str(self.url), self.auth, tuple(self.headers.multi_items()), self._context_key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Proxy) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        auth = ", auth=('...', '...')" if self.auth else ""
        return f"Proxy({str(self.url.copy_with(username=None, password=None))!r}{auth})"


class Proxies:
    """Which proxy each URL has.

    Args:
        proxy: for all URLs; None: those of the environment if `trust_env`.
        trust_env: use HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY.
    """

    def __init__(self, proxy: Proxy | URL | str | None, *, trust_env: bool) -> None:
        self._all = None if proxy is None else proxy if isinstance(proxy, Proxy) else Proxy(proxy)
        self._by_scheme: dict[str, Proxy] = {}
        self._excluded: list[_Exception] = []
        if self._all is not None or not trust_env:
            return
        found = getproxies()
        for scheme in ("http", "https", "all"):
            url = found.get(scheme)
            if url:
                self._by_scheme[scheme] = Proxy(url if "://" in url else f"http://{url}")
        self._excluded = [_Exception(entry.strip()) for entry in found.get("no", "").split(",") if entry.strip()]

    @property
    def is_empty(self) -> bool:
        """All connections are direct."""
        return self._all is None and not self._by_scheme

    def of(self, url: URL) -> Proxy | None:
        """Return the proxy for a URL; None: a direct connection."""
        if self._all is not None:
            return self._all
        if not self._by_scheme or self._is_excluded(url):
            return None
        return self._by_scheme.get(url.scheme) or self._by_scheme.get("all")

    def _is_excluded(self, url: URL) -> bool:
        return any(entry.has(url) for entry in self._excluded)


class _Exception:
    """An entry of NO_PROXY: `*`, a name (and those below it), an address, a network; also with a port or a scheme."""

    def __init__(self, entry: str) -> None:
        scheme, separator, rest = entry.partition("://")
        self._scheme = scheme.lower() if separator and scheme.lower() != "all" else None
        rest = rest if separator else entry
        # As in httpx, one with a scheme means this host alone.
        self._is_exact = bool(separator) and not rest.startswith(("*", "."))
        self._is_all = rest == "*"
        name, _, port = rest.rpartition(":") if rest.count(":") == 1 else (rest, "", "")
        self._port = port
        self._name = _host_of(name.strip("[]").removeprefix("*").removeprefix(".").rstrip("."))
        self._network: IPv4Network | IPv6Network | None = None
        # Most are names.
        with suppress(ValueError):
            self._network = ip_network(self._name, strict=False)

    def has(self, url: URL) -> bool:
        if self._scheme not in (None, url.scheme):
            return False
        if self._is_all:
            return True
        if self._port and self._port != str(url.key[2]):
            return False
        host = url.host.rstrip(".")
        if host == self._name or (not self._is_exact and host.endswith(f".{self._name}")):
            return True
        if self._network is None:
            return False
        try:
            return ip_address(host) in self._network
        except ValueError:
            # It is a name.
            return False


def _host_of(name: str) -> str:
    """Return a name in the form that URLs have it: lower case, ASCII."""
    if not name.isascii():
        try:
            return to_url(f"http://{name}").host
        except InvalidURL:
            # No URL can have it.
            return name
    return name.lower()


async def open_tunnel(loop: Loop, proxy: Proxy, sock: socket.socket, host: str, port: int) -> asyncio.Transport:
    """Connect to a host through a proxy. Returns the transport, which is paused.

    Args:
        loop: the loop.
        proxy: the proxy.
        sock: is connected to it, and belongs to the transport from now on.
        host: where the tunnel leads.
        port: see there.

    Raises:
        ProxyError: the proxy refused.
        OSError: the connection to the proxy failed.
    """
    transport, talk = await loop.create_connection(_Talk, sock=sock, **proxy.secured())
    try:
        if proxy.is_http:
            await _connect(talk, proxy, host, port)
        else:
            await _socks(talk, proxy, host, port)
    except BaseException:
        transport.abort()
        raise
    transport.pause_reading()
    if talk.received:
        transport.abort()
        raise ProxyError("the proxy sent more than its answer")
    return transport


async def _connect(talk: _Talk, proxy: Proxy, host: str, port: int) -> None:
    """RFC 9110 section 9.3.6."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    fields = [("Host", place), ("Accept", "*/*"), *proxy.fields()]
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
    talk.write(request_head(b"CONNECT", place.encode("latin-1"), raw))
    head = await talk.read_until(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise ProxyError(f"the proxy's answer to CONNECT is not HTTP: {head[:80]!r}")
    if not 200 <= int(words[1]) < 300:
        raise ProxyError(b" ".join(words[1:]).decode("latin-1"))


_SOCKS_ERRORS = {
    1: "general SOCKS server failure",
    2: "connection not allowed by ruleset",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
    7: "command not supported",
    8: "address type not supported",
}


async def _socks(talk: _Talk, proxy: Proxy, host: str, port: int) -> None:
    """RFC 1928 and, for user and password, RFC 1929."""
    talk.write(b"\x05\x01\x02" if proxy.auth else b"\x05\x01\x00")
    version, method = await talk.read_exactly(2)
    if version != 5:
        raise ProxyError("the proxy does not speak SOCKS5")
    if method == 2 and proxy.auth is not None:
        user, password = (part.encode() for part in proxy.auth)
        if not 0 < len(user) < 256 or not 0 < len(password) < 256:
            raise ProxyError("SOCKS5 allows 1 to 255 bytes for user and password")
        talk.write(b"\x01%c%b%c%b" % (len(user), user, len(password), password))
        _, status = await talk.read_exactly(2)
        if status:
            raise ProxyError("the proxy refused user and password")
    elif method != 0:
        raise ProxyError("the proxy wants a way to log in that was not offered")
    talk.write(b"\x05\x01\x00" + _socks_address(host) + port.to_bytes(2, "big"))
    _, reply, _, kind = await talk.read_exactly(4)
    if reply:
        raise ProxyError(f"the proxy could not connect: {_SOCKS_ERRORS.get(reply, f'error {reply}')}")
    length = {1: 4, 4: 16}.get(kind) or (await talk.read_exactly(1))[0]
    await talk.read_exactly(length + 2)


def _socks_address(host: str) -> bytes:
    for kind, family in ((b"\x01", socket.AF_INET), (b"\x04", socket.AF_INET6)):
        try:
            return kind + socket.inet_pton(family, host)
        except OSError:
            continue
    name = host.encode("idna") if not host.isascii() else host.encode()
    if len(name) > 255:
        raise ProxyError(f"the name {host!r} is too long for SOCKS5")
    return b"\x03%c%b" % (len(name), name)


class _Talk(asyncio.Protocol):
    """The talk with a proxy before the tunnel begins."""

    def __init__(self) -> None:
        self.received = b""
        self._is_over = False
        self._waiter: asyncio.Future[None] | None = None
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        self.received += data
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        self._wake()

    def eof_received(self) -> None:
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _more(self) -> None:
        if self._is_over:
            raise ProxyError("the proxy closed the connection")
        if len(self.received) > _HEAD_BYTES:
            raise ProxyError("the proxy's answer is too long")
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    async def read_until(self, end: bytes) -> bytes:
        while end not in self.received:
            await self._more()
        head, _, self.received = self.received.partition(end)
        return head

    async def read_exactly(self, count: int) -> bytes:
        while len(self.received) < count:
            await self._more()
        data, self.received = self.received[:count], self.received[count:]
        return data
