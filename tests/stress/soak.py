"""`make soak MINUTES=n`: mixed load for minutes; resident memory and descriptors must stay flat.

Servers and clients, TLS, UDP, subprocesses, timers, executors, cancellations and failures run at once and for ever.
After a warm-up, samples are taken between rounds, when nothing is under way and the allocator has given back what it
kept. The run fails when the least of the later half is above the least of the earlier: what leaks raises every sample,
what an allocator happens to hold only some.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import os
import random
import subprocess
import sys
import time
from typing import Any

from tests import descriptors
from tests.certificates import client_context, server_context
from tests.loops import FACTORIES
from tests.protocols import Echo

LIBC = ctypes.CDLL(None)

# RSS may move by this much between the halves: allocators keep some pages even when asked for all (0.2 MiB were seen).
ALLOWED_GROWTH_BYTES = 1 << 20


class EchoDatagrams(asyncio.DatagramProtocol):
    transport: Any

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.transport.sendto(data, addr)


class Answers(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.answers: asyncio.Queue[bytes] = asyncio.Queue()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.answers.put_nowait(data)


class Load:
    """One round of everything against servers that live as long as the run."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.done: dict[str, int] = {}

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.loop = loop
        self.plain = await loop.create_server(Echo, "127.0.0.1", 0)
        self.tls = await loop.create_server(Echo, "127.0.0.1", 0, ssl=server_context())
        self.client_tls = client_context()
        self.udp, _ = await loop.create_datagram_endpoint(EchoDatagrams, local_addr=("127.0.0.1", 0))

    async def stop(self) -> None:
        for server in (self.plain, self.tls):
            server.close()
            await server.wait_closed()
        self.udp.close()
        await asyncio.sleep(0.01)

    async def stream(self, *, tls: bool) -> None:
        server = self.tls if tls else self.plain
        options: dict[str, Any] = {"ssl": self.client_tls} if tls else {}
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), **options)
        try:
            data = os.urandom(self.random.choice([1, 1000, 20_000, 300_000]))
            writer.write(data)
            assert await reader.readexactly(len(data)) == data
        finally:
            writer.close()
            await writer.wait_closed()

    async def aborted(self) -> None:
        _, writer = await asyncio.open_connection(*self.plain.sockets[0].getsockname())
        writer.write(bytes(1_000_000))
        await asyncio.sleep(0)
        writer.transport.abort()

    async def datagrams(self) -> None:
        transport, protocol = await self.loop.create_datagram_endpoint(
            Answers, remote_addr=self.udp.get_extra_info("sockname")
        )
        try:
            # Before Python 3.13 asyncio does not send empty datagrams.
            for size in (0, 1, 1000, 8000) if sys.version_info >= (3, 13) else (1, 1000, 8000):
                data = os.urandom(size)
                transport.sendto(data)
                assert await protocol.answers.get() == data
        finally:
            transport.close()

    async def process(self) -> None:
        process = await asyncio.create_subprocess_exec("cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        out, _ = await process.communicate(b"x" * 100_000)
        assert len(out) == 100_000

    async def timers(self) -> None:
        handles = [self.loop.call_later(self.random.random(), int) for _ in range(2000)]
        await asyncio.sleep(0.002)
        for handle in handles:
            handle.cancel()

    async def cancelled(self) -> None:
        task = asyncio.ensure_future(self.stream(tls=self.random.random() < 0.3))
        for _ in range(self.random.randrange(25)):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()

    async def executor(self) -> None:
        assert await self.loop.run_in_executor(None, sum, range(1000)) == 499_500

    async def round(self) -> None:
        """A hundred jobs at once; ends when all have ended."""
        jobs = [
            (self.stream, {"tls": False}, 40),
            (self.stream, {"tls": True}, 10),
            (self.aborted, {}, 10),
            (self.datagrams, {}, 10),
            (self.process, {}, 4),
            (self.timers, {}, 4),
            (self.cancelled, {}, 20),
            (self.executor, {}, 10),
        ]
        tasks = []
        for job, options, count in jobs:
            tasks += [asyncio.ensure_future(job(**options)) for _ in range(count)]  # type: ignore[operator]
            self.done[job.__name__] = self.done.get(job.__name__, 0) + count
        await asyncio.gather(*tasks)
        await asyncio.sleep(0.05)


def resident_bytes() -> int:
    """What stays when garbage is collected and the C library has returned its free pages (malloc_trim(3), of glibc)."""
    gc.collect()
    if trim := getattr(LIBC, "malloc_trim", None):
        trim(ctypes.c_size_t(0))
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def soak(seconds: float, seed: int) -> int:
    load = Load(seed)
    await load.start()
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
    for _ in range(10):
        await load.round()
    samples: list[tuple[int, int]] = []
    deadline = time.monotonic() + seconds
    next_line = 0.0
    while time.monotonic() < deadline or len(samples) < 8:
        await load.round()
        samples.append((resident_bytes(), len(descriptors.open_descriptors())))
        if time.monotonic() > next_line:
            next_line = time.monotonic() + 10
            left = max(0, deadline - time.monotonic())
            print(f"{left:5.0f} s left: rss {samples[-1][0] >> 10} KiB, descriptors {samples[-1][1]}", flush=True)
    await load.stop()
    print("jobs done: " + ", ".join(f"{name} {count}" for name, count in load.done.items()))
    return judge(samples, reports)


def judge(samples: list[tuple[int, int]], reports: list[dict[str, Any]]) -> int:
    half = len(samples) // 2
    memory = [min(sample[0] for sample in part) for part in (samples[:half], samples[half:])]
    open_fds = [min(sample[1] for sample in part) for part in (samples[:half], samples[half:])]
    growth = memory[1] - memory[0]
    print(f"{len(samples)} samples: rss {memory[0] / 2**20:.1f} MiB, then {memory[1] / 2**20:.1f} MiB; "
          f"descriptors {open_fds[0]}, then {open_fds[1]}")  # fmt: skip
    problems = []
    if growth > ALLOWED_GROWTH_BYTES:
        problems.append(f"resident memory grew by {growth / 2**20:.1f} MiB")
    if open_fds[1] > open_fds[0]:
        problems.append("descriptors grew")
    if reports:
        problems.append(f"the exception handler was called {len(reports)} times, first: {reports[0]}")
    for problem in problems:
        print(f"FAIL {problem}")
    print("soak: " + ("FAILED" if problems else "passed"))
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stress.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--loop", choices=list(FACTORIES), default="oneloop")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=FACTORIES[arguments.loop]) as runner:
        return runner.run(soak(arguments.minutes * 60, arguments.seed))


if __name__ == "__main__":
    sys.exit(main())
