"""`oneloop.compat.httpcore` and `httpcore2`: the same outcomes as those of the packages themselves, on the farm."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import oneloop
from tests.certificates import client_context
from tests.client.farm import MANNERS, Farm, farm

pytest.importorskip("httpcore2", reason="needs the packages httpcore and httpcore2")

import httpcore
import httpcore2

from oneloop.compat import httpcore as facade
from oneloop.compat import httpcore2 as facade2

PAIRS = [pytest.param((httpcore, facade), id="httpcore"), pytest.param((httpcore2, facade2), id="httpcore2")]


def times(url: str) -> dict[str, float]:
    """A short time to wait for what stalls, and for nothing else."""
    return {"connect": 60.0, "read": 0.3 if "/stalls" in url else 60.0, "write": 60.0, "pool": 60.0}


Outcome = tuple[Any, ...]
Act = Callable[[Any, Any], Any]


@pytest.fixture
def served() -> Iterator[Farm]:
    with farm() as made:
        yield made


def told(response: Any) -> Outcome:
    extensions = response.extensions
    return (
        response.status,
        response.headers,
        extensions["http_version"],
        extensions["reason_phrase"],
        response.content,
    )


def in_plain_code(package: Any, act: Callable[[Any], Outcome], **settings: Any) -> Outcome:
    with package.ConnectionPool(**settings) as pool:
        try:
            return act(pool)
        except Exception as error:
            return (type(error).__name__,)


def in_coroutines(package: Any, act: Callable[[Any], Any], **settings: Any) -> Outcome:
    async def main() -> Outcome:
        async with package.AsyncConnectionPool(**settings) as pool:
            try:
                outcome: Outcome = await act(pool)
            except Exception as error:
                return (type(error).__name__,)
            return outcome

    return oneloop.run(main())


def in_green_threads(package: Any, act: Callable[[Any], Outcome], **settings: Any) -> Outcome:
    from oneloop.green import spawn
    from oneloop.green.hub import end_own_hub

    try:
        outcome: Outcome = spawn(in_plain_code, package, act, **settings).get()
        return outcome
    finally:
        end_own_hub()


def compare(pair: tuple[Any, Any], sync_act: Any, async_act: Any, **settings: Any) -> Outcome:
    """The outcome, which is the same for the original and for the facade, in all three ways."""
    original, ours = pair
    expected = in_plain_code(original, sync_act, **settings)
    assert in_plain_code(ours, sync_act, **settings) == expected
    assert in_green_threads(ours, sync_act, **settings) == expected
    assert in_coroutines(original, async_act, **settings) == expected
    assert in_coroutines(ours, async_act, **settings) == expected
    return expected


def compare_request(pair: tuple[Any, Any], method: str, url: str, **arguments: Any) -> Outcome:
    settings = arguments.pop("settings", {})
    extensions = {"timeout": times(url), **arguments.pop("extensions", {})}

    async def act(pool: Any) -> Outcome:
        return told(await pool.request(method, url, extensions=dict(extensions), **arguments))

    return compare(
        pair,
        lambda pool: told(pool.request(method, url, extensions=dict(extensions), **arguments)),
        act,
        **settings,
    )


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("path", sorted(MANNERS))
def test_each_manner(pair: tuple[Any, Any], path: str, served: Farm) -> None:
    outcome = compare_request(pair, "GET", f"http://127.0.0.1:{served.port}{path}")
    assert len(outcome) in (1, 5)


@pytest.mark.parametrize("pair", PAIRS)
def test_head(pair: tuple[Any, Any], served: Farm) -> None:
    assert compare_request(pair, "HEAD", f"http://127.0.0.1:{served.port}/kept")[-1] == b""


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(
    "headers", [{}, {"Content-Length": "3"}, {"Content-Length": "5"}, {"Transfer-Encoding": "chunked"}]
)
def test_bodies_and_their_lengths(pair: tuple[Any, Any], headers: dict[str, str], served: Farm) -> None:
    url = f"http://127.0.0.1:{served.port}/echo"
    compare_request(pair, "POST", url, headers=headers, content=b"four")


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("path", ["/echo", "/early"])
def test_streamed_bodies(pair: tuple[Any, Any], path: str, served: Farm) -> None:
    url = f"http://127.0.0.1:{served.port}{path}"
    headers = {"Transfer-Encoding": "chunked"}

    def pieces() -> Iterator[bytes]:
        yield from [b"a" * 1000] * 20

    async def async_pieces() -> AsyncIterator[bytes]:
        for piece in pieces():
            yield piece

    async def act(pool: Any) -> Outcome:
        return told(await pool.request("POST", url, headers=headers, content=async_pieces()))

    outcome = compare(pair, lambda pool: told(pool.request("POST", url, headers=headers, content=pieces())), act)
    assert outcome[0] == (200 if path == "/echo" else 413)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(
    "field", [("X", "a\r\nY: b"), ("X Y", "a"), ("Content-Length", "x"), ("Host", "b"), ("Transfer-Encoding", "gzip")]
)
def test_requests_that_cannot_be_sent(pair: tuple[Any, Any], field: tuple[str, str], served: Farm) -> None:
    headers = [("Host", "a"), field]
    outcome = compare_request(pair, "GET", f"http://127.0.0.1:{served.port}/kept", headers=headers)
    assert outcome == ("LocalProtocolError",)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "https://127.0.0.1:{port}/", "ftp://a/", "//a/"])
def test_connections_that_fail(pair: tuple[Any, Any], url: str, served: Farm) -> None:
    outcome = compare_request(pair, "GET", url.format(port=served.port), extensions={"timeout": {"connect": 0.5}})
    assert len(outcome) == 1


@pytest.mark.parametrize("pair", PAIRS)
def test_pool_timeout(pair: tuple[Any, Any], served: Farm) -> None:
    url = f"http://127.0.0.1:{served.port}/stalls-in-body"
    times = {"timeout": {"pool": 0.05}}

    def sync_act(pool: Any) -> Outcome:
        with pool.stream("GET", url):
            return told(pool.request("GET", url, extensions=times))

    async def act(pool: Any) -> Outcome:
        async with pool.stream("GET", url):
            return told(await pool.request("GET", url, extensions=times))

    assert compare(pair, sync_act, act, max_connections=1) == ("PoolTimeout",)


@pytest.mark.parametrize("pair", PAIRS)
def test_bytes_behind_a_response_reach_nobody(pair: tuple[Any, Any], served: Farm) -> None:
    url = f"http://127.0.0.1:{served.port}"

    async def act(pool: Any) -> Outcome:
        await pool.request("GET", f"{url}/behind")
        return told(await pool.request("GET", f"{url}/kept"))

    assert in_coroutines(pair[1], act)[-1] == b"hello"


@pytest.mark.parametrize("pair", PAIRS)
def test_tls_and_information(pair: tuple[Any, Any]) -> None:
    with farm(secured=True) as served:
        url = f"https://localhost:{served.port}/kept"

        def facts(response: Any) -> Outcome:
            stream = response.extensions["network_stream"]
            version = stream.get_extra_info("ssl_object").version()
            return (response.status, version, stream.get_extra_info("server_addr")[1], stream.get_extra_info("x"))

        def sync_act(pool: Any) -> Outcome:
            with pool.stream("GET", url, extensions={"sni_hostname": "other"}) as response:
                return facts(response)

        async def act(pool: Any) -> Outcome:
            async with pool.stream("GET", url, extensions={"sni_hostname": "other"}) as response:
                return facts(response)

        outcome = compare(pair, sync_act, act, ssl_context=client_context())
        assert outcome == (200, "TLSv1.3", served.port, None)


@pytest.mark.parametrize("pair", PAIRS)
def test_unix_sockets(pair: tuple[Any, Any], tmp_path: Path) -> None:
    with farm(path=tmp_path / "s"):
        outcome = compare_request(pair, "GET", "http://any/kept", settings={"uds": str(tmp_path / "s")})
        assert outcome[-1] == b"hello"


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_proxies(pair: tuple[Any, Any], scheme: str, served: Farm) -> None:
    original, _ = pair
    with farm(secured=scheme == "https") as other:
        proxy = original.Proxy(f"http://127.0.0.1:{served.port}", auth=("a", "b"), headers={"X-Proxy": "1"})
        settings = {"proxy": proxy, "ssl_context": client_context()}
        outcome = compare_request(pair, "GET", f"{scheme}://localhost:{other.port}/kept", settings=settings)
        assert outcome[-1] == b"hello"
        assert len({tuple(sorted(head.lower().split(b"\r\n"))) for head in served.heads}) == 1


@pytest.mark.parametrize("pair", PAIRS)
def test_a_proxy_that_refuses(pair: tuple[Any, Any], served: Farm) -> None:
    original, _ = pair
    settings = {"proxy": original.Proxy(f"http://127.0.0.1:{served.port}")}
    assert compare_request(pair, "GET", "https://refused:1/", settings=settings) == ("ProxyError",)


@pytest.mark.parametrize("pair", PAIRS)
def test_upgrades(pair: tuple[Any, Any], served: Farm) -> None:
    url = f"http://127.0.0.1:{served.port}/upgrade"

    def sync_act(pool: Any) -> Outcome:
        with pool.stream("GET", url, headers={"Upgrade": "echo"}) as response:
            stream = response.extensions["network_stream"]
            stream.write(b"said", timeout=60)
            received = b""
            while data := stream.read(1000, timeout=60):
                received += data
            return (response.status, received)

    async def act(pool: Any) -> Outcome:
        async with pool.stream("GET", url, headers={"Upgrade": "echo"}) as response:
            stream = response.extensions["network_stream"]
            await stream.write(b"said", timeout=60)
            received = b""
            while data := await stream.read(1000, timeout=60):
                received += data
            return (response.status, received)

    assert compare(pair, sync_act, act) == (101, b"leading said")


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("path", ["/kept", "/stalls", "/stalls-in-body"])
def test_cancelled_at_each_step(pair: tuple[Any, Any], path: str, served: Farm) -> None:
    """A cancelled request leaves no connection in use."""
    url = f"http://127.0.0.1:{served.port}"

    async def main() -> None:
        async with pair[1].AsyncConnectionPool(max_connections=1) as pool:
            for steps in range(12):
                task = asyncio.ensure_future(pool.request("GET", url + path))
                for _ in range(steps):
                    await asyncio.sleep(0.002 if steps > 8 else 0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            response = await pool.request("GET", f"{url}/kept", extensions={"timeout": {"pool": 60.0}})
            assert response.content == b"hello"
            assert len([one for one in pool.connections if not one.is_closed()]) == 1

    oneloop.run(main())


@pytest.mark.parametrize("pair", PAIRS)
def test_connections_are_kept_and_shown(pair: tuple[Any, Any], served: Farm) -> None:
    url = f"http://127.0.0.1:{served.port}/kept"
    with pair[1].ConnectionPool() as pool:
        for _ in range(3):
            pool.request("GET", url)
        shown = f"<HTTPConnection ['http://127.0.0.1:{served.port}', HTTP/1.1, IDLE, Request Count: 3]>"
        assert [repr(one) for one in pool.connections] == [shown]
        assert repr(pool) == "<ConnectionPool [Requests: 0 active, 0 queued | Connections: 0 active, 1 idle]>"
        assert served.connections == 1


@pytest.mark.parametrize("pair", PAIRS)
def test_traces(pair: tuple[Any, Any], served: Farm) -> None:
    url = f"http://127.0.0.1:{served.port}/kept"

    def events(package: Any) -> list[str]:
        seen: list[str] = []
        with package.ConnectionPool() as pool:
            for _ in range(2):
                pool.request("GET", url, extensions={"trace": lambda name, info: seen.append(name)})
        return seen

    assert events(pair[1]) == events(pair[0])


@pytest.mark.parametrize("pair", PAIRS)
def test_traces_of_a_connection_that_is_refused(pair: tuple[Any, Any]) -> None:
    def events(package: Any) -> list[str]:
        seen: list[str] = []
        with package.ConnectionPool() as pool, pytest.raises(package.ConnectError):
            pool.request("GET", "http://127.0.0.1:1/", extensions={"trace": lambda name, info: seen.append(name)})
        return seen

    assert events(pair[1]) == events(pair[0])


@pytest.mark.parametrize("pair", PAIRS)
def test_retries_and_socket_options(pair: tuple[Any, Any], served: Farm) -> None:
    import socket

    option = (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    seen: list[str] = []
    with pair[1].ConnectionPool(retries=1, socket_options=[option]) as pool:
        with pool.stream("GET", f"http://127.0.0.1:{served.port}/kept") as response:
            sock = response.extensions["network_stream"].get_extra_info("socket")
            assert sock.getsockopt(*option[:2]) == 1
        with pytest.raises(pair[1].ConnectError):
            pool.request("GET", "http://127.0.0.1:1/", extensions={"trace": lambda name, info: seen.append(name)})
    assert seen.count("connection.connect_tcp.failed") == 2


@pytest.mark.parametrize("pair", PAIRS)
def test_threads_that_end_leave_nothing(pair: tuple[Any, Any], served: Farm) -> None:
    with pair[1].ConnectionPool() as pool:
        for _ in range(5):
            thread = threading.Thread(target=pool.request, args=("GET", f"http://127.0.0.1:{served.port}/kept"))
            thread.start()
            thread.join()
        # The tasks that opened the connections are in cycles.
        gc.collect()
        assert pool.connections == []


@pytest.mark.parametrize("pair", PAIRS)
def test_what_the_original_serves(pair: tuple[Any, Any], served: Farm) -> None:
    original, ours = pair
    backend = ours.AsyncMockBackend([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"])

    async def mocked(pool: Any) -> Outcome:
        return told(await pool.request("GET", "http://example.com/"))

    assert in_coroutines(ours, mocked, network_backend=backend)[-1] == b"ok"

    async def on_asyncio() -> bytes:
        async with ours.AsyncConnectionPool() as pool:
            content: bytes = (await pool.request("GET", f"http://127.0.0.1:{served.port}/kept")).content
            return content

    assert asyncio.run(on_asyncio()) == b"hello"
    trio = pytest.importorskip("trio")
    assert trio.run(on_asyncio) == b"hello"
    assert set(ours.__all__) == set(original.__all__)
    assert ours.__version__ == original.__version__
