"""HTTP clients for coroutines: each sends a request and reads the answer, in its usual way, on a given loop.

Kept: the client with its connections; a response until its status and length are checked.
Thrown away: each response.
"""

# mypy: disable-error-code="import-untyped,import-not-found,no-untyped-call,unused-ignore,attr-defined"
# A rival may be missing.
from __future__ import annotations

import asyncio
import io
import ssl
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from bench.rivals import loops
from bench.rivals.client_work import (
    PATIENCE_S,
    SETTLE_S,
    AskLater,
    Work,
    hand_over,
    parse,
    wait_for_start,
    warmed_up,
)


def _of_httpx(client: Any) -> AskLater:
    """Whatever has httpx's interface."""

    async def ask(work: Work) -> None:
        if work.upload:
            response = await client.post(work.url, content=work.body)
        else:
            response = await client.get(work.url)
        work.check(response.status_code, response.content)

    async def stream(work: Work) -> None:
        length = 0
        async with client.stream("GET", work.url) as response:
            async for piece in response.aiter_bytes():
                length += len(piece)
        work.check_length(response.status_code, length)

    def choose(work: Work) -> Any:
        return stream(work) if work.is_streamed else ask(work)

    return choose


def oneloop_client(work: Work) -> AskLater:
    from oneloop.http import AsyncClient, Limits

    limits = Limits(max_connections=None, max_keepalive_connections=None)
    return _of_httpx(AsyncClient(limits=limits, verify=work.tls or True, timeout=PATIENCE_S))


def _httpx(work: Work, name: str, **settings: Any) -> AskLater:
    package: Any = __import__(name)
    if work.tls:
        settings["verify"] = ssl.create_default_context(cafile=work.tls)
    return _of_httpx(package.AsyncClient(timeout=PATIENCE_S, **settings))


def httpx(work: Work, name: str = "httpx") -> AskLater:
    package: Any = __import__(name)
    return _httpx(work, name, limits=package.Limits(max_connections=None, max_keepalive_connections=None))


def httpx2(work: Work) -> AskLater:
    return httpx(work, "httpx2")


def mock(work: Work, name: str = "httpx") -> AskLater:
    """The package without a network."""
    package: Any = __import__(name)
    body = b"x" * work.size
    return _httpx(work, name, transport=package.MockTransport(lambda _: package.Response(200, content=body)))


def mock2(work: Work) -> AskLater:
    return mock(work, "httpx2")


def with_transport(work: Work, name: str = "httpx") -> AskLater:
    """The package on oneloop's transport."""
    from oneloop.http import AsyncHttpxTransport, Limits

    limits = Limits(max_connections=None, max_keepalive_connections=None)
    return _httpx(work, name, transport=AsyncHttpxTransport(limits=limits))


def with_transport2(work: Work) -> AskLater:
    return with_transport(work, "httpx2")


def aiohttp(work: Work) -> AskLater:
    import aiohttp

    # Made in the loop that runs, as it wants.
    trust: Any = ssl.create_default_context(cafile=work.tls) if work.tls else True
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, ssl=trust))

    async def ask(work: Work) -> None:
        if work.is_streamed:
            length = 0
            async with session.get(work.url) as response:
                async for piece in response.content.iter_any():
                    length += len(piece)
            work.check_length(response.status, length)
            return
        made = session.post(work.url, data=work.body) if work.upload else session.get(work.url)
        async with made as response:
            body = await response.read()
        work.check(response.status, body)

    return ask


def niquests(work: Work) -> AskLater:
    import niquests

    session = niquests.AsyncSession(disable_http2=True, disable_http3=True, pool_maxsize=max(10, work.at_once))
    trust = work.tls or True

    async def ask(work: Work) -> None:
        if work.upload:
            response = await session.post(work.url, data=work.body, timeout=PATIENCE_S, verify=trust)
        else:
            response = await session.get(work.url, timeout=PATIENCE_S, verify=trust)
        work.check(response.status_code, response.content)

    return ask


def pycurl(work: Work) -> AskLater:
    """An easy handle for each request that is under way, and one multi handle, which keeps the connections."""
    import pycurl

    multi = pycurl.AsyncCurlMulti()
    multi.setopt(pycurl.M_MAXCONNECTS, work.at_once)
    free: list[Any] = []

    async def ask(work: Work) -> None:
        curl = free.pop() if free else pycurl.Curl()
        curl.setopt(pycurl.URL, work.url)
        if work.tls:
            curl.setopt(pycurl.CAINFO, work.tls)
        if work.upload:
            body = work.body
            curl.setopt(pycurl.POST, 1)
            curl.setopt(pycurl.POSTFIELDSIZE_LARGE, len(body))
            curl.setopt(pycurl.POSTFIELDS, body)
            # curl waits for `100 Continue` otherwise.
            curl.setopt(pycurl.HTTPHEADER, ["Expect:"])
        lengths: list[int] = []
        into = io.BytesIO()
        if work.is_streamed:
            curl.setopt(pycurl.WRITEFUNCTION, lambda piece: lengths.append(len(piece)))
        else:
            curl.setopt(pycurl.WRITEDATA, into)
        await multi.perform(curl)
        status = curl.getinfo(pycurl.RESPONSE_CODE)
        if work.is_streamed:
            work.check_length(status, sum(lengths))
        else:
            work.check(status, into.getvalue())
        free.append(curl)

    return ask


def pyreqwest(work: Work) -> AskLater:
    from pyreqwest.client import ClientBuilder

    builder = ClientBuilder().timeout(timedelta(seconds=PATIENCE_S))
    if work.tls:
        with open(work.tls, "rb") as file:
            builder = builder.add_root_certificate_pem(file.read())
    client = builder.build()

    async def ask(work: Work) -> None:
        if work.is_streamed:
            length = 0
            async with client.get(work.url).build_streamed() as response:
                while piece := await response.body_reader.read_chunk():
                    length += len(piece)
            work.check_length(response.status, length)
            return
        request = client.post(work.url).body_bytes(work.body) if work.upload else client.get(work.url)
        response = await request.build().send()
        work.check(response.status, memoryview(await response.bytes()))

    return ask


def wreq(work: Work) -> AskLater:
    from wreq import Client
    from wreq.tls import CertStore, TlsOptions

    settings: dict[str, Any] = {}
    if work.tls:
        with open(work.tls, "rb") as file:
            settings["tls_verify"] = CertStore.from_pem_stack(file.read())
        # It does not resume sessions otherwise.
        settings["tls_options"] = TlsOptions(session_ticket=True, pre_shared_key=True)
    client = Client(**settings)

    async def ask(work: Work) -> None:
        if work.is_streamed:
            length = 0
            response = await client.get(work.url)
            async with response.stream() as pieces:
                async for piece in pieces:
                    length += len(piece)
            work.check_length(response.status.as_int(), length)
            return
        response = await (client.post(work.url, body=work.body) if work.upload else client.get(work.url))
        work.check(response.status.as_int(), await response.bytes())

    return ask


def rqx(work: Work) -> AskLater:
    import rqx

    return _of_httpx(rqx.AsyncClient(timeout=PATIENCE_S, **({"verify": work.tls} if work.tls else {})))


PROGRAMS: dict[str, Callable[[Work], AskLater]] = {
    "oneloop": oneloop_client,
    "httpx": httpx,
    "httpx2": httpx2,
    "httpx-mock": mock,
    "httpx2-mock": mock2,
    "httpx-transport": with_transport,
    "httpx2-transport": with_transport2,
    "aiohttp": aiohttp,
    "niquests": niquests,
    "pycurl": pycurl,
    "pyreqwest": pyreqwest,
    "wreq": wreq,
    "rqx": rqx,
}


async def _work(work: Work, ask: AskLater) -> int:
    """As many workers as there are requests at once; each sends requests until the time is over."""
    until = time.monotonic() + work.duration

    async def worker() -> int:
        count = 0
        while True:
            await ask(work)
            count += 1
            if time.monotonic() >= until:
                return count

    return sum(await asyncio.gather(*(worker() for _ in range(work.at_once))))


async def main(work: Work) -> None:
    ask = PROGRAMS[work.rival](work)
    if work.warmup:
        await _work(warmed_up(work), ask)
    # Nothing else runs at this point, so blocking is harmless.
    window = wait_for_start(work)
    began_ns = time.monotonic_ns()
    requests = await _work(window, ask)
    wall_ns = time.monotonic_ns() - began_ns
    await asyncio.sleep(SETTLE_S)
    hand_over(requests, wall_ns)


if __name__ == "__main__":
    asked = parse()
    loops.run(main(asked), asked.loop or "asyncio")
