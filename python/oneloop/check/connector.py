"""`Connector`: aiohttp's, which tells how long its parts took and connects to no address that is blocked."""

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
    """Limits are the schedule's; this one closes idle ones before descriptors run out."""

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
        # So many may be opened before it is worth counting them again.
        self._room = self._most_open

    async def connect(self, req: Any, traces: Any, timeout: Any) -> aiohttp.connector.Connection:
        """A request begins: it gets a connection."""
        phases = current.get()
        phases.reset()
        connection = await super().connect(req, traces, timeout)
        if req.is_ssl():
            phases.certificate_end = self._certificate_ends.get(connection.protocol)
        phases.ready()
        return connection

    # What follows uses names of aiohttp's own; tests/check/test_phases.py fails where they mean something else.

    async def _resolve_host(self, host: str, port: int, traces: Any = None) -> Any:
        # It asserts that there is an address left.
        address = address_of(host)
        if address is not None and self._version not in (None, address.version):
            raise NameNotFoundError(None, f"{host} is not an IPv{self._version} address")
        return await super()._resolve_host(host, port, traces)

    def _get_ssl_context(self, req: Any) -> ssl.SSLContext | None:
        return _context(self._is_insecure) if req.is_ssl() else None

    async def _wrap_create_connection(self, *args: Any, **options: Any) -> Any:
        # The protocol is made between the connection and its TLS handshake: asyncio's create_connection.
        phases = current.get()
        began = time.monotonic()
        phases.begin("connect")
        if self._makes_room():
            # A transport gives its descriptor back in the loop's next turn.
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
        """One more is about to be opened: whether a connection, idle for as long as any, was closed for it."""
        self._room -= 1
        if self._room >= 0:
            return False
        # aiohttp counts the one that is being opened among those acquired.
        self._room = self._most_open - len(self._acquired) - sum(map(len, self._conns.values()))
        if self._room >= 0 or not self._conns:
            return False
        key, idle = next(iter(self._conns.items()))
        protocol, _ = idle.popleft()
        if not idle:
            del self._conns[key]
        if protocol.transport is not None:
            # Nothing is to be sent, and a TLS shutdown would keep the descriptor.
            protocol.transport.abort()
        return True


def _context(insecure: bool) -> ssl.SSLContext:
    # To read all authorities takes 20 ms and more: only once, and only where it is needed.
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
    """The last word before connect(2): whatever a name was resolved to, and however an address was written."""
    family, kind, protocol, _, address = info
    found = address_of(address[0])
    if found is None or not is_public(found):
        current.get().blocked = str(found or address[0])
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    return socket.socket(family, kind, protocol)
