"""Each program of examples/ does what its README says."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import oneloop
from oneloop.http import AsyncClient, Client
from tests.docs.examples import ROOT
from tests.examples.conftest import Serve

EXAMPLES = ROOT / "examples"
LIMIT_S = 60.0

PAGES = {
    "/": b'<a href="/one">1</a> <a href="two#part">2</a> <a href="mailto:x@y">m</a> <img src="/gone.png">',
    "/one": b'<a href="/">start</a> <a href="/gone.png">gone</a>',
    "/two": b"<p>no links</p>",
}


async def pages(scope: Any, receive: Any, send: Any) -> None:
    """A site whose pages have one link that does not work."""
    body = PAGES.get(scope["path"])
    headers = [(b"content-type", b"text/html")]
    await send({"type": "http.response.start", "status": 200 if body else 404, "headers": headers})
    await send({"type": "http.response.body", "body": body or b""})


@pytest.fixture
def asgi(oneloop_serve: Any) -> Any:
    return oneloop_serve


def test_each_example_has_a_short_readme() -> None:
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for folder in (path for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__"):
        text = (folder / "README.md").read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 16, folder.name
        assert f"]({folder.name}/README.md)" in index
        assert "pip install" in text


@pytest.mark.time_limit(120)
def test_uploads(served: Serve, database: dict[str, Any], tmp_path: Path) -> None:
    address = f"postgresql://{database['user']}@127.0.0.1:{database['port']}/{database['database']}?sslmode=disable"
    url = served("uploads", DATABASE_URL=address, UPLOADS=str(tmp_path / "stored")) + "/files/picture.png"
    with Client() as client:
        assert client.get(url).status_code == 404
        for size in (300_000, 5):
            content = os.urandom(size)
            answer = client.put(url, content=content)
            assert (answer.status_code, answer.json()) == (201, {"name": "picture.png", "size": size})
            deadline = time.monotonic() + LIMIT_S
            while (row := client.get(url).json())["sha256"] is None and time.monotonic() < deadline:
                time.sleep(0.01)
            assert row == {"name": "picture.png", "size": size, "sha256": hashlib.sha256(content).hexdigest()}
            # The file of the first upload is gone.
            assert [path.read_bytes() for path in (tmp_path / "stored").iterdir()] == [content]


def test_chat(served: Serve) -> None:
    pytest.importorskip("starlette", reason="needs the package starlette")
    url = served("chat")

    async def main() -> None:
        async with AsyncClient() as client:
            assert "new WebSocket" in (await client.get(url)).text
            room = url.replace("http", "ws") + "/room"
            async with client.websocket(room) as one, client.websocket(room) as two:
                while await one.receive() != "2 here":
                    pass
                await two.send("hello")
                assert await one.receive() == "hello"
                assert [await two.receive(), await two.receive()] == ["2 here", "hello"]

    oneloop.run(asyncio.wait_for(main(), LIMIT_S))


@pytest.mark.time_limit(120)
def test_workers(asgi: Any, redis_port: int, tmp_path: Path) -> None:
    redis = pytest.importorskip("redis", reason="needs the package redis")
    pytest.importorskip("requests", reason="needs the package requests")
    site = asgi(pages)
    with redis.Redis(port=redis_port) as store:
        store.flushall()
        store.rpush("urls", *[f"{site}/one", f"{site}/missing"] * 30, "http://127.0.0.1:1/")
    command = [sys.executable, "-m", "oneloop", "run", "--replace", "gevent", str(EXAMPLES / "workers/app.py")]
    environment = {**os.environ, "REDIS_URL": f"redis://127.0.0.1:{redis_port}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    first, *rest = done.stdout.splitlines()
    assert first.endswith(" URLs are left")
    assert rest[-3:] == ["200: 30", "404: 30", "ConnectionError: 1"]


def test_gateway(served: Serve, asgi: Any) -> None:
    pytest.importorskip("starlette", reason="needs the package starlette")
    asked: list[str] = []

    async def prices(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        # It fails once for each product.
        status = 200 if asked.count(scope["path"]) > 1 else 503
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b'{"euro": 5}'})

    url = served("gateway", PRICES=asgi(prices), STOCK="http://127.0.0.1:1", PATIENCE_S="100") + "/products/7"
    with Client(timeout=LIMIT_S) as client:
        answer = client.get(url)
    assert (answer.status_code, answer.json()) == (200, {"number": 7, "price": {"euro": 5}, "stock": None})
    assert asked == ["/7", "/7"]


def test_logs(served: Serve, tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="needs the package starlette")
    log = tmp_path / "app.log"
    log.write_text("old\n")
    url = served("logs", LOG=str(log))

    async def main() -> None:
        async with AsyncClient(timeout=LIMIT_S) as client, client.stream("GET", url) as response:
            lines = response.aiter_lines()
            assert await anext(lines) == ": connected"
            # The file is opened right behind this: written again until the first line arrives.
            reading = asyncio.ensure_future(next_event(lines))
            while not reading.done():
                with log.open("a") as file:
                    file.write("new\n")
                await asyncio.wait([reading], timeout=0.05)
            assert await reading == "new"
            log.rename(tmp_path / "app.log.1")
            log.write_text("after the rotation\n")
            while (event := await next_event(lines)) == "new":
                pass
            assert event == "after the rotation"

    async def next_event(lines: Any) -> str:
        async for line in lines:
            if line.startswith("data: "):
                return str(line.removeprefix("data: "))
        raise AssertionError("the stream has ended")

    oneloop.run(asyncio.wait_for(main(), LIMIT_S))


@pytest.mark.time_limit(120)
@pytest.mark.parametrize("where", ["here", "dask"])
def test_crawler(asgi: Any, where: str) -> None:
    pytest.importorskip("pycares", reason="needs the package pycares")
    if where == "dask":
        pytest.importorskip("distributed", reason="needs the package dask[distributed]")
    site = asgi(pages)
    command = [sys.executable, str(EXAMPLES / "crawler/app.py"), f"{site}/"]
    command += ["--dask", "local:1"] if where == "dask" else []
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stdout == f"404: {site}/gone.png\n    on {site}/, {site}/one\n1 of 4 links do not work\n"
