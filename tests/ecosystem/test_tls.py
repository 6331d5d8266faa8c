"""Real programs over TLS, with the certificate checked: HTTP, PostgreSQL, Redis, and mail with STARTTLS."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import socket
import ssl
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import aiohttp
import aiosmtplib
import asyncpg
import httpx
import pytest
import redis.asyncio
from aiosmtpd.handlers import Message
from aiosmtpd.smtp import SMTP
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from test.test_asyncio import utils as cpython

from tests.certificates import HOST, server_context, verifying_context
from tests.ecosystem.test_aiohttp import serving
from tests.ecosystem.test_redis import assert_hears

SIZES = (0, 1, 65_536, 3_000_000)


def by_name(url: str) -> str:
    """The certificate is made out to a name, not to an address."""
    return url.replace("127.0.0.1", HOST)


async def let_go() -> None:
    """Clients of HTTP close their connections without waiting for the end."""
    for _ in range(10):
        await asyncio.sleep(0.005)


async def test_aiohttp(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    """Many requests at once on kept connections, then web sockets; a client that trusts nobody is refused."""
    content = os.urandom(2_000_000)
    (tmp_path / "file").write_bytes(content)
    async with serving(tmp_path, server_context()) as address:
        url = by_name(address)
        connector = aiohttp.TCPConnector(limit=20, family=socket.AF_INET, ssl=verifying_context())
        async with aiohttp.ClientSession(connector=connector) as client:

            async def one(number: int) -> str:
                async with client.get(f"{url}/hello/{number}") as response:
                    return await response.text()

            assert await asyncio.gather(*map(one, range(200))) == [f"hello {number}" for number in range(200)]
            for size in SIZES:
                body = os.urandom(size)
                async with client.post(f"{url}/digest", data=io.BytesIO(body)) as response:
                    assert await response.json() == {"size": size, "sha256": hashlib.sha256(body).hexdigest()}
            async with client.get(f"{url}/files/file") as response:
                assert await response.read() == content
            async with client.ws_connect(f"{url.replace('https', 'wss')}/ws") as websocket:
                for size in (1, 1000, 200_000):
                    await websocket.send_bytes(content[:size])
                    assert await websocket.receive_bytes() == content[:size][::-1]
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(family=socket.AF_INET)) as distrusting:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await distrusting.get(f"{url}/hello/x")
        await let_go()


async def test_httpx(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    async with serving(tmp_path, server_context()) as address:
        url = by_name(address)
        async with httpx.AsyncClient(verify=verifying_context()) as client:
            answers = await asyncio.gather(*(client.get(f"{url}/hello/{number}") for number in range(50)))
            assert [answer.text for answer in answers] == [f"hello {number}" for number in range(50)]
            for size in SIZES:
                body = os.urandom(size)
                answer = await client.post(f"{url}/digest", content=body)
                assert answer.json() == {"size": size, "sha256": hashlib.sha256(body).hexdigest()}
            async with client.stream("GET", f"{url}/stream") as response:
                received = [chunk async for chunk in response.aiter_bytes()]
                assert b"".join(received) == b"".join(b"%06d" % number * 500 for number in range(200))
        async with httpx.AsyncClient() as distrusting:
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await distrusting.get(f"{url}/hello/x")
        await let_go()


async def test_asyncpg(loop: asyncio.AbstractEventLoop, postgres: dict[str, Any]) -> None:
    """It asks in plain text, and upgrades the connection then."""
    arguments = {**postgres, "host": HOST, "ssl": verifying_context()}
    connection = await asyncpg.connect(**arguments)
    assert await connection.fetchval("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    rows = await connection.fetch("SELECT n, md5(n::text) AS hash FROM generate_series(1, 50000) AS n")
    assert [row["n"] for row in rows] == list(range(1, 50_001))
    for size in SIZES:
        blob = os.urandom(size)
        assert await connection.fetchval("SELECT $1::bytea", blob) == blob
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await connection.fetchval("SELECT pg_sleep(100)", timeout=0.3)
        assert await connection.fetchval("SELECT 1") == 1
    await connection.close()
    async with asyncpg.create_pool(min_size=2, max_size=5, **arguments) as pool:

        async def one(number: int) -> int:
            async with pool.acquire() as connection:
                return int(await connection.fetchval("SELECT $1::int", number))

        assert await asyncio.gather(*map(one, range(200))) == list(range(200))
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncpg.connect(**{**arguments, "ssl": ssl.create_default_context()})
    await let_go()


async def test_redis(loop: asyncio.AbstractEventLoop, redis_tls_port: int) -> None:
    arguments: dict[str, Any] = {"host": HOST, "port": redis_tls_port, "ssl": True, "ssl_check_hostname": True}
    # After a timeout the client sends a command again: on a busy machine `incr` would count twice.
    arguments["socket_timeout"] = 60
    async with redis.asyncio.Redis(**arguments, ssl_ca_certs=cpython.ONLYCERT) as client:
        await client.flushall()
        for size in SIZES:
            value = os.urandom(size)
            await client.set("key", value)
            assert await client.get("key") == value
        pipeline = client.pipeline()
        for number in range(2000):
            pipeline.rpush("list", number)
        await pipeline.execute()
        assert await client.llen("list") == 2000
        await assert_hears(client)
        await asyncio.gather(*(client.incr("counter") for _ in range(50)))
        assert await client.get("counter") == b"50"
    async with redis.asyncio.Redis(**arguments, retry=Retry(NoBackoff(), 0)) as distrusting:
        with pytest.raises(redis.exceptions.ConnectionError, match="certificate verify failed"):
            await distrusting.ping()
    await let_go()


class Mailbox(Message):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Any] = []

    def handle_message(self, message: Any) -> None:
        self.messages.append(message)


@pytest.mark.parametrize("from_the_start", [False, True], ids=["STARTTLS", "TLS"])
async def test_mail(loop: asyncio.AbstractEventLoop, from_the_start: bool) -> None:
    """Aiosmtpd upgrades its connections by `asyncio.sslproto`, of its own accord; aiosmtplib by `loop.start_tls`."""
    mailbox = Mailbox()
    upgraded: dict[str, Any] = {} if from_the_start else {"tls_context": server_context(), "require_starttls": True}
    server = await loop.create_server(
        lambda: SMTP(mailbox, loop=loop, hostname=HOST, **upgraded),
        "127.0.0.1",
        0,
        ssl=server_context() if from_the_start else None,
    )
    port = server.sockets[0].getsockname()[1]
    options: dict[str, Any] = {"use_tls": True} if from_the_start else {"start_tls": True}
    for number in range(3):
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = "a@example.org", "b@example.org", f"letter {number}"
        message.set_content("line of text\n" * 10_000 * number + "the end")
        client = aiosmtplib.SMTP(hostname=HOST, port=port, tls_context=verifying_context(), **options)
        async with client:
            assert client.get_transport_info("cipher")
            errors, answer = await client.send_message(message)
            assert not errors
            assert "OK" in answer
    assert [message["Subject"] for message in mailbox.messages] == ["letter 0", "letter 1", "letter 2"]
    bodies = [message.get_payload() for message in mailbox.messages]
    assert [body.count("line of text") for body in bodies] == [0, 10_000, 20_000]
    with pytest.raises((ssl.SSLError, aiosmtplib.SMTPException)):
        await aiosmtplib.SMTP(hostname=HOST, port=port, **options).connect()
    await let_go()
    server.close()
    await server.wait_closed()
    await let_go()
