"""`WAYS`: the same requests by every way to use the client, and by httpx on stock asyncio, which says what is right.

Responses of all ways have httpx's names.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import httpx2

import oneloop
from oneloop.compat import httpcore as facade
from oneloop.compat import httpcore2 as facade2
from oneloop.http import AsyncHttpxTransport, HttpxTransport
from tests.client.callers import Caller

TIMEOUT_S = 60.0
FIELDS = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate", "User-Agent": "ways"}
PART = 1 << 18


def cut(body: bytes) -> Iterator[bytes]:
    """The body in parts."""
    for at in range(0, len(body), PART):
        yield body[at : at + PART]


async def acut(body: bytes) -> AsyncIterator[bytes]:
    """The same for coroutines."""
    for part in cut(body):
        yield part


class Way:
    """One way to send requests. Close it."""

    is_async: bool

    def request(self, method: str, url: str, **arguments: Any) -> Any:
        """Send a request and read the response."""
        raise NotImplementedError

    def digest(self, url: str) -> tuple[int, str]:
        """Stream a response. Returns the length and the SHA-256 of its body."""
        raise NotImplementedError

    def many(self, urls: list[str]) -> list[Any]:
        """Send requests at the same time."""
        raise NotImplementedError

    def parts(self, body: bytes) -> Any:
        """The body as an iterable of the kind that this way takes."""
        return acut(body) if self.is_async else cut(body)

    def close(self) -> None:
        """Close the client and its loop."""
        raise NotImplementedError


def _sum(pieces: list[bytes]) -> tuple[int, str]:
    return sum(map(len, pieces)), hashlib.sha256(b"".join(pieces)).hexdigest()


def _by_threads(call: Callable[[str], Any], urls: list[str], at_once: int = 10) -> list[Any]:
    found: dict[int, Any] = {}

    def work(first: int) -> None:
        for number in range(first, len(urls), at_once):
            found[number] = call(urls[number])

    threads = [threading.Thread(target=work, args=(first,)) for first in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[number] for number in range(len(urls))]


class NativeWay(Way):
    """`AsyncClient` or `Client` itself."""

    def __init__(self, kind: str, **settings: Any) -> None:
        self.caller = Caller(kind, timeout=TIMEOUT_S, headers=FIELDS, **settings)
        self.is_async = kind == "coroutine"

    def request(self, method: str, url: str, **arguments: Any) -> Any:
        return self.caller.request(method, url, **arguments)

    def digest(self, url: str) -> tuple[int, str]:
        return _sum(self.caller.pieces("GET", url)[1])

    def many(self, urls: list[str]) -> list[Any]:
        client = self.caller.client
        if self.caller.kind == "plain":
            return _by_threads(client.get, urls)
        if self.caller.kind == "green":

            def main() -> list[Any]:
                from oneloop.green import joinall, spawn

                threads = [spawn(client.get, url) for url in urls]
                joinall(threads, raise_error=True)
                return [thread.value for thread in threads]

            return list(self.caller._run(main))

        async def amain() -> list[Any]:
            return list(await asyncio.gather(*map(client.get, urls)))

        return list(self.caller._run(amain))

    def close(self) -> None:
        self.caller.close()


class AsyncHttpxWay(Way):
    """An `httpx.AsyncClient` on a loop."""

    is_async = True

    def __init__(self, package: Any, loop: asyncio.AbstractEventLoop, transport: Any) -> None:
        self._loop = loop
        self._client = package.AsyncClient(transport=transport, timeout=TIMEOUT_S, headers=FIELDS)

    def request(self, method: str, url: str, **arguments: Any) -> Any:
        return self._loop.run_until_complete(self._client.request(method, url, **arguments))

    def digest(self, url: str) -> tuple[int, str]:
        async def read() -> tuple[int, str]:
            async with self._client.stream("GET", url) as response:
                return _sum([piece async for piece in response.aiter_bytes()])

        return self._loop.run_until_complete(read())

    def many(self, urls: list[str]) -> list[Any]:
        async def main() -> list[Any]:
            return list(await asyncio.gather(*map(self._client.get, urls)))

        return self._loop.run_until_complete(main())

    def close(self) -> None:
        self._loop.run_until_complete(self._client.aclose())
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()


class HttpxWay(Way):
    """An `httpx.Client`."""

    is_async = False

    def __init__(self, package: Any, transport: Any) -> None:
        self._client = package.Client(transport=transport, timeout=TIMEOUT_S, headers=FIELDS)

    def request(self, method: str, url: str, **arguments: Any) -> Any:
        return self._client.request(method, url, **arguments)

    def digest(self, url: str) -> tuple[int, str]:
        with self._client.stream("GET", url) as response:
            return _sum(list(response.iter_bytes()))

    def many(self, urls: list[str]) -> list[Any]:
        return _by_threads(self._client.get, urls)

    def close(self) -> None:
        self._client.close()


class GreenHttpxWay(HttpxWay):
    """The same in green threads."""

    def __init__(self, package: Any, transport: Any) -> None:
        super().__init__(package, transport)
        self._loop = oneloop.new_event_loop()

    def _run(self, call: Callable[[], Any]) -> Any:
        return self._loop.run_until_complete(self._loop.run_green(call))

    def request(self, method: str, url: str, **arguments: Any) -> Any:
        return self._run(lambda: self._client.request(method, url, **arguments))

    def digest(self, url: str) -> tuple[int, str]:
        found: tuple[int, str] = self._run(lambda: super(GreenHttpxWay, self).digest(url))
        return found

    def many(self, urls: list[str]) -> list[Any]:
        def main() -> list[Any]:
            from oneloop.green import joinall, spawn

            threads = [spawn(self._client.get, url) for url in urls]
            joinall(threads, raise_error=True)
            return [thread.value for thread in threads]

        return list(self._run(main))

    def close(self) -> None:
        self._run(self._client.close)
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


def _on_facade(package: Any, pools: Any, verify: ssl.SSLContext, proxy: str | None, *, is_async: bool) -> Any:
    """A transport of httpx itself, on our pool instead of httpcore's."""
    transport = (package.AsyncHTTPTransport if is_async else package.HTTPTransport)(verify=verify, proxy=proxy)
    kind = type(transport._pool).__name__
    original = transport._pool
    if proxy is None:
        transport._pool = getattr(pools, kind)(ssl_context=verify)
    else:
        # The facade has a copy of the package, with classes of its own.
        plain = str(httpx.URL(proxy).copy_with(username=None, password=None))
        made = {"proxy_url": plain, "ssl_context": verify}
        if kind.endswith("SOCKSProxy"):
            made["proxy_auth"] = original._proxy_auth
        else:
            made["proxy_headers"] = original._proxy_headers
        transport._pool = getattr(pools, kind)(**made)
    return transport


def stock(verify: ssl.SSLContext, proxy: str | None = None) -> Way:
    """Httpx as it is, on asyncio's own loop: what is right."""
    transport = httpx.AsyncHTTPTransport(verify=verify, proxy=proxy)
    return AsyncHttpxWay(httpx, asyncio.SelectorEventLoop(), transport)


Make = Callable[[ssl.SSLContext, "str | None"], Way]

WAYS: dict[str, Make] = {
    "coroutine": lambda verify, proxy: NativeWay("coroutine", verify=verify, proxy=proxy, trust_env=False),
    "green": lambda verify, proxy: NativeWay("green", verify=verify, proxy=proxy, trust_env=False),
    "plain": lambda verify, proxy: NativeWay("plain", verify=verify, proxy=proxy, trust_env=False),
    "httpx-transport": lambda verify, proxy: AsyncHttpxWay(
        httpx, oneloop.new_event_loop(), AsyncHttpxTransport(verify=verify, proxy=proxy, trust_env=False)
    ),
    "httpx2-transport-plain": lambda verify, proxy: HttpxWay(
        httpx2, HttpxTransport(verify=verify, proxy=proxy, trust_env=False)
    ),
    "httpx-transport-green": lambda verify, proxy: GreenHttpxWay(
        httpx, HttpxTransport(verify=verify, proxy=proxy, trust_env=False)
    ),
    "httpx-facade-plain": lambda verify, proxy: HttpxWay(
        httpx, _on_facade(httpx, facade, verify, proxy, is_async=False)
    ),
    "httpx2-facade": lambda verify, proxy: AsyncHttpxWay(
        httpx2, oneloop.new_event_loop(), _on_facade(httpx2, facade2, verify, proxy, is_async=True)
    ),
    "httpx2-facade-green": lambda verify, proxy: GreenHttpxWay(
        httpx2, _on_facade(httpx2, facade2, verify, proxy, is_async=False)
    ),
}
