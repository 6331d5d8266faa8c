"""anyio in requests: task groups, cancel scopes, threads, and a disconnect that is asked for again and again."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
import sniffio

from tests.http.site import App, Receive, Scope, Send, body_of, reply, serving


@pytest.fixture
def loop_name() -> str:
    return "oneloop"


async def ask_twice(app: App) -> None:
    async with serving(app) as site:
        wire = await site.connect()
        for _ in range(2):
            assert (await wire.ask()).body == b"right"


async def test_anyio() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert sniffio.current_async_library() == "asyncio"
        parts: list[bytes] = []

        async def work(part: bytes) -> None:
            await anyio.lowlevel.checkpoint()
            parts.append(part)

        async with anyio.create_task_group() as group:
            group.start_soon(work, b"ri")
            group.start_soon(work, b"ght")
        with anyio.move_on_after(0.001) as scope_:
            await anyio.sleep_forever()
        assert scope_.cancelled_caught
        with pytest.raises(TimeoutError):
            with anyio.fail_after(0.001):
                await anyio.sleep_forever()
        assert await anyio.to_thread.run_sync(lambda: 1) == 1
        await reply(send, b"".join(parts))

    await ask_twice(app)


async def test_starlettes_way_of_streaming() -> None:
    """A task group that listens for a disconnect, and is cancelled when the stream has ended."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await body_of(receive)

        async def listen() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            raise AssertionError("nobody has left")

        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            await send({"type": "http.response.start", "status": 200})
            for part in (b"ri", b"gh"):
                await anyio.lowlevel.checkpoint()
                await send({"type": "http.response.body", "body": part, "more_body": True})
            group.cancel_scope.cancel()
        await send({"type": "http.response.body", "body": b"t"})

    await ask_twice(app)


async def test_is_disconnected_of_starlette() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await body_of(receive)
        for _ in range(100):
            with anyio.CancelScope() as scope_:
                scope_.cancel()
                await receive()
            assert scope_.cancelled_caught
            await anyio.lowlevel.checkpoint()
        await reply(send, b"right")

    await ask_twice(app)
