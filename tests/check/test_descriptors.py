"""Connections and the process's descriptors: what the machine lacks must not be counted as a host's failure."""

from __future__ import annotations

import asyncio
import os
import pickle
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pycares")

from oneloop.check import OptionError, check
from oneloop.check.descriptors import TooManyFilesError
from tests.check.site import serving

# Lowers the limit of descriptors, and becomes the command.
LIMITED = """
import os, resource, sys
soft, hard = int(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
os.execv(sys.executable, [sys.executable, "-m", "oneloop", "check", *sys.argv[3:]])
"""


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
    monkeypatch.setattr(resource, "getrlimit", lambda _: (68, 68))
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


async def test_a_limit_that_is_too_low_is_told_at_the_start(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    with pytest.raises(
        OptionError, match=r"a concurrency of 961 needs 1025 .* can open only 1024: lower the concurrency"
    ):
        [result async for result in check(["http://127.0.0.1:1/"], concurrency=961)]
    assert [result.outcome async for result in check(["http://127.0.0.1:1/"], concurrency=960, retries=0)] == [
        "connect"
    ]


async def test_what_the_process_lacks_is_no_failure_of_a_host(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else in the process has the descriptors: the run ends, and says what to do."""
    url = "http://127.0.0.1:1/"
    # The loop's own descriptors exist afterwards.
    assert [result.outcome async for result in check([url], concurrency=1, retries=0)] == ["connect"]
    monkeypatch.setattr("oneloop.check.fetch.require", lambda _: None)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 10, hard))
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                used.append(os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(TooManyFilesError, match="lower the concurrency, or raise the limit"):
            [result async for result in check([url], concurrency=1, retries=0)]
    finally:
        for fd in used:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_process_tells_another_that_it_has_no_descriptor_left() -> None:
    """One of `--processes` does: an error that cannot be read ends its pool instead, three times."""
    error = pickle.loads(pickle.dumps(TooManyFilesError()))
    assert isinstance(error, TooManyFilesError)
    assert str(error) == str(TooManyFilesError())
