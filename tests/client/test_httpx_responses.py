"""Responses of `AsyncHttpxTransport` and `HttpxTransport`, beside those that the packages make themselves."""

from __future__ import annotations

import copy
import pickle
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import oneloop
from tests.client.farm import farm

pytest.importorskip("httpx2", reason="needs the packages httpx and httpx2")

import httpx
import httpx2

from oneloop.http import AsyncHttpxTransport, HttpxTransport, Limits
from oneloop.http.client.httpx_kinds import kind_of

PACKAGES = [pytest.param(httpx, id="httpx"), pytest.param(httpx2, id="httpx2")]
# What differs in each response; `_decoder` keeps what `_get_content_decoder()` has made, and makes again.
OWN = {"_elapsed", "elapsed", "_start", "_decoder"}


@pytest.fixture
def url() -> Iterator[str]:
    with farm() as served:
        yield f"http://127.0.0.1:{served.port}/kept"


def shown(value: Any) -> Any:
    """What can be compared of an attribute: for objects of the packages their own attributes."""
    if isinstance(value, dict):
        return {name: shown(kept) for name, kept in value.items() if name not in OWN and name != "network_stream"}
    if isinstance(value, (list, tuple)):
        return [shown(kept) for kept in value]
    if type(value).__name__ in ("Headers", "Request"):
        return type(value).__name__, shown({name: kept for name, kept in vars(value).items() if name != "stream"})
    return value if isinstance(value, (bytes, str, int, type(None))) else type(value).__mro__[-2].__name__


def attributes(response: Any) -> list[tuple[str, Any]]:
    """The attributes in their order. The classes of the innermost streams differ."""
    return [(name, shown(value)) for name, value in vars(response).items() if name not in ("stream", *OWN)]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_quick_way_knows_the_package(package: Any) -> None:
    """The releases that the tests run with are known; otherwise nothing below says anything about it."""
    kind = kind_of(package.Request("GET", "http://a/"))
    for responses in (kind._async_responses, kind._sync_responses):
        assert responses._is_known
        assert getattr(responses._bound, "__name__", "") in ("BoundAsyncStream", "BoundSyncStream")
        assert responses._class is not package.Response
        assert responses._class.__name__ == "Response"
        assert responses._class.__module__ == package.Response.__module__


@pytest.mark.parametrize("package", PACKAGES)
def test_attributes(package: Any, url: str) -> None:
    """The same ones in the same order, of a response that is not read yet, that was read, and that was streamed."""

    def of(transport: Any) -> list[Any]:
        found = []
        with package.Client(transport=transport) as client:
            found.append(attributes(client.get(url)))
            with client.stream("GET", url) as response:
                found.append(attributes(response))
                with pytest.raises(package.ResponseNotRead):
                    response.content  # noqa: B018 - raises
                assert b"".join(response.iter_bytes()) == b"hello"
                found.append(attributes(response))
                with pytest.raises(package.StreamConsumed):
                    response.read()
            with client.stream("GET", url) as response:
                assert response.read() == response.read() == b"hello"
                found.append(attributes(response))
                assert list(response.iter_bytes(2)) == [b"he", b"ll", b"o"]
        return found

    async def of_coroutine(transport: Any) -> list[Any]:
        found = []
        async with package.AsyncClient(transport=transport) as client:
            found.append(attributes(await client.get(url)))
            async with client.stream("GET", url) as response:
                found.append(attributes(response))
                assert b"".join([piece async for piece in response.aiter_bytes()]) == b"hello"
                found.append(attributes(response))
                with pytest.raises(package.StreamConsumed):
                    await response.aread()
            async with client.stream("GET", url) as response:
                assert await response.aread() == await response.aread() == b"hello"
                found.append(attributes(response))
        return found

    assert of(HttpxTransport()) == of(package.HTTPTransport())
    ours = oneloop.run(of_coroutine(AsyncHttpxTransport()))
    assert ours == oneloop.run(of_coroutine(package.AsyncHTTPTransport()))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_same_without_the_quick_way(package: Any, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = kind_of(package.Request("GET", "http://a/"))._sync_responses
    with package.Client(transport=HttpxTransport()) as client:
        first = client.get(url)
        monkeypatch.setattr(quick, "_is_known", False)
        monkeypatch.setattr(quick, "_methods", ())
        second = client.get(url)
    assert attributes(first) == attributes(second)
    assert first.elapsed.total_seconds() > 0


@pytest.mark.parametrize("package", PACKAGES)
def test_pickling_and_copying(package: Any, url: str) -> None:
    """As the package's own class, with what that keeps."""

    def of(transport: Any) -> list[Any]:
        with package.Client(transport=transport) as client:
            response = client.get(url)
            request = response.request
            copies = [copy.copy(response), pickle.loads(pickle.dumps(response))]
        assert all(made.request.url == request.url for made in copies)
        return [(type(made), made.text, made.is_closed, attributes(made)) for made in copies]

    assert of(HttpxTransport()) == of(package.HTTPTransport())


def recording(package: Any, seen: list[bytes]) -> tuple[Any, Any]:  # noqa: C901 - two classes
    """The classes of a stream that records and changes what is read, and of a transport that puts it in between."""

    class Recording(package.AsyncByteStream, package.SyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        def __iter__(self) -> Iterator[bytes]:
            for piece in self._stream:
                seen.append(piece)
                yield piece.upper()

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in self._stream:
                seen.append(piece)
                yield piece.upper()

        def close(self) -> None:
            seen.append(b"closed")
            self._stream.close()

        async def aclose(self) -> None:
            seen.append(b"closed")
            await self._stream.aclose()

    class Around(package.BaseTransport, package.AsyncBaseTransport):  # type: ignore[misc]
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def handle_request(self, request: Any) -> Any:
            response = self._inner.handle_request(request)
            response.stream = Recording(response.stream)
            return response

        async def handle_async_request(self, request: Any) -> Any:
            response = await self._inner.handle_async_request(request)
            response.stream = Recording(response.stream)
            return response

        def close(self) -> None:
            self._inner.close()

        async def aclose(self) -> None:
            await self._inner.aclose()

    return Recording, Around


@pytest.mark.parametrize("package", PACKAGES)
def test_a_stream_that_was_put_in_between_is_read(package: Any, url: str) -> None:
    """By a transport around ours, and by an event hook, as tools that record or trace do it."""
    seen: list[bytes] = []
    stream, around = recording(package, seen)

    async def hooked(response: Any) -> None:
        response.stream = stream(response.stream)

    async def main() -> None:
        async with package.AsyncClient(transport=around(AsyncHttpxTransport())) as client:
            assert (await client.get(url)).content == b"HELLO"
        async with package.AsyncClient(transport=AsyncHttpxTransport(), event_hooks={"response": [hooked]}) as client:
            assert (await client.get(url)).content == b"HELLO"

    with package.Client(transport=around(HttpxTransport())) as client:
        assert client.get(url).content == b"HELLO"
    oneloop.run(main())
    assert seen == [b"hello", b"closed"] * 3


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("name", ["__init__", "read", "iter_bytes", "iter_raw", "close"])
def test_a_method_that_was_replaced_is_called(
    package: Any, name: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for word in (name,) if name == "__init__" else (name, f"a{name}"):
        original = getattr(package.Response, word)

        def replaced(self: Any, *args: Any, original: Any = original, word: str = word, **others: Any) -> Any:
            calls.append(word)
            return original(self, *args, **others)

        monkeypatch.setattr(package.Response, word, replaced)

    async def main() -> None:
        async with package.AsyncClient(transport=AsyncHttpxTransport()) as client:
            assert (await client.get(url)).content == b"hello"

    with package.Client(transport=HttpxTransport()) as client:
        assert client.get(url).content == b"hello"
    first = set(calls)
    oneloop.run(main())
    assert first == {name}
    assert set(calls) == ({name} if name == "__init__" else {name, f"a{name}"})


@pytest.mark.parametrize("package", PACKAGES)
def test_limits_of_the_package(package: Any, url: str) -> None:
    given = package.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=3.0)
    with package.Client(transport=HttpxTransport(limits=given)) as client:
        assert client.get(url).text == client.get(url).text == "hello"
        assert client._transport.statistics()["opened"] == 1
    assert HttpxTransport(limits=given)._carrier._limits == Limits(1, 1, 3.0)
