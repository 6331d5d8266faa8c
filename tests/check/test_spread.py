"""Several processes, and Dask's workers: each URL is counted once, whoever dies, and limits of hosts hold."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pycares")
psutil: Any = pytest.importorskip("psutil")

from oneloop.check import Options, Target  # noqa: E402
from oneloop.check.spread import Processes, WorkerLostError, check_spread  # noqa: E402
from tests.check.site import Site, serving  # noqa: E402

pytestmark = pytest.mark.time_limit(120)


# multiprocessing's own process for what others leave behind: it stays.
resource_tracker.ensure_running()


async def urls(site: Site, count: int, hosts: int = 20) -> AsyncIterator[Target]:
    for number in range(1, count + 1):
        yield Target(number, f"http://127.0.0.{1 + number % hosts}:{site.port}/{number}")


def worker_ids(parent: int | None = None) -> list[int]:
    """Processes of multiprocessing, the youngest last."""
    children = psutil.Process(parent).children(recursive=True)
    return [child.pid for child in children if "--multiprocessing-fork" in child.cmdline()]


async def test_all_are_checked_once() -> None:
    async with serving(delay_s=0.001) as site, Processes(2) as workers:
        found = [result async for result in check_spread(urls(site, 1000), Options(per_host=2), workers)]
        assert Counter(result.outcome for result in found) == {"200": 1000}
        assert sorted(result.number for result in found) == list(range(1, 1001))
        assert max(site.most.values()) <= 2
        assert set(site.asked.values()) == {1}


async def test_a_process_is_lost() -> None:
    async with serving(delay_s=0.002) as site, Processes(2) as workers:
        count: Counter[str] = Counter()
        numbers = set()
        async with aclosing(check_spread(urls(site, 2000), Options(concurrency=40), workers)) as found:
            async for result in found:
                count[result.outcome] += 1
                numbers.add(result.number)
                if sum(count.values()) == 300:
                    os.kill(worker_ids()[-1], signal.SIGKILL)
        assert count == {"200": 2000}
        assert len(numbers) == 2000


@pytest.mark.parametrize("kill_at", [0, 300], ids=["all live", "one is killed"])
def test_dask(kill_at: int) -> None:
    pytest.importorskip("distributed")
    program = [sys.executable, "-m", "tests.check.spread_program", "2000", str(kill_at)]
    done = subprocess.run(program, check=False, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["counts"] == {"200": 2000}
    assert found["numbers"] == 2000
    # What a dead worker had sent may still be under way when another one takes over.
    assert found["most"] <= (4 if kill_at else 2)


async def test_processes_that_die_again_and_again() -> None:
    class Dying(Processes):
        @staticmethod
        def _pool() -> object:  # type: ignore[override]
            pool = Processes._pool()
            pool.submit(os._exit, 3)
            return pool

    async with serving() as site, Dying(1) as workers:
        with pytest.raises(
            WorkerLostError, match=r"3 processes died .* 5 URLs, the first of which is 'http://127.0.0.2:"
        ):
            async for _ in check_spread(urls(site, 5), Options(), workers):
                pytest.fail("there is no result")


async def test_leaving_it_ends_the_work() -> None:
    async with serving(delay_s=0.01) as site, Processes(2) as workers:
        async with aclosing(check_spread(urls(site, 100_000), Options(concurrency=4), workers)) as found:
            async for _ in found:
                break
        assert sum(site.asked.values()) < 10_000


async def test_results_come_while_work_goes_on() -> None:
    """A worker tells what it has every second, so that little is lost by a kill; what it has begun with it ends."""
    async with serving(delay_s=0.01) as site, Processes(1) as workers:
        options = Options(per_host=1, concurrency=50)
        async with aclosing(check_spread(urls(site, 1000, hosts=1), options, workers)) as found:
            numbers = [(await anext(found)).number]
            assert sum(site.asked.values()) < 1000
            numbers += [result.number async for result in found]
        assert sorted(numbers) == list(range(1, 1001))
        assert set(site.asked.values()) == {1}


async def test_workers_end_with_their_parent() -> None:
    """Killed, it cannot tell them."""
    program = """
    import asyncio, sys
    from oneloop.check import Options, Target
    from oneloop.check.spread import Processes, check_spread

    async def main():
        async def urls():
            for number in range(10_000):
                yield Target(number, f"http://127.0.0.1:{sys.argv[1]}/{number}")
        async with Processes(2) as workers:
            async for _ in check_spread(urls(), Options(timeout_s=None), workers):
                pass

    if __name__ == "__main__":
        asyncio.run(main())
    """
    async with serving() as site:
        site.gate_after(20)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "program.py")
            path.write_text(textwrap.dedent(program))
            process = await asyncio.create_subprocess_exec(sys.executable, path, str(site.port))
            await site.gated.wait()
            workers = [psutil.Process(number) for number in worker_ids(process.pid)]
            process.kill()
            await process.wait()
        assert workers
        for worker in workers:
            worker.wait(60)


async def test_the_input_fails() -> None:
    async def broken() -> AsyncIterator[Target]:
        yield Target(1, "http://127.0.0.1:1/")
        raise KeyError("input")

    async with Processes(1) as workers:
        with pytest.raises(KeyError, match="input"):
            async for _ in check_spread(broken(), Options(retries=0), workers):
                pass
