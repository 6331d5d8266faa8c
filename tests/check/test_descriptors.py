"""Connections and the process's descriptors: what the machine lacks must not be counted as a host's failure."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("pycares")

from oneloop.check import check
from tests.check.site import serving

# Lowers the limit of descriptors, and becomes the command.
LIMITED = """
import os, resource, sys
soft, hard = int(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
os.execv(sys.executable, [sys.executable, "-m", "oneloop", "check", *sys.argv[3:]])
"""


@pytest.fixture
def loop_name() -> str:
    return "oneloop"


async def test_idle_connections_are_closed_in_time(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 are spared for other uses, and as many as there is concurrency for what is under way: 20 are left."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (88, 88))
    before = len(os.listdir("/proc/self/fd"))
    most = 0
    async with serving() as site:
        urls = [f"http://127.0.{1 + number // 100}.{1 + number % 100}:{site.port}/" for number in range(200)]
        async for result in check(urls, concurrency=4, retries=0):
            assert result.outcome == "200"
            most = max(most, len(os.listdir("/proc/self/fd")) - before)
    # Both ends are in this process; the other end hears of the end a moment later.
    assert most <= 2 * 20 + 4 + 10


async def test_a_kept_connection_is_used_again_at_the_limit(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (0, 0))
    async with serving() as site:
        urls = [f"http://127.0.0.1:{site.port}/{number}" for number in range(100)]
        found = [result async for result in check(urls, concurrency=4, retries=0)]
        assert Counter(result.outcome for result in found) == {"200": 100}
        assert len(site.served) <= 4


@pytest.mark.parametrize("processes", [(), ("--processes", "2")], ids=["one process", "two"])
async def test_a_low_soft_limit_is_raised(
    processes: tuple[str, ...], loop: asyncio.AbstractEventLoop, tmp_path: Path
) -> None:
    async with serving(delay_s=0.02) as site:
        lines = [f"http://127.0.{1 + number // 100}.{1 + number % 100}:{site.port}/" for number in range(300)]
        (tmp_path / "urls.txt").write_text("\n".join(lines))
        arguments = ["64", "400", str(tmp_path / "urls.txt"), "--retries", "0", *processes]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", LIMITED, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        output, errors = await process.communicate()
    assert output.decode() == '{"200": 300}\n', errors.decode()
