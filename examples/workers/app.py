"""A gevent program with requests and redis, beside a coroutine. See README.md."""

from gevent import monkey

monkey.patch_all()

import asyncio  # noqa: E402
import os  # noqa: E402

import gevent  # noqa: E402
import redis  # noqa: E402
import requests  # noqa: E402
from gevent.pool import Pool  # noqa: E402

from oneloop import green  # noqa: E402

STORE = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"), decode_responses=True)
WORKERS = 20


def work() -> None:
    with requests.Session() as session:
        while (url := STORE.lpop("urls")) is not None:
            try:
                status = str(session.get(str(url), timeout=10).status_code)
            except requests.RequestException as error:
                status = type(error).__name__
            STORE.hincrby("statuses", status, 1)


async def report() -> None:
    """A coroutine: it could as well serve a page, or use any library for asyncio."""
    loop = asyncio.get_running_loop()
    while True:
        # redis-py blocks: it runs in a green thread.
        left = await loop.run_green(STORE.llen, "urls")  # type: ignore[attr-defined]
        print(f"{left} URLs are left", flush=True)
        await asyncio.sleep(1)


def main() -> None:
    reporter = gevent.spawn(green.await_, report())
    pool = Pool(WORKERS)
    for _ in range(WORKERS):
        pool.spawn(work)
    pool.join()
    reporter.kill()
    for status, count in sorted(STORE.hgetall("statuses").items()):
        print(f"{status!s}: {count!s}")


if __name__ == "__main__":
    main()
