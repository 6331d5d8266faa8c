"""Messages of the loop itself: like the server's, with their level, unless the application has handlers for them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.http.service import Service, read_all

pytestmark = pytest.mark.time_limit(180)

SOURCE = """
    import logging, os

    if os.environ.get("HANDLER"):
        logging.getLogger(os.environ["HANDLER"]).addHandler(logging.StreamHandler())

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            raise RuntimeError
        logging.getLogger("asyncio").warning("a message of the %s", "loop")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})
"""


@pytest.mark.parametrize(
    ("options", "handler", "lines"),
    [
        ((), "", ["WARNING:  a message of the loop"]),
        (("--workers", "2"), "", ["WARNING:  a message of the loop"]),
        (("--log-level", "error"), "", []),
        (("--log-level", "critical"), "", []),
        ((), "root", ["a message of the loop"]),
        ((), "asyncio", ["a message of the loop"]),
    ],
)
def test_messages_of_the_loop(tmp_path: Path, options: tuple[str, ...], handler: str, lines: list[str]) -> None:
    with Service(
        # At these levels, the log does not say that the service is ready.
        tmp_path,
        *options,
        "--uds",
        "s",
        source=SOURCE,
        port=None,
        env={"HANDLER": handler},
        is_ready="--log-level" not in options,
    ) as service:
        with socket.socket(socket.AF_UNIX) as client:
            while client.connect_ex(str(tmp_path / "s")):
                service.log.read_more(0.05)
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert read_all(client).startswith(b"HTTP/1.1 200 OK")
        assert service.end() == 0
    assert [line for line in service.log.text.splitlines() if "of the loop" in line] == lines
