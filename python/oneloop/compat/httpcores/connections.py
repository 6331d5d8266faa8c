"""`Connections`: what `pool.connections` and the text of a pool show of the native connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oneloop.compat.httpcores.package import Package
    from oneloop.http.client.carrier import Carrier

__all__ = ["Connections"]


class _Connection:
    """One connection. It can be looked at and closed; requests are sent by its pool."""

    _name: str

    def __init__(self, native: Any) -> None:
        self._native = native

    def info(self) -> str:
        """Return the origin, the protocol, the state and the number of requests."""
        state = "CLOSED" if self.is_closed() else "IDLE" if self.is_idle() else "ACTIVE"
        version = "HTTP/2" if self._native.is_h2 else "HTTP/1.1"
        return f"{self._native.route.origin!r}, {version}, {state}, Request Count: {self._native.exchanges}"

    def can_handle_request(self, origin: Any) -> bool:
        """Whether it leads to this origin."""
        return bool(str(origin) == self._native.route.origin)

    def is_connected(self) -> bool:
        """Whether it is open."""
        return not self.is_closed()

    def is_available(self) -> bool:
        """Whether it can carry a request now."""
        return bool(self._native.is_idle or self._native.takes_more)

    def has_expired(self) -> bool:
        """Whether it is idle and of no use: the server has closed it, or it was idle for too long."""
        return bool(self._native.is_idle and not self._native.is_ready)

    def is_idle(self) -> bool:
        """Whether it carries no request."""
        return bool(self._native.is_idle)

    def is_closed(self) -> bool:
        """Whether it is closed."""
        return bool(self._native.is_closed)

    def __repr__(self) -> str:
        return f"<{self._name} [{self.info()}]>"


class _AsyncConnection(_Connection):
    async def aclose(self) -> None:
        """Close it, if it carries no request."""
        self._native.shut()


class _SyncConnection(_Connection):
    def close(self) -> None:
        """Close it, if it carries no request."""
        self._native.shut()


class Connections:
    """Makes them.

    Args:
        package: whose connections they are instances of.
    """

    def __init__(self, package: Package) -> None:
        original = package.original
        self._async: Any = type(
            "AsyncHTTPConnection",
            (_AsyncConnection, original.AsyncConnectionInterface),
            {"_name": "AsyncHTTPConnection"},
        )
        self._sync: Any = type(
            "HTTPConnection", (_SyncConnection, original.ConnectionInterface), {"_name": "HTTPConnection"}
        )

    def of(self, carrier: Carrier | None, *, is_async: bool) -> list[Any]:
        """Return those of a carrier."""
        if carrier is None:
            return []
        kind = self._async if is_async else self._sync
        return [kind(native) for place in carrier.places() for native in place.pool.native.connections]

    def shown(self, name: str, carrier: Carrier) -> str:
        """Return the text of a pool."""
        places = carrier.places()
        counters = [place.pool.native.counters() for place in places]
        idle = sum(counter["idle"] for counter in counters)
        active = sum(counter["open"] for counter in counters) - idle
        carried = sum(native.carried for place in places for native in place.pool.native.connections)
        queued = sum(place.pool.waiting for place in places)
        return f"<{name} [Requests: {carried} active, {queued} queued | Connections: {active} active, {idle} idle]>"
