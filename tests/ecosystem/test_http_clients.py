"""Clients that others have written, against `oneloop serve` with the Starlette site."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import httpx
import pytest
import requests
import websockets.sync.client

from tests.ecosystem.conftest import accepts, running
from tests.harness.control import IS_CONTROL, server_command
from tests.ports import free_port
from tests.programs import ROOT

CLIENTS = Path(__file__).parent / "clients"
STREAM = "data: 0\n\ndata: 1\n\ndata: 2\n\n"

pytestmark = pytest.mark.controlled


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("starlette")
    pytest.importorskip("multipart")
    port = free_port()
    app = "tests.ecosystem.frameworks.starlette_site:app"
    command = server_command(app, port, "--no-access-log")
    log = tmp_path_factory.mktemp("serve") / "log"
    with running(command, log, lambda: accepts(("127.0.0.1", port)), cwd=ROOT):
        yield f"http://127.0.0.1:{port}"


def output(*command: str, limit_s: float = 100) -> str:
    # Go's cache is that of scripts/go-site.sh: the home folder may be read-only, and it has the standard library.
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=limit_s,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "GOCACHE": str(ROOT / "bench/native/target/go-cache"), "CGO_ENABLED": "0"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_requests(base: str) -> None:
    with requests.Session() as session:
        for _ in range(20):
            assert session.get(base + "/text").text == "hello"
            assert session.post(base + "/echo", data=iter([b"a", b"bc"])).content == b"abc"
            assert session.get(base + "/stream").text == STREAM
            assert session.get(base + "/empty").status_code == 204
            assert session.head(base + "/text").headers["content-length"] == "5"
            assert session.get(base + "/redirect").text == "hello"
        files = {"file": ("f.bin", bytes(500_000))}
        assert session.post(base + "/upload", files=files, data={"name": "value"}).text == "f.bin 500000 value"
        assert len(session.get(base + "/static/file.txt").content) == 7000
        assert session.get(base + "/fails").status_code == 500
        if not IS_CONTROL:
            # uvicorn closes the connection without having said so, and the next request runs into the end.
            assert session.get(base + "/text").text == "hello"


def test_httpx(base: str) -> None:
    with httpx.Client() as client:
        for _ in range(20):
            assert client.get(base + "/text").text == "hello"
            assert client.post(base + "/echo", content=iter([b"a", b"bc"])).content == b"abc"
            with client.stream("GET", base + "/stream") as stream:
                assert stream.read().decode() == STREAM
            assert client.head(base + "/text").status_code == 200
        files = {"file": ("f.bin", bytes(500_000))}
        assert client.post(base + "/upload", files=files, data={"name": "value"}).text == "f.bin 500000 value"


def test_aiohttp(base: str) -> None:
    async def ask() -> None:
        async with aiohttp.ClientSession() as session:

            async def text(number: int) -> None:
                async with session.post(base + "/echo", data=b"%d" % number, expect100=number % 2 == 0) as answer:
                    assert await answer.read() == b"%d" % number

            await asyncio.gather(*(text(number) for number in range(200)))
            async with session.ws_connect(base + "/socket", compress=15) as socket:
                for size in (1, 1000, 100_000):
                    await socket.send_str("a" * size)
                    assert (await socket.receive_str()) == "a" * size
                await socket.close(code=1000)
                assert socket.close_code == 1000

    asyncio.run(ask())


def test_websockets(base: str) -> None:
    with websockets.sync.client.connect(base.replace("http", "ws") + "/socket") as socket:
        for size in (1, 1000, 100_000):
            socket.send("a" * size)
            assert socket.recv() == "a" * size


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl(base: str, tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes(b"0123456789" * 200_000)
    quiet = ["curl", "-sS", "--fail-with-body"]
    assert output(*quiet, base + "/text", base + "/text") == "hellohello"
    # More than a mebibyte: curl waits for 100 Continue.
    assert output(*quiet, "--data-binary", f"@{body}", base + "/echo") == body.read_text()
    chunked = ["-H", "Transfer-Encoding: chunked", "-H", "Expect: 100-continue", "--expect100-timeout", "20"]
    assert output(*quiet, *chunked, "--data-binary", f"@{body}", base + "/echo") == body.read_text()
    assert output(*quiet, "-F", "name=value", "-F", f"file=@{body};filename=f", base + "/upload") == "f 2000000 value"
    assert output(*quiet, "--http1.0", base + "/stream") == STREAM
    assert output(*quiet, "--http2", base + "/text") == "hello"
    assert output(*quiet, "--compressed", base + "/json").endswith("399]}")
    assert output(*quiet, "-r", "7-12", base + "/static/file.txt") == "static"
    assert "200 OK" in output(*quiet, "-I", base + "/text")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
def test_node(base: str) -> None:
    assert output("node", str(CLIENTS / "get.mjs"), base) == "right\n"


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
@pytest.mark.time_limit(420)
def test_go(base: str) -> None:
    # A user's first `go run` compiles Go's standard library.
    assert output("go", "run", str(CLIENTS / "get.go"), base, limit_s=400) == "right\n"
