"""`Timeout` and `Limits`: how long the phases of a request may take, and how many connections a client keeps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from oneloop._native import ClientTimeouts

__all__ = ["DEFAULT_LIMITS", "DEFAULT_TIMEOUT", "UNSET", "Limits", "Timeout", "Unset"]


class Unset:
    """The type of `UNSET`: an argument that was not given, where None has a meaning of its own."""

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET = Unset()


class Timeout:
    """How long each phase may take, in seconds; None: no limit.

    Args:
        timeout: for each phase that is not given; also a tuple (connect, read, write, pool), or a
            Timeout, which is copied.
        connect: to open a connection: name resolution, TCP, proxy, TLS.
        read: to receive the next part of the response.
        write: until the server has read what was sent.
        pool: to get a connection if all that are allowed are in use.
        total: for the request from its start to the end of its body, redirects and retries included. None by default.
    """

    def __init__(
        self,
        timeout: Any = UNSET,
        *,
        connect: Any = UNSET,
        read: Any = UNSET,
        write: Any = UNSET,
        pool: Any = UNSET,
        total: float | None = None,
    ) -> None:
        phases = (connect, read, write, pool)
        if isinstance(timeout, Timeout):
            self.connect: float | None = timeout.connect if connect is UNSET else connect
            self.read: float | None = timeout.read if read is UNSET else read
            self.write: float | None = timeout.write if write is UNSET else write
            self.pool: float | None = timeout.pool if pool is UNSET else pool
            self.total: float | None = timeout.total if total is None else total
            return
        if isinstance(timeout, tuple):
            self.connect, self.read = timeout[0], timeout[1]
            self.write = None if len(timeout) < 3 else timeout[2]
            self.pool = None if len(timeout) < 4 else timeout[3]
            self.total = total
            return
        if timeout is UNSET and any(phase is UNSET for phase in phases):
            raise ValueError("Timeout must either include a default, or set all four parameters explicitly.")
        self.connect, self.read, self.write, self.pool = (timeout if phase is UNSET else phase for phase in phases)
        self.total = total

    def as_dict(self) -> dict[str, float | None]:
        """Return the four phases by name."""
        return {"connect": self.connect, "read": self.read, "write": self.write, "pool": self.pool}

    @cached_property
    def native(self) -> ClientTimeouts:
        """The phases for the native core."""
        return ClientTimeouts(self.read, self.write, self.pool)

    def __getstate__(self) -> dict[str, float | None]:
        # What is native is made anew where it is needed.
        return {name: value for name, value in self.__dict__.items() if name != "native"}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timeout) and (self.as_dict(), self.total) == (other.as_dict(), other.total)

    def __hash__(self) -> int:
        return hash((*self.as_dict().values(), self.total))

    def __repr__(self) -> str:
        phases = self.as_dict()
        if len(set(phases.values())) == 1 and self.total is None:
            return f"Timeout(timeout={self.connect})"
        shown = {**phases, "total": self.total} if self.total is not None else phases
        return f"Timeout({', '.join(f'{name}={value}' for name, value in shown.items())})"


@dataclass(frozen=True)
class Limits:
    """How many connections a client has.

    Attributes:
        max_connections: open at the same time; None: no limit. Further requests wait for their turn.
        max_keepalive_connections: idle at the same time; None: no limit.
        keepalive_expiry: how long a connection stays idle before it is closed, in seconds; None: until the server
            closes it.
        max_connections_per_origin: open at the same time to one scheme, host and port; None: no limit.
        max_requests_per_second: begun to one scheme, host and port, evenly spaced; None: no limit. Redirects and
            retries count.

    Raises:
        ValueError: a number of connections is negative.
    """

    max_connections: int | None = None
    max_keepalive_connections: int | None = None
    keepalive_expiry: float | None = 5.0
    max_connections_per_origin: int | None = None
    max_requests_per_second: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_connections", "max_keepalive_connections", "max_connections_per_origin"):
            count = getattr(self, name)
            if count is not None and count < 0:
                raise ValueError(f"{name} must not be negative, not {count}: None means no limit")


DEFAULT_TIMEOUT = Timeout(5.0)
DEFAULT_LIMITS = Limits(max_connections=100, max_keepalive_connections=20)
