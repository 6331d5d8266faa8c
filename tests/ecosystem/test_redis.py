"""redis-py's asyncio client on a redis-server of our own."""

from __future__ import annotations

import asyncio
import os

import redis.asyncio


async def test_commands(loop: asyncio.AbstractEventLoop, redis_port: int) -> None:
    async with redis.asyncio.Redis(port=redis_port) as client:
        assert await client.ping()
        await client.flushall()
        for size in (0, 1, 100_000, 3_000_000):
            value = os.urandom(size)
            await client.set("key", value)
            assert await client.get("key") == value
        pipeline = client.pipeline()
        for number in range(2000):
            pipeline.rpush("list", number)
        await pipeline.execute()
        assert await client.llen("list") == 2000


async def test_many_connections(loop: asyncio.AbstractEventLoop, redis_port: int) -> None:
    async with redis.asyncio.Redis(port=redis_port, max_connections=100) as client:
        await client.delete("counter")
        pool = asyncio.Semaphore(90)

        async def one() -> None:
            async with pool:
                await client.incr("counter")

        await asyncio.gather(*(one() for _ in range(1000)))
        assert await client.get("counter") == b"1000"


async def assert_hears(client: redis.asyncio.Redis) -> None:
    """What is published on a channel comes to who has subscribed."""
    async with client.pubsub() as subscription:
        await subscription.subscribe("channel")
        while (await subscription.get_message(timeout=60))["type"] != "subscribe":
            pass
        await client.publish("channel", b"hello")
        message = None
        while message is None:
            message = await subscription.get_message(timeout=60)
        assert message["data"] == b"hello"


async def test_subscriptions_and_blocking_pops(loop: asyncio.AbstractEventLoop, redis_port: int) -> None:
    async with redis.asyncio.Redis(port=redis_port) as client:
        await assert_hears(client)
        waiting = asyncio.ensure_future(client.blpop(["queue"], timeout=60))
        await asyncio.sleep(0.01)
        await client.rpush("queue", b"item")
        assert list(await waiting or ()) == [b"queue", b"item"]
