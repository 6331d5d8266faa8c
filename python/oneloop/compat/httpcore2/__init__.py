"""httpcore2's public names, on oneloop's HTTP client (those of httpcore2 2.16).

`ConnectionPool`, `AsyncConnectionPool`, and those of proxies, send requests on the native client:
coroutines on a oneloop loop, green threads and plain code. The rest is httpcore2's own, which must be installed. It
also serves what the native client does not: pools with a `network_backend`, trio, loops of other packages.

Differences of the native pools: a connection is free when the answer has arrived whole, not when the response is
closed. If the server has closed a kept connection before it saw a request that may be repeated, it is sent again.
Bytes behind an answer end its connection. `connect` limits TCP and TLS together. The rest of a request's body is not
sent once the answer is complete. In plain code each thread has connections and limits of its own. The parser is
stricter than h11, and error messages have different texts.

With the first such pool, `handle_async_request` and `handle_request` of httpx2's own transports are replaced by methods
that make httpx2's response at once, where nobody looks at the request of httpcore2 in between; see
`httpcores.httpx_transports`. Such a response is of a subclass of `httpx2.Response` with the same name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oneloop.compat import original
from oneloop.compat.httpcores.package import Package

# Not below oneloop, whose modules are never patched for green threads.
_COPY = "_original_httpcore2"

_package = Package("httpcore2", original.load("httpcore2", _COPY))

__version__: str = _package.names["__version__"]
__all__ = list(_package.public)
globals().update(_package.names)


def claim() -> None:
    """Make `import httpcore2.x` return modules of the copy. Called by `oneloop.compat.install`."""
    original.claim("httpcore2", _COPY)


if TYPE_CHECKING:  # the names are known when the package is there

    def __getattr__(name: str) -> Any: ...
