"""The lifespan protocol, as the specification has it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from oneloop.http.lifespan import Lifespan, LifespanError


async def good(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "lifespan"
    assert scope["asgi"] == {"version": "3.0", "spec_version": "2.0"}
    assert (await receive())["type"] == "lifespan.startup"
    scope["state"]["started"] = True
    await send({"type": "lifespan.startup.complete"})
    assert (await receive())["type"] == "lifespan.shutdown"
    scope["state"]["ended"] = True
    await send({"type": "lifespan.shutdown.complete"})


async def raising(scope: Any, receive: Any, send: Any) -> None:
    raise RuntimeError("only http")


async def silent(scope: Any, receive: Any, send: Any) -> None:
    """An application that knows http only, and returns."""


async def failing(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no database"})
    raise RuntimeError("told already")


async def test_start_and_stop(loop: asyncio.AbstractEventLoop) -> None:
    lifespan = Lifespan(good, "on")
    await lifespan.start()
    assert lifespan.state == {"started": True}
    await lifespan.stop()
    assert lifespan.state == {"started": True, "ended": True}


async def test_auto_takes_what_raises_as_without_the_protocol(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "oneloop.error"):
        lifespan = Lifespan(raising, "auto")
        await lifespan.start()
        await lifespan.stop()
    assert "ASGI 'lifespan' protocol appears unsupported." in caplog.text


async def test_on_takes_it_as_a_failure(loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(LifespanError, match=r"startup failed: RuntimeError\(.only http.\)"):
        await Lifespan(raising, "on").start()
    assert "RuntimeError: only http" in caplog.text


async def test_off_tells_nothing(loop: asyncio.AbstractEventLoop) -> None:
    lifespan = Lifespan(raising, "off")
    await lifespan.start()
    await lifespan.stop()


async def test_an_application_that_returns_has_started(loop: asyncio.AbstractEventLoop) -> None:
    lifespan = Lifespan(silent, "on")
    await lifespan.start()
    await lifespan.stop()


@pytest.mark.parametrize("mode", ["auto", "on"])
async def test_a_failed_startup_is_one_in_every_mode(
    loop: asyncio.AbstractEventLoop, mode: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(LifespanError, match="startup failed: no database"):
        await Lifespan(failing, mode).start()
    assert "no database" in caplog.text
    await asyncio.sleep(0)


async def test_a_failed_shutdown_is_logged(loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.failed", "message": "still busy"})

    lifespan = Lifespan(app)
    await lifespan.start()
    await lifespan.stop()
    assert "Application shutdown failed. still busy" in caplog.text


async def test_an_end_between_start_and_stop_is_logged_at_once(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        raise RuntimeError("in between")

    lifespan = Lifespan(app)
    await lifespan.start()
    await asyncio.sleep(0)
    assert "in between" in caplog.text
    await lifespan.stop()


@pytest.mark.parametrize("kind", ["lifespan.shutdown.complete", "lifespan.shutdown.failed", "http.response.start"])
async def test_wrong_messages_are_an_error_to_the_application(loop: asyncio.AbstractEventLoop, kind: str) -> None:
    heard: list[BaseException] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        try:
            await send({"type": kind})
        except RuntimeError as error:
            heard.append(error)
        await send({"type": "lifespan.startup.complete"})

    lifespan = Lifespan(app)
    await lifespan.start()
    assert "while its lifespan state was 'starting'" in str(heard[0])
    await lifespan.stop()


async def test_an_application_that_goes_on_after_its_last_word_is_cancelled(loop: asyncio.AbstractEventLoop) -> None:
    ended: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await good(scope, receive, send)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    lifespan = Lifespan(app)
    await lifespan.start()
    await lifespan.stop()
    assert ended == ["cancelled"]


async def test_abandoned_it_is_cancelled(loop: asyncio.AbstractEventLoop) -> None:
    lifespan = Lifespan(good)
    await lifespan.start()
    lifespan.abandon()
    await lifespan.stop()
    assert lifespan.state == {"started": True}
