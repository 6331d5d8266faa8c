"""When a connection speaks HTTP/2, as the native core counts it, and what is offered in the TLS handshake."""

from __future__ import annotations

from typing import Any

__all__ = ["AGREED", "ALWAYS", "HTTP2", "NEVER", "extensions_of", "http2_of", "offer", "offered"]

NEVER, AGREED, ALWAYS = range(3)

HTTP2 = 2
"""What `parse_response_head` says of the version."""
_VERSIONS = (b"HTTP/1.0", b"HTTP/1.1", b"HTTP/2")


def http2_of(http1: bool, http2: bool) -> int:
    """Return when a client with these arguments speaks HTTP/2.

    Raises:
        ValueError: it would speak nothing.
    """
    if not (http1 or http2):
        raise ValueError("http1 and http2 cannot both be False")
    if not http2:
        return NEVER
    return AGREED if http1 else ALWAYS


def offered(http2: int) -> list[str]:
    """Return the protocols for ALPN, the preferred one first."""
    return (["http/1.1"], ["h2", "http/1.1"], ["h2"])[http2]


def offer(context: Any, http2: int) -> Any:
    """Make the next handshakes of a context offer them, if it is one that can be changed. Returns it."""
    choose = getattr(context, "set_alpn_protocols", None)
    if choose is not None:
        choose(offered(http2))
    return context


def extensions_of(exchange: Any, version: int, reason: bytes, network_stream: Any) -> dict[str, Any]:
    """Return the extensions of a response, as httpcore has them.

    Args:
        exchange: the exchange.
        version: from `parse_response_head`, as the reason phrase, which HTTP/2 does not have.
        reason: see there.
        network_stream: the extension of this name.
    """
    if version == HTTP2:
        return {"http_version": b"HTTP/2", "network_stream": network_stream, "stream_id": exchange.stream_id}
    return {"http_version": _VERSIONS[version], "reason_phrase": reason, "network_stream": network_stream}
