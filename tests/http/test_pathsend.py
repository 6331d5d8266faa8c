"""`http.response.pathsend`: a file that an application names is the body of its response."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any

import pytest

from tests import certificates
from tests.conftest import settle
from tests.file.slow_filesystem import SlowFilesystem
from tests.file.test_slow_filesystem import Ticker, check
from tests.http.file_server import App, serving

CONTENT = bytes(range(256)) * 4
LARGE = CONTENT * 4096
HUGE_BYTES = 64 << 20
SIZES = {"empty": b"", "small": CONTENT, "medium": CONTENT * 130, "large": LARGE}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in SIZES.items():
        (tmp_path / name).write_bytes(content)
    # More than the buffers of a connection take.
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(HUGE_BYTES)
    return tmp_path


class Sender:
    """An application that sends the file that the path names, and keeps what `send` raises."""

    def __init__(self, folder: Path, *headers: tuple[bytes, bytes], before: bytes | None = None) -> None:
        self.folder = folder
        self.headers = list(headers)
        self.before = before
        self.errors: list[BaseException] = []
        self.scopes: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": self.headers})
        if self.before is not None:
            await send({"type": "http.response.body", "body": self.before, "more_body": True})
        try:
            await send({"type": "http.response.pathsend", "path": str(self.folder / scope["path"].strip("/"))})
        except BaseException as error:
            self.errors.append(error)
            raise


@pytest.mark.parametrize("name", SIZES)
async def test_a_file_is_sent(folder: Path, name: str, engine: str) -> None:
    app = Sender(folder)
    async with serving(app=app) as served, served.client() as client:
        for _ in range(3):
            response = await client.get(f"/{name}")
            assert response.body == SIZES[name]
            # The server knows the length.
            assert response.headers["content-length"] == str(len(SIZES[name]))
        assert app.scopes[0]["extensions"]["http.response.pathsend"] == {}
        assert served.http.requests == 0


@pytest.mark.parametrize("name", SIZES)
async def test_behind_a_part_of_the_body_it_is_chunked(folder: Path, name: str) -> None:
    async with serving(app=Sender(folder, before=b"first")) as served, served.client() as client:
        for _ in range(2):
            response = await client.get(f"/{name}")
            assert response.headers["transfer-encoding"] == "chunked"
            assert response.body == b"first" + SIZES[name]


async def test_head_sends_nothing(folder: Path) -> None:
    async with serving(app=Sender(folder, (b"content-length", b"1024"))) as served, served.client() as client:
        for _ in range(2):
            response = await client.get("/small", "HEAD")
            assert (response.status, response.headers["content-length"], response.body) == (200, "1024", b"")


async def test_tls(folder: Path) -> None:
    contexts = (certificates.server_context(), certificates.client_context())
    async with serving(app=Sender(folder), contexts=contexts) as served, served.client() as client:
        for name, content in SIZES.items():
            assert (await client.get(f"/{name}")).body == content


async def test_http_10_without_a_length_knows_it(folder: Path) -> None:
    async with serving(app=Sender(folder)) as served, served.client() as client:
        client.send("/large", version="1.0", connection="keep-alive")
        response = await client.answer()
        assert (response.headers["connection"], response.body) == ("keep-alive", LARGE)


@pytest.mark.parametrize(
    ("name", "error"),
    [("none", FileNotFoundError), ("small/none", NotADirectoryError), (".", IsADirectoryError), ("fifo", OSError)],
)
async def test_what_open_would_raise_is_raised(
    folder: Path, name: str, error: type[OSError], caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(folder / "fifo")
    path = folder / name

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        with pytest.raises(error) as raised:
            await send({"type": "http.response.pathsend", "path": str(path)})
        if name != "fifo":
            with pytest.raises(error) as opened:
                path.open("rb")
            assert raised.value.errno == opened.value.errno
        assert raised.value.filename == str(path)
        # Nothing has left: the response can still be another one.
        await send({"type": "http.response.body", "body": b"instead"})

    async with serving(app=app) as served, served.client() as client:
        for _ in range(2):
            assert (await client.get("/")).body == b"instead"


@pytest.mark.parametrize("name", ["small", "large"])
async def test_a_file_that_is_too_short(folder: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """One that is too long is in `test_lengths`."""
    app = Sender(folder, (b"content-length", str(len(SIZES[name]) + 1).encode()))
    async with serving(app=app) as served, served.client() as client:
        response = await client.get(f"/{name}")
        assert response.status == 500
    (error,) = app.errors
    assert isinstance(error, RuntimeError)
    assert "Content-Length" in str(error)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"type": "http.response.pathsend"}, KeyError),
        ({"type": "http.response.pathsend", "path": 5}, TypeError),
        ({"type": "http.response.pathsend", "path": "a\0b"}, ValueError),
    ],
)
async def test_messages_that_are_wrong(message: Any, error: type[Exception]) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        with pytest.raises(RuntimeError, match=r"Expected ASGI message 'http\.response\.start'"):
            await send({"type": "http.response.pathsend", "path": __file__})
        await send({"type": "http.response.start", "status": 200, "headers": []})
        with pytest.raises(error):
            await send(message)
        await send({"type": "http.response.body"})
        with pytest.raises(RuntimeError, match="already completed"):
            await send({"type": "http.response.pathsend", "path": __file__})

    async with serving(app=app) as served:
        assert (await served.get("/")).status == 200


async def test_nothing_else_is_sent_meanwhile(folder: Path) -> None:
    refused: list[Exception] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        sending = asyncio.ensure_future(send_file(send))
        await asyncio.sleep(0)
        for message in ({"type": "http.response.body", "body": b"x"}, {"type": "http.response.pathsend", "path": "x"}):
            try:
                await send(message)
            except RuntimeError as error:
                refused.append(error)
        await sending

    async def send_file(send: Any) -> None:
        await send({"type": "http.response.pathsend", "path": str(folder / "large")})

    async with serving(app=app) as served, served.client(limit=1000) as client:
        client.send("/")
        while not refused:
            await asyncio.sleep(0)
        assert (await client.answer()).body == LARGE
        assert len(refused) == 2


async def test_a_file_that_is_cut_is_an_error_and_no_response(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    app = Sender(folder)
    async with serving(app=app) as served, served.client(limit=1000) as client:
        client.send("/huge")
        await client.head()
        os.truncate(folder / "huge", 1000)
        count = 0
        with contextlib.suppress(ConnectionResetError):
            while piece := await client.reader.read(1 << 20):
                count += len(piece)
        assert count < HUGE_BYTES
        while served.http.requests:
            await asyncio.sleep(0)
    (error,) = app.errors
    assert isinstance(error, OSError)
    assert "truncated" in str(error)


async def test_a_client_that_leaves_is_an_error(folder: Path) -> None:
    app = Sender(folder)
    async with serving(app=app) as served:
        async with served.client(limit=1000) as client:
            client.send("/huge")
            await client.head()
        while not app.errors:
            await asyncio.sleep(0)
        assert isinstance(app.errors[0], ConnectionResetError)


@pytest.mark.parametrize("is_cold", [False, True])
async def test_a_cancelled_application_sends_no_more(
    folder: Path, slow_filesystem: SlowFilesystem, is_cold: bool
) -> None:
    tasks: list[asyncio.Task[None]] = []
    if is_cold:
        folder = slow_filesystem.folder
        (folder / "huge").write_bytes(LARGE)
    sender: App = Sender(folder)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        await sender(scope, receive, send)

    async with serving(app=app) as served, served.client(limit=1000) as client:
        with slow_filesystem.slow(0.05 if is_cold else 0):
            async with Ticker(slow_filesystem):
                client.send("/huge")
                while not tasks:
                    await asyncio.sleep(0)
                await settle()
                tasks[0].cancel()
                with contextlib.suppress(ConnectionResetError):
                    rest = await client.reader.read()
                    assert len(rest) < HUGE_BYTES
                while served.http.requests:
                    await asyncio.sleep(0.001)


async def test_a_slow_disk_holds_nobody(slow_filesystem: SlowFilesystem, engine: str) -> None:
    (slow_filesystem.folder / "data").write_bytes(LARGE[:300_000])
    app = Sender(slow_filesystem.folder)
    async with serving(app=app) as served, served.client() as client:
        with slow_filesystem.slow() as calls:
            async with Ticker(slow_filesystem):
                assert (await client.get("/data")).body == LARGE[:300_000]
        check(calls)


async def test_trailers_follow_a_file(folder: Path) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [], "trailers": True})
        await send({"type": "http.response.pathsend", "path": str(folder / "large")})
        await send({"type": "http.response.trailers", "headers": [(b"checked", b"yes")]})

    async with serving(app=app) as served, served.client() as client:
        for _ in range(2):
            response = await client.get("/")
            assert (response.headers["transfer-encoding"], response.body) == ("chunked", LARGE)
