"""`Connector`: aiohttp's connector plus timings for each phase and a check of the address before connecting."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import time
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import aiohttp

from oneloop.check.addresses import address_of, is_public
from oneloop.check.descriptors import SPARE_DESCRIPTORS, allowed
from oneloop.check.phases import current
from oneloop.check.resolver import FAMILIES, NameNotFoundError, Resolver

if TYPE_CHECKING:
    from oneloop.check.options import Options

__all__ = ["Connector"]

KEEP_ALIVE_S = 15.0
_MOST_OPEN = 1000


class Connector(aiohttp.TCPConnector):
    """Opens connections without a limit (the schedule has the limits), and closes idle ones if descriptors run short.

    Args:
        options: how to check.
        resolver: resolves the names.
    """

    def __init__(self, options: Options, resolver: Resolver) -> None:
        super().__init__(
            resolver=resolver,
            use_dns_cache=False,
            family=FAMILIES[options.family],
            limit=0,
            keepalive_timeout=KEEP_ALIVE_S,
            socket_factory=_public_socket if options.block_private else None,
        )
        self._is_insecure = options.insecure
        self._version = options.family
        self._certificate_ends: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        limit = allowed()
        most = _MOST_OPEN if limit is None else min(_MOST_OPEN, limit - SPARE_DESCRIPTORS - options.concurrency)
        self._most_open = max(options.concurrency, most)
        # The number of connections that may be opened before they are counted again.
        self._room = self._most_open

    async def connect(self, req: Any, traces: Any, timeout: Any) -> aiohttp.connector.Connection:
        """Return a connection for a request that begins now; overrides aiohttp's method."""
        phases = current.get()
        phases.reset()
        connection = await super().connect(req, traces, timeout)
        if req.is_ssl():
            phases.certificate_end = self._certificate_ends.get(connection.protocol)
        phases.ready()
        return connection

    # The methods below use private names of aiohttp. tests/check/test_phases.py fails if aiohttp changes their meaning.

    async def _resolve_host(self, host: str, port: int, traces: Any = None) -> Any:
        # aiohttp asserts that an address is left after it has selected the family.
        address = address_of(host)
        if address is not None and self._version not in (None, address.version):
            raise NameNotFoundError(None, f"{host} is not an IPv{self._version} address")
        return await super()._resolve_host(host, port, traces)

    def _get_ssl_context(self, req: Any) -> ssl.SSLContext | None:
        return _context(self._is_insecure) if req.is_ssl() else None

    async def _wrap_create_connection(self, *args: Any, **options: Any) -> Any:
        # asyncio's create_connection calls the protocol factory after connecting and before the TLS handshake.
        phases = current.get()
        began = time.monotonic()
        phases.begin("connect")
        if self._makes_room():
            # A transport closes its descriptor in the loop's next iteration.
            await asyncio.sleep(0)
        is_tls = options.get("ssl") is not None

        def connected() -> Any:
            phases.connect_s = time.monotonic() - began
            if is_tls:
                phases.begin("tls")
            return args[0]()

        transport, protocol = await super()._wrap_create_connection(connected, *args[1:], **options)
        if is_tls:
            if phases.connect_s is not None:
                phases.tls_s = time.monotonic() - began - phases.connect_s
            end = _certificate_end(transport)
            if end is not None:
                self._certificate_ends[protocol] = end
        return transport, protocol

    def _makes_room(self) -> bool:
        """Close the connection that has been idle longest if descriptors run short; return whether one was closed."""
        self._room -= 1
        if self._room >= 0:
            return False
        # _acquired also contains the connection that is being opened.
        self._room = self._most_open - len(self._acquired) - sum(map(len, self._conns.values()))
        if self._room >= 0 or not self._conns:
            return False
        key, idle = next(iter(self._conns.items()))
        protocol, _ = idle.popleft()
        if not idle:
            del self._conns[key]
        if protocol.transport is not None:
            # No data is left to send, and a TLS shutdown would keep the descriptor open.
            protocol.transport.abort()
        return True


def _context(insecure: bool) -> ssl.SSLContext:
    # Loading the certificate authorities takes 20 ms or more, so it is done once, and only if TLS is used.
    return _made_context(insecure, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _made_context(insecure: bool, *_authorities: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context


def _certificate_end(transport: Any) -> str | None:
    certificate = transport.get_extra_info("peercert")
    if not certificate or "notAfter" not in certificate:
        return None
    end_s = ssl.cert_time_to_seconds(certificate["notAfter"])
    return datetime.fromtimestamp(end_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _public_socket(info: Any) -> socket.socket:
    """Check the address immediately before connect(2), after all resolving and parsing."""
    family, kind, protocol, _, address = info
    found = address_of(address[0])
    if found is None or not is_public(found):
        current.get().blocked = str(found or address[0])
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    return socket.socket(family, kind, protocol)
