"""Requests whose application is never called, because something before it fails: they are over all the same.

A server that counts such a request as one in progress waits for it when it ends, without a limit.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from oneloop.http.options import Options
from tests.http.http2_peer import Peer
from tests.http.test_serve import Served, run

if TYPE_CHECKING:
    from collections.abc import Callable

VERSIONS = ["1", "h2c"]


async def told(served: Served, http: str) -> int:
    """The status of a response; 0 if the connection has ended without one."""
    reader, writer = await served.connect()
    port = writer.get_extra_info("peername")[1]
    if http == "1":
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 1.2.3.4\r\nConnection: close\r\n\r\n")
        response = await reader.read()
        writer.close()
        return int(response.split()[1]) if response else 0
    writer.close()

    def ask() -> int:
        with Peer(port) as peer:
            stream = peer.ask("/", "GET", ("x-forwarded-for", "1.2.3.4"))
            while not peer.responses[stream].is_complete and peer.read():
                pass
            return peer.responses[stream].status

    return await asyncio.to_thread(ask)


def untrusting(_host: str) -> bool:
    raise RuntimeError("no trust")


@pytest.mark.parametrize("http", VERSIONS)
def test_a_view_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, http: str) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: failures.append(context["exception"]))
        with monkeypatch.context() as patched:
            patched.setattr(Options, "trust", lambda _options: untrusting)
            served = Served(http=http)
            assert await told(served, http) == 0
        served.stop.set()
        await served.task

    failures: list[Any] = []
    run(main())
    assert [str(failure) for failure in failures] == ["no trust"]


@pytest.mark.filterwarnings("ignore:coroutine 'app' was never awaited")
@pytest.mark.parametrize("http", VERSIONS)
def test_a_task_factory_that_refuses(http: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        served = Served(http=http)
        (await served.connect())[1].close()
        make: Callable[..., Any] = asyncio.Task
        is_refusing = True

        def factory(on: Any, coroutine: Any, **given: Any) -> Any:
            if is_refusing and type(coroutine).__name__ == "RequestTask":
                raise RuntimeError("no tasks today")
            return make(coroutine, loop=on, **given)

        loop.set_task_factory(factory)
        # uvicorn closes the connection, or responds with 400.
        assert await told(served, http) == 500
        is_refusing = False
        assert await told(served, http) == 200
        served.stop.set()
        await served.task

    run(main())
    assert "RuntimeError: no tasks today" in caplog.text
