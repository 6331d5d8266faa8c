"""`KnownHeads`: the heads of requests that have nothing of their own but their URL's path and query, and a whole body.

A client's first request to an origin takes the whole way. The next ones with the same method and the same kind of body
differ from it in the target and in the length of the body alone, so their head is made of the first one's, and neither
URL nor fields are looked at again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from oneloop._native import plain_target, request_head
from oneloop.http.client.bodies import encode_body

if TYPE_CHECKING:
    from oneloop._native import ClientOrigin
    from oneloop.http.client.headers import Headers
    from oneloop.http.client.pools import Pool
    from oneloop.http.client.requests import Request
    from oneloop.http.client.settings import Timeout
    from oneloop.loop import Loop

__all__ = ["KnownHead", "KnownHeads", "kind_of_body"]

MOST_KNOWN = 1024
BODILESS = ""
"""The kind of a request without a body. The others are the arguments that give the body."""


def kind_of_body(arguments: dict[str, Any]) -> str | None:
    """Return the kind of the body if the arguments of a request give that alone; None for others."""
    if not arguments:
        return BODILESS
    if len(arguments) == 1:
        if "content" in arguments:
            content = arguments["content"]
            return "content" if type(content) is bytes and content else None
        if "json" in arguments:
            return "json" if arguments["json"] is not None else None
    return None


class KnownHead(NamedTuple):
    """What does not change from one request to the next.

    Attributes:
        pool: the pool of the loop.
        origin: the connections.
        fields: the client's fields, and their version then.
        version: see there.
        timeout: the client's timeouts.
        start: the head before the target.
        middle: the head behind it, up to the length of the body.
        end: the head behind that length; None without a body.
    """

    pool: Pool
    origin: ClientOrigin
    fields: Headers
    version: int
    timeout: Timeout
    start: bytes
    middle: bytes
    end: bytes | None


class KnownHeads:
    """The heads that a client knows, by loop, method, kind of body, and scheme with host and port as written."""

    def __init__(self) -> None:
        self._heads: dict[tuple[int, str, str, str], KnownHead] = {}

    def find(
        self,
        loop: Loop,
        method: str,
        url: Any,
        fields: Headers,
        timeout: Timeout,
        kind: str,
        arguments: dict[str, Any],
    ) -> Any:
        """Return what is known of a request, its head and its body; None if it has to go the whole way."""
        plain = plain_target(url)
        if plain is None:
            return None
        known = self._heads.get((id(loop), method, kind, plain[0]))
        if (
            known is None
            or known.version != fields.version
            or known.fields is not fields
            or known.timeout is not timeout
            or known.pool.loop is not loop
        ):
            return None
        if known.end is None:
            return known, known.start + plain[1] + known.middle, None
        body: Any = arguments["content"] if kind == "content" else encode_body(json=arguments["json"])[1]
        return known, b"%b%b%b%d%b" % (known.start, plain[1], known.middle, len(body), known.end), body

    def keep(
        self, pool: Pool, origin: ClientOrigin, request: Request, url: Any, fields: Headers, timeout: Timeout, kind: str
    ) -> None:
        """Keep the head of a request that was sent with the client's fields and timeouts, if it is a plain one."""
        plain = plain_target(url)
        method, target = request.method.encode("ascii"), request.url.target.encode("ascii")
        if plain is None or plain[1] != target:
            return
        # Fields of the client may say something else about the body, or that the server is asked for it first.
        if "content-length" in fields or "transfer-encoding" in fields or "expect" in fields:
            return
        head = request_head(method, target, request.headers.raw)
        start = method + b" "
        middle, end = head[len(start) + len(target) :], None
        if kind != BODILESS:
            middle, name, rest = middle.partition(b"\r\nContent-Length: ")
            middle, end = middle + name, rest[len(str(len(request.content))) :]
        if len(self._heads) >= MOST_KNOWN:
            self._heads.clear()
        self._heads[id(pool.loop), request.method, kind, plain[0]] = KnownHead(
            pool, origin, fields, fields.version, timeout, start, middle, end
        )

    def forget_closed(self) -> None:
        """Drop what belongs to closed loops."""
        # Other threads may add some meanwhile.
        for key, known in list(self._heads.items()):
            if known.pool.loop.is_closed():
                self._heads.pop(key, None)

    def clear(self) -> None:
        """Drop all: something has changed that is part of each head."""
        self._heads.clear()
