"""A client that reads nothing of what is sent to it: `--timeout-send` ends it, and no other limit does."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

import oneloop
from oneloop import testing
from oneloop.http.static import settings
from tests.http.frames import handshake
from tests.http.http2_peer import END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, frame, head
from tests.http.site import GET, Receive, Scope, Send, reply, serving, small_client
from tests.http.virtual import now_s, virtual
from tests.loops import LoopFactory

LONG_BYTES = 20_000_000
LIMIT_S = 30


@pytest.fixture
def loop_factory(request: pytest.FixtureRequest) -> LoopFactory:
    return oneloop.new_event_loop if "file" in request.node.name else testing.new_event_loop


class App:
    """Sends without end, as the path says, and keeps what ends it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            while True:
                await send({"type": "websocket.send", "bytes": os.urandom(100_000)})
        if scope["path"] == "/whole":
            await reply(send, bytes(LONG_BYTES))
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"] == "/file":
            await send({"type": "http.response.pathsend", "path": str(self.path)})
            return
        while True:
            await send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})


def asked(path: str) -> bytes:
    return GET.replace(b"/", path.encode(), 1)


def asked_2(path: str, window: int = 65_535) -> bytes:
    """A window that is never opened again, or one that no response fills."""
    update = b"\0\x04" + window.to_bytes(4)
    grown = frame(8, 0, 0, (window - 65_535).to_bytes(4)) if window > 65_535 else b""
    return (
        PREFACE + frame(SETTINGS, 0, 0, update) + grown + frame(HEADERS, END_HEADERS | END_STREAM, 1, head(path=path))
    )


WIDE = (1 << 31) - 1
WAYS = {
    "whole": asked("/whole"),
    "stream": asked("/stream"),
    "websocket": handshake(),
    "HTTP/2, window, whole": asked_2("/whole"),
    "HTTP/2, window, stream": asked_2("/stream"),
    "HTTP/2, socket, stream": asked_2("/stream", WIDE),
}
FILES = {
    "file": asked("/file"),
    "static": asked("/static/file"),
    "HTTP/2, window, file": asked_2("/file"),
    "HTTP/2, window, static": asked_2("/static/file"),
    "HTTP/2, socket, static": asked_2("/static/file", WIDE),
}
NEVER: dict[str, Any] = dict.fromkeys(("header_timeout_s", "body_timeout_s", "ws_ping_interval_s"))
OTHERS: dict[str, Any] = {
    "header_timeout_s": 5, "body_timeout_s": 5, "keep_alive_timeout_s": 5, "ws_ping_interval_s": None,
}  # fmt: skip


@pytest.mark.parametrize("is_limited", [True, False])
@pytest.mark.parametrize("way", WAYS)
@virtual
async def test_the_time_to_read_is_an_option_of_its_own(tmp_path: Path, way: str, is_limited: bool) -> None:
    options = {**OTHERS, "send_timeout_s": LIMIT_S if is_limited else None}
    async with serving(App(tmp_path), **options) as site:
        wire = await small_client(site.port)
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await wire.send(WAYS[way])
        while not site.http.connections:
            await asyncio.sleep(0)
        # A connection of HTTP/2 lasts a little longer than its stream.
        while site.http.connections and now_s() < 20 * LIMIT_S:
            await asyncio.sleep(1)
        assert site.http.connections == (0 if is_limited else 1)
        assert now_s() >= LIMIT_S
        wire.reset()
        await wire.close()


@pytest.mark.parametrize("way", FILES)
async def test_a_file_that_nobody_reads(tmp_path: Path, way: str) -> None:
    """In real time: the other clock does not wait for files."""
    file = tmp_path / "file"
    with file.open("wb") as made:
        made.truncate(LONG_BYTES)
    folders = settings([("/static", str(tmp_path))], [])
    async with serving(App(file), **NEVER, static=folders, send_timeout_s=0.3, keep_alive_timeout_s=0.3) as site:
        wire = await small_client(site.port)
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await wire.send(FILES[way])
        while not site.http.connections:
            await asyncio.sleep(0)
        while site.http.connections:
            await asyncio.sleep(0.01)
        wire.reset()
        await wire.close()
