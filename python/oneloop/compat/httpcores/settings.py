"""The arguments of httpcore's pools, for a `Carrier`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from oneloop.http.client.carrier import Carrier
from oneloop.http.client.protocols import http2_of, offer
from oneloop.http.client.proxies import Proxy
from oneloop.http.client.settings import Limits

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["carrier_for", "is_patched_by_another"]


def carrier_for(arguments: dict[str, Any], default_context: Callable[[], Any]) -> Carrier | None:
    """Return the carrier of a pool; None if the original has to serve it.

    Args:
        arguments: those of the pool's constructor, with defaults.
        default_context: makes the context for https.
    """
    if arguments.get("network_backend") is not None or not (arguments["http1"] or arguments["http2"]):
        return None
    given = arguments.get("ssl_context")
    made: list[Any] = []

    def tls(http2: int) -> Any:
        if not made:
            made.append(default_context() if given is None else given)
        # Each time, as in httpcore: another pool may have the same context.
        return offer(made[0], http2)

    proxy, fields = _proxy(arguments, default_context)
    most = arguments["max_connections"]
    most_idle = arguments["max_keepalive_connections"]
    return Carrier(
        tls=tls,
        limits=Limits(most, most_idle, arguments["keepalive_expiry"]),
        proxy=proxy,
        proxy_fields=fields,
        retries=arguments.get("retries") or 0,
        local_address=arguments.get("local_address"),
        uds=arguments.get("uds"),
        socket_options=arguments.get("socket_options"),
        http2=http2_of(arguments["http1"], arguments["http2"]),
    )


def _proxy(
    arguments: dict[str, Any], default_context: Callable[[], Any]
) -> tuple[Proxy | None, list[tuple[bytes, bytes]]]:
    given = arguments.get("proxy")
    if given is None:
        return None, []
    url, auth, fields, context = given.url, given.auth, given.headers, given.ssl_context
    host = url.host.decode("ascii")
    host = f"[{host}]" if ":" in host else host
    port = "" if url.port is None else f":{url.port}"
    scheme = url.scheme.decode("ascii")
    if scheme == "https" and context is None:
        context = default_context()
    if scheme in ("http", "https"):
        # User and password are in the fields.
        return Proxy(f"{scheme}://{host}{port}", headers=fields, ssl_context=context), fields
    words = None if auth is None else (auth[0].decode("ascii"), auth[1].decode("ascii"))
    return Proxy(f"{scheme}://{host}{port}", auth=words), []


def is_patched_by_another() -> bool:
    """Return whether the real gevent has replaced blocking calls: then sockets must be those of Python."""
    module = sys.modules.get("gevent.monkey")
    if module is None or module.__name__.startswith("oneloop"):
        return False
    return bool(module.is_module_patched("socket"))
