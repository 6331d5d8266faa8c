"""How long each part of a request took, and how long it may take: what the opener measures."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pycares")

from oneloop.check import Options, Result, check, openings
from oneloop.check.resolver import Addresses, Resolver
from tests.check.site import serving


async def check_all(urls: list[str], **options: Any) -> list[Result]:
    found = [result async for result in check(urls, **options)]
    return sorted(found, key=lambda result: result.number)


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """That of a server whom clients trust."""
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(made)
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    return made


async def test_a_connection_that_is_kept(loop: asyncio.AbstractEventLoop) -> None:
    async with serving() as site:
        first, second = await check_all([f"http://127.0.0.1:{site.port}/{n}" for n in range(2)], per_host=1)
    assert first.connect_s is not None
    assert first.first_byte_s is not None
    assert 0 < first.connect_s < first.total_s
    assert 0 < first.first_byte_s < first.total_s
    assert (first.dns_s, first.tls_s, first.certificate_end) == (None, None, None)
    assert (second.connect_s, second.tls_s) == (None, None)
    assert second.first_byte_s is not None
    assert first.body_bytes == second.body_bytes == 3


@pytest.mark.allows_open_fds("c-ares closes its own a moment later")
async def test_a_name_and_tls(loop: asyncio.AbstractEventLoop, context: ssl.SSLContext) -> None:
    async with serving(context=context) as site:
        first, second = await check_all([f"https://localhost:{site.port}/{n}" for n in range(2)], per_host=1)
    for part_s in (first.dns_s, first.connect_s, first.tls_s, first.first_byte_s):
        assert part_s is not None
        assert 0 < part_s < first.total_s
    assert first.status == 200
    assert second.tls_s is None
    # trustme's own date; known for the connection, whoever has made it.
    assert first.certificate_end == second.certificate_end == "3000-01-01T00:00:00Z"


async def test_the_time_of_tls_begins_with_the_connection(
    loop: asyncio.AbstractEventLoop, context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here each look at the clock takes an hour. The handshake's end is noted by the connection, with its own clock."""

    class Clock:
        # Whole seconds: their sums and differences are exact, however long the machine has run.
        now_s = float(round(time.monotonic()))

        def monotonic(self) -> float:
            self.now_s += 3600.0
            return self.now_s

    monkeypatch.setattr(openings, "time", Clock())
    async with serving(context=context) as site:
        (found,) = await check_all([f"https://127.0.0.1:{site.port}/"])
    assert found.connect_s == 3600
    # It began at the third look.
    assert found.tls_s is not None
    assert round(found.tls_s / 3600) == -3


async def test_wrong_certificates(loop: asyncio.AbstractEventLoop, context: ssl.SSLContext) -> None:
    async with serving(context=context) as site:
        url = f"https://127.0.0.2:{site.port}/"
        (refused,) = await check_all([url])
        (accepted,) = await check_all([url], insecure=True)
    assert refused.error == "tls"
    assert refused.attempts == 1
    assert "certificate is not valid for '127.0.0.2'" in refused.error_text
    assert (accepted.outcome, accepted.certificate_end) == ("200", None)


async def test_a_handshake_and_an_answer_that_never_come(loop: asyncio.AbstractEventLoop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = f"127.0.0.1:{listener.getsockname()[1]}/"
        phase_limits = [
            ("https://", "tls_timeout_s", "the TLS handshake"),
            ("http://", "first_byte_timeout_s", "waiting for the response"),
            ("http://", "timeout_s", "waiting for the response"),
        ]
        for scheme, name, said in phase_limits:
            (found,) = await check_all([scheme + place], retries=0, **{name: 0.05})
            assert (found.error, found.error_text) == ("timeout", f"timeout while {said}")
            assert found.total_s >= 0.05


async def test_a_limit_ends_with_its_phase(loop: asyncio.AbstractEventLoop) -> None:
    """A slow body is no matter of the head's limit."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\na")
        await asyncio.sleep(1.2)
        writer.write(b"b")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        (found,) = await check_all(
            [f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"], first_byte_timeout_s=1.0, retries=0
        )
    assert (found.outcome, found.body_bytes) == ("200", 2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"concurrency": 0}, "concurrency must be at least 1"),
        ({"retries": -1}, "retries must be at least 0"),
        ({"rate": 0}, "rate must be greater than 0"),
        ({"timeout_s": float("nan")}, "timeout_s must be greater than 0"),
        ({"method": "PUT"}, "method must be GET or HEAD: 'PUT'"),
        ({"family": 5}, "family must be None or 4 or 6: 5"),
        ({"headers": (("a b", "c"),)}, "not a valid name of a header field"),
        ({"headers": (("a", "b\r\nc: d"),)}, "contains a line break or NUL"),
        ({"user_agent": "a\n"}, "contains a line break or NUL"),
        ({"proxy": "socks5://a"}, "URL of an HTTP proxy"),
        ({"proxy": "http://a", "block_private": True}, "leave out one of the two"),
        ({"dns_servers": ("name",)}, "a name server must be an address"),
        ({"dns_servers": ("127.0.0.1:0",)}, "the port of a name server must be"),
        ({"dns_servers": ("127.0.0.1:http",)}, "the port of a name server must be"),
    ],
)
def test_options_are_checked(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Options(**options)


async def test_an_address_of_the_other_family(loop: asyncio.AbstractEventLoop) -> None:
    found = await check_all(["http://127.0.0.1:1/", "http://[::1]:1/"], family=6, retries=0)
    assert [(result.error, "is not an IPv6 address" in result.error_text) for result in found] == [
        ("dns", True),
        ("connect", False),
    ]


async def test_a_string_is_no_list(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(TypeError, match="not a string"):
        await check_all("http://127.0.0.1/")  # type: ignore[arg-type]


@pytest.mark.parametrize("server", ["127.0.0.1", "127.0.0.1:53", "::1", "[::1]:53"])
def test_name_servers(server: str) -> None:
    assert Options(dns_servers=(server,)).dns_servers == (server,)


async def test_a_blocked_address_is_no_matter_where_another_is_connected_to(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(self: Resolver, host: str) -> Addresses:
        return tuple((socket.AddressFamily.AF_INET, address) for address in ("10.0.0.1", "127.0.0.1"))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"no HTTP\r\n\r\n")
        writer.close()

    monkeypatch.setattr(Resolver, "_ask", ask)
    monkeypatch.setattr(openings, "is_public", lambda address: str(address) == "127.0.0.1")
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"http://mixed.test:{server.sockets[0].getsockname()[1]}/"
        (found,) = await check_all([url], block_private=True, retries=0)
    assert found.outcome == "protocol"


def test_another_loop_is_refused() -> None:
    with pytest.raises(RuntimeError, match="needs oneloop's loop"):
        asyncio.run(check_all(["http://127.0.0.1:1/"]))


async def test_plain_words_and_one_notation(loop: asyncio.AbstractEventLoop) -> None:
    refused, hexadecimal = await check_all(["http://127.0.0.1:1/", "http://0x7f.1:1/"], retries=0)
    assert (refused.error, refused.error_text) == ("connect", "connection refused")
    assert (hexadecimal.error, hexadecimal.error_text) == ("invalid_url", "0x7f.1 is an unusual notation of 127.0.0.1")
