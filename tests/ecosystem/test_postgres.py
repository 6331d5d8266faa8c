"""asyncpg on a PostgreSQL cluster of our own: queries, pools, copies, notifications, cancellation."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import asyncpg
import pytest


async def test_queries(loop: asyncio.AbstractEventLoop, postgres: dict[str, Any]) -> None:
    connection = await asyncpg.connect(**postgres)
    try:
        assert await connection.fetchval("SELECT 6 * 7") == 42
        rows = await connection.fetch("SELECT n, md5(n::text) AS hash FROM generate_series(1, 50000) AS n")
        assert [row["n"] for row in rows] == list(range(1, 50001))
        blob = os.urandom(3_000_000)
        assert await connection.fetchval("SELECT $1::bytea", blob) == blob
        with pytest.raises(asyncpg.DivisionByZeroError):
            await connection.fetchval("SELECT 1 / 0")
        async with connection.transaction():
            await connection.execute("CREATE TEMPORARY TABLE items (id int, name text)")
            await connection.executemany(
                "INSERT INTO items VALUES ($1, $2)", [(number, f"item {number}") for number in range(2000)]
            )
        assert await connection.fetchval("SELECT count(*) FROM items") == 2000
    finally:
        await connection.close()


async def test_copy(loop: asyncio.AbstractEventLoop, postgres: dict[str, Any]) -> None:
    connection = await asyncpg.connect(**postgres)
    try:
        await connection.execute("CREATE TEMPORARY TABLE copied (id int, name text)")
        records = [(number, f"name {number}") for number in range(20_000)]
        await connection.copy_records_to_table("copied", records=records)
        lines: list[bytes] = []

        async def collect(data: bytes) -> None:
            lines.append(data)

        await connection.copy_from_table("copied", output=collect, format="csv")
        assert b"".join(lines).count(b"\n") == 20_000
    finally:
        await connection.close()


async def test_pool(loop: asyncio.AbstractEventLoop, postgres: dict[str, Any]) -> None:
    async with asyncpg.create_pool(min_size=2, max_size=8, **postgres) as pool:

        async def one(number: int) -> int:
            async with pool.acquire() as connection:
                return int(await connection.fetchval("SELECT $1::int + pg_backend_pid() * 0", number))

        assert await asyncio.gather(*map(one, range(300))) == list(range(300))


async def test_notifications(loop: asyncio.AbstractEventLoop, postgres: dict[str, Any]) -> None:
    listener, sender = await asyncpg.connect(**postgres), await asyncpg.connect(**postgres)
    received: asyncio.Queue[str] = asyncio.Queue()
    await listener.add_listener("channel", lambda *arguments: received.put_nowait(arguments[3]))
    await sender.execute("NOTIFY channel, 'hello'")
    assert await received.get() == "hello"
    await listener.close()
    await sender.close()


async def test_cancelled_queries(loop: asyncio.AbstractEventLoop, postgres: dict[str, Any]) -> None:
    connection = await asyncpg.connect(**postgres)
    try:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await connection.fetchval("SELECT pg_sleep(100)", timeout=0.3)
            assert await connection.fetchval("SELECT 1") == 1
    finally:
        await connection.close()


async def test_unix_socket(loop: asyncio.AbstractEventLoop, postgres: dict[str, Any], postgres_directory: Path) -> None:
    connection = await asyncpg.connect(**{**postgres, "host": str(postgres_directory)})
    assert await connection.fetchval("SELECT inet_client_addr() IS NULL")
    await connection.close()
