"""What `HttpxTransport` and `AsyncHttpxTransport` do with a body: it is sent once, and as long as its request says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

import oneloop
from oneloop.http import AsyncHttpxTransport, HttpxTransport
from tests.client.servers import Peer, RawServer

pytest.importorskip("httpx")

import httpx


def response_once(peer: Peer) -> None:
    """Close the connection when the second request has come."""
    while head := peer.head():
        if head.startswith(b"GET"):
            peer.answer(b"first")
            continue
        if b"chunked" in head.lower():
            peer.chunked()
        return


def given(length: int | None) -> dict[str, Any]:
    """A body in parts."""
    headers = {} if length is None else {"Content-Length": str(length)}
    return {"content": (part for part in (b"ab", b"cd")), "headers": headers}


def later(length: int | None) -> dict[str, Any]:
    async def parts() -> AsyncIterator[bytes]:
        for part in (b"ab", b"cd"):
            yield part

    return {**given(length), "content": parts()}


@pytest.mark.parametrize(("method", "in_parts"), [("POST", False), ("PUT", True), ("POST", True)])
def test_what_may_not_be_repeated_is_sent_once(method: str, in_parts: bool) -> None:
    """The server would act twice, or get the head alone and wait for the body."""
    with RawServer(response_once) as server:
        with httpx.Client(transport=cast("httpx.BaseTransport", HttpxTransport())) as client:
            client.get(server.url)
            with pytest.raises(httpx.RemoteProtocolError):
                client.request(method, server.url, **(given(None) if in_parts else {}))
        assert server.connections == 1

        async def main() -> None:
            async with httpx.AsyncClient(transport=cast("httpx.AsyncBaseTransport", AsyncHttpxTransport())) as client:
                await client.get(server.url)
                with pytest.raises(httpx.RemoteProtocolError):
                    await client.request(method, server.url, **(later(None) if in_parts else {}))

        oneloop.run(main())
        assert server.connections == 2


@pytest.mark.parametrize("length", [3, 5])
@pytest.mark.parametrize("in_parts", [True, False])
def test_a_body_is_as_long_as_its_request_says(length: int, in_parts: bool) -> None:
    """The server would take its rest for the next request, or wait for more."""
    what = "much" if length == 3 else "little"

    def serve(peer: Peer) -> None:
        peer.head()
        peer.wait_for_end()

    def whole() -> dict[str, Any]:
        return {"content": b"abcd", "headers": {"Content-Length": str(length)}}

    with RawServer(serve) as server:
        with httpx.Client(transport=cast("httpx.BaseTransport", HttpxTransport()), timeout=10) as client:
            with pytest.raises(httpx.LocalProtocolError, match=f"Too {what} data"):
                client.post(server.url, **(given(length) if in_parts else whole()))

        async def main() -> None:
            async with httpx.AsyncClient(
                transport=cast("httpx.AsyncBaseTransport", AsyncHttpxTransport()), timeout=10
            ) as client:
                with pytest.raises(httpx.LocalProtocolError, match=f"Too {what} data"):
                    await client.post(server.url, **(later(length) if in_parts else whole()))

        oneloop.run(main())


def test_a_body_is_ended_when_its_request_fails() -> None:
    """What its generator holds is given back at once, not when the collector finds it."""
    ended: list[str] = []

    class Body(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                while True:
                    yield bytes(1 << 16)
            finally:
                ended.append("ended")

    async def main(url: str) -> None:
        async with httpx.AsyncClient(
            transport=cast("httpx.AsyncBaseTransport", AsyncHttpxTransport()), timeout=10
        ) as client:
            parts = Body().__aiter__()

            class Kept(httpx.AsyncByteStream):
                def __aiter__(self) -> AsyncIterator[bytes]:
                    return parts

            fields = {"Host": "x", "Transfer-Encoding": "chunked"}
            # The generator is held here: nothing but the client ends it.
            with pytest.raises((httpx.ReadError, httpx.WriteError)) as raised:
                await client.send(httpx.Request("POST", url, stream=Kept(), headers=fields))
            assert ended == ["ended"], raised

    def serve(peer: Peer) -> None:
        peer.head()
        peer.exactly(1 << 20)
        peer.reset()

    with RawServer(serve) as server:
        oneloop.run(main(server.url))
