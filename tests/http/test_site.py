"""What the server answers before the application: `--health` and `--redirect-https`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oneloop.http.proxies import Trust
from tests.http.file_server import serving
from tests.http.service import Service


async def test_health_until_the_end() -> None:
    async with serving(health="/health") as served, served.client() as client:
        response = await client.get("/health?x=y")
        assert (response.status, response.headers["cache-control"], response.body) == (200, "no-store", b"")
        assert (await client.get("/health", "HEAD")).status == 200
        assert (await client.get("/health", "POST")).status == 405
        assert (await client.get("/healthy")).body == b"app"
        served.http.shut_down()
        response = await client.get("/health")
        assert (response.status, response.headers["connection"]) == (503, "close")


@pytest.mark.parametrize("root", ["", "/api"])
@pytest.mark.parametrize("app", ["app", "wsgi"])
def test_health_is_not_in_the_access_log(tmp_path: Path, app: str, root: str) -> None:
    """Under a root path as well, where the server answers at the paths that clients see."""
    arguments = ("--root-path", root, "--health", f"{root}/health", "--metrics", f"{root}/metrics")
    with Service(tmp_path, *arguments, app=f"apps:{app}") as service:
        assert service.ask("GET", "/health")[0] == 200
        assert "# TYPE oneloop_http_requests_total" in service.get("/metrics")
        service.get("/other")
        assert service.end() == 0
    assert "/other" in service.out.text
    assert "/health" not in service.out.text


@pytest.mark.parametrize("interface", ["asgi", "wsgi"])
@pytest.mark.parametrize(
    ("target", "host", "port", "location"),
    [
        ("/a%20b?c=d", "example.org", 443, "https://example.org/a%20b?c=d"),
        ("/", "example.org:8000", 8443, "https://example.org:8443/"),
        ("/", "[::1]:80", 443, "https://[::1]/"),
        ("/static/file", "example.org", 443, "https://example.org/static/file"),
    ],
)
async def test_plain_requests_are_redirected(
    tmp_path: Path, interface: str, target: str, host: str, port: int, location: str
) -> None:
    def app(*_: Any) -> None:
        raise AssertionError

    (tmp_path / "file").write_bytes(b"x")
    options: dict[str, Any] = {"redirect_https": port, "interface": interface, "health": "/health"}
    async with serving(("/static", tmp_path), app=app, **options) as served, served.client() as client:
        client.writer.write(f"POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1\r\n\r\nx".encode())
        response = await client.answer()
        assert (response.status, response.headers["location"]) == (308, location)
        assert (await client.get("/health")).status == 200


async def test_requests_that_came_by_tls_are_served(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    trust = Trust("127.0.0.1")
    async with serving(("/static", tmp_path), redirect_https=443, trust=trust) as served, served.client() as client:
        assert (await client.get("/", x_forwarded_proto="https")).body == b"app"
        assert (await client.get("/static/file", x_forwarded_proto="https")).body == b"x"
        assert (await client.get("/static/file", x_forwarded_proto="http")).status == 308


async def test_websockets_without_tls_are_refused() -> None:
    async with serving(redirect_https=443) as served, served.client() as client:
        key = {"Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec_WebSocket_Version": "13"}
        client.send("/", "GET", b"", connection="Upgrade", upgrade="websocket", **key)
        assert (await client.answer()).status == 403
