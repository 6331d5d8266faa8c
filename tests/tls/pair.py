"""Two ends of one TLS connection, on one loop: both may succeed or fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.protocols import Recorder
from tests.tls.authority import HOST
from tests.transport.conftest import socket_pair


@dataclass
class End:
    """One end of a connection."""

    transport: Any
    protocol: Any

    @property
    def ssl_object(self) -> Any:
        return self.transport.get_extra_info("ssl_object")


@dataclass
class Pair:
    server: End
    client: End


async def outcomes(
    loop: asyncio.AbstractEventLoop,
    server: Any,
    client: Any,
    *,
    hostname: str | None = HOST,
    protocol: Callable[[], Any] = Recorder,
    kind: str = "tcp",
) -> tuple[End | BaseException, End | BaseException]:
    """How the handshake has ended: at the server, at the client."""
    ours, theirs = socket_pair(kind)
    accepting = loop.connect_accepted_socket(protocol, theirs, ssl=server)
    name = (hostname or "") if client is not None else None
    connecting = loop.create_connection(protocol, sock=ours, ssl=client, server_hostname=name)
    ended = await asyncio.gather(accepting, connecting, return_exceptions=True)
    made = [one if isinstance(one, BaseException) else End(*one) for one in ended]
    return made[0], made[1]


@asynccontextmanager
async def connected(loop: asyncio.AbstractEventLoop, server: Any, client: Any, **options: Any) -> AsyncIterator[Pair]:
    """Both ends of a connection, after the handshake; closed at the end."""
    accepted, made = await outcomes(loop, server, client, **options)
    ends = [end for end in (accepted, made) if isinstance(end, End)]
    try:
        for end in (accepted, made):
            if isinstance(end, BaseException):
                raise end
        assert isinstance(accepted, End)
        assert isinstance(made, End)
        yield Pair(accepted, made)
    except BaseException:
        for end in ends:
            end.transport.abort()
        raise
    finally:
        for end in ends:
            end.transport.close()
        for end in ends:
            await end.protocol.wait_lost()
        await settle()


async def failures(
    loop: asyncio.AbstractEventLoop, server: Any, client: Any, **options: Any
) -> tuple[BaseException | None, BaseException | None]:
    """What either end has failed with. A client of TLS 1.3 learns what the server found when it reads."""
    accepted, made = await outcomes(loop, server, client, **options)
    found: list[BaseException | None] = []
    for end in (accepted, made):
        if isinstance(end, BaseException):
            found.append(end)
        else:
            if isinstance(accepted, End) and isinstance(made, End):
                end.transport.close()
            found.append(await end.protocol.wait_lost())
    await settle()
    return found[0], found[1]


async def settle() -> None:
    """Sockets are closed some ticks after their transports."""
    for _ in range(10):
        await asyncio.sleep(0)
