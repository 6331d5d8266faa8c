"""Programs that check a list of URLs: `oneloop.check`, bare aiohttp on a loop, and others' commands.

Each counts the statuses and reports its CPU time per URL. For the programs that use a library, only the work is
measured; for commands, the whole process.
"""

# mypy: disable-error-code="import-untyped,import-not-found"
# A rival may be missing.
from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.rivals import endpoint, loops
from bench.rivals.report_line import hand_over
from bench.rivals.stopwatch import deferred_cpu_ns
from bench.rivals.url_server import urls

Asked = argparse.Namespace


async def check(asked: Asked, listed: Iterable[str]) -> Counter[str]:
    """`oneloop.check`, used as a library."""
    from oneloop.check import check as check_urls

    counts: Counter[str] = Counter()
    async for result in check_urls(listed, concurrency=asked.concurrency, per_host=asked.concurrency):
        counts[result.outcome] += 1
    return counts


async def bare(asked: Asked, listed: Iterable[str]) -> Counter[str]:
    """A typical program: workers that share an iterator."""
    import aiohttp

    counts: Counter[str] = Counter()
    left = iter(listed)

    async def work(session: aiohttp.ClientSession) -> None:
        for url in left:
            async with session.get(url) as response:
                await response.read()
            counts[str(response.status)] += 1

    connector = aiohttp.TCPConnector(limit=asked.concurrency)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(work(session) for _ in range(asked.concurrency)))
    return counts


def measure_library(program: Callable[[Asked, Iterable[str]], object], asked: Asked) -> dict[str, float]:
    """CPU and wall time of the work. A short first run does the late imports."""
    endpoint.grow_heap()

    async def run() -> dict[str, float]:
        await program(asked, urls(asked.port, 1, 1))  # type: ignore[misc]
        cpu_ns, began_ns = time.process_time_ns(), time.monotonic_ns()
        counts = await program(asked, urls(asked.port, asked.hosts, asked.count))  # type: ignore[misc]
        wall_ns, cpu_ns = time.monotonic_ns() - began_ns, time.process_time_ns() - cpu_ns
        cpu_ns += await deferred_cpu_ns()
        assert counts == {"200": asked.count}, counts
        return figures(asked, cpu_ns, wall_ns)

    with asyncio.Runner(loop_factory=loops.factory(asked.loop)) as runner:
        return runner.run(run())


def figures(asked: Asked, cpu_ns: float, wall_ns: float, who: int = resource.RUSAGE_SELF) -> dict[str, float]:
    return {
        "cpu_ns_per_op": cpu_ns / asked.count,
        "wall_ns": wall_ns,
        "throughput": asked.count / wall_ns * 1e9,
        "rss_bytes": resource.getrusage(who).ru_maxrss * 1024,
    }


def command_line(asked: Asked, file: Path) -> list[str]:
    """The command line of a program. Programs that cannot read a list get a page of links."""
    page = f"http://127.0.0.1:{asked.port}/links/{asked.count}"
    at_once = str(asked.concurrency)
    if asked.program == "command":
        options = ["--concurrency", at_once, "--per-host", at_once]
        return [sys.executable, "-m", "oneloop", "check", *options, str(file)]
    if asked.program == "lychee":
        options = ["--no-progress", "--max-concurrency", at_once, "--host-concurrency", at_once, "--max-retries", "0"]
        return [asked.path, *options, "--format", "json", "--host-request-interval", "0ms", str(file)]
    if asked.program == "muffet":
        return [
            asked.path,
            "--max-connections",
            at_once,
            "--max-connections-per-host",
            at_once,
            "--one-page-only",
            page,
        ]
    # LinkChecker limits itself to ten requests per second for each host.
    rules = file.with_name("linkcheckerrc")
    rules.write_text("[checking]\nmaxrequestspersecond=1000000\nthreads=10\n")
    options = ["--config", str(rules), "--output", "none", "--no-robots", "--recursion-level", "1", "--check-extern"]
    return [asked.path, *options, page]


def answered(asked: Asked, output: str) -> int | None:
    """The number of good URLs that a command reports; None if it does not report one."""
    if asked.program == "command":
        return int(json.loads(output).get("200", 0))
    if asked.program == "lychee":
        return int(json.loads(output)["successful"])
    return None


def measure_command(asked: Asked) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        file = Path(folder) / "urls.txt"
        with file.open("w") as out:
            out.writelines(f"{url}\n" for url in urls(asked.port, asked.hosts, asked.count))
        began_ns = time.monotonic_ns()
        with tempfile.TemporaryFile() as errors:
            done = subprocess.run(
                command_line(asked, file), cwd=folder, stdout=subprocess.PIPE, stderr=errors, check=False
            )
            errors.seek(0)
            said = errors.read().decode(errors="replace")
        wall_ns = time.monotonic_ns() - began_ns
    if done.returncode:
        raise SystemExit(f"exit status {done.returncode}: {(said or done.stdout.decode())[-300:]}")
    found = answered(asked, done.stdout.decode())
    if found is not None and found != asked.count:
        raise SystemExit(f"{found} of {asked.count} URLs were found good")
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return figures(asked, (usage.ru_utime + usage.ru_stime) * 1e9, wall_ns, resource.RUSAGE_CHILDREN)


LIBRARIES = {"check": check, "aiohttp": bare}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--path", default="", help="of the command")
    parser.add_argument("--loop", default="asyncio")
    for name in ("port", "hosts", "count", "concurrency"):
        parser.add_argument(f"--{name}", type=int, required=True)
    given = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.environ.pop("http_proxy", None)
    library = LIBRARIES.get(given.program)
    hand_over(measure_library(library, given) if library else measure_command(given))
