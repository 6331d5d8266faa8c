"""`make soak-client`: a million requests of each caller; resident memory, descriptors and counters must stay flat.

Most requests are small and use kept connections. Among them are all that leave something to clear up: bodies whole and
in chunks, answers that are not read to their end, time limits, servers that close with and without an answer,
cancellation, threads that end. Samples are taken at a tenth, half and all of the requests, when nothing is under way.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import oneloop
from oneloop.http import AsyncClient, Client, Limits, RequestError, Timeout
from tests import descriptors
from tests.stress.answering import LARGE, SMALL
from tests.stress.samples import resident_bytes

CALLERS = ("coroutine", "green", "plain")
AT_ONCE = 20
ALLOWED_GROWTH_BYTES = 1 << 20
SHARES = (0.1, 0.5, 1.0)

# The n-th request is of the first kind whose number divides n; the others are small.
KINDS = {
    499: "stalls",
    331: "cancelled",
    293: "half-read",
    283: "gone",
    211: "drop",
    199: "close",
    197: "stalls-in-body",
    149: "large",
    101: "post-in-parts",
    97: "post",
    61: "gzip",
    31: "chunked",
}
SETTINGS: dict[str, Any] = {
    "limits": Limits(max_connections=AT_ONCE, keepalive_expiry=None),
    "timeout": Timeout(60.0),
    "trust_env": False,
}
_SHORT = Timeout(60.0, read=0.005)


class FailedError(Exception):
    """Something did not stay as it was, or an answer was not the right one."""


def kind_of(number: int) -> str:
    """What kind of request it is."""
    return next((kind for divisor, kind in KINDS.items() if number % divisor == 0), "small")


def _arguments(kind: str) -> tuple[str, str, bytes | None, dict[str, Any]]:
    """Return the method, the path, the expected body (None: the request fails), and what is sent."""
    if kind == "post":
        return "POST", "/small", SMALL, {"content": LARGE}
    if kind in ("stalls", "stalls-in-body"):
        return "GET", "/stall" if kind == "stalls" else "/half", None, {"timeout": _SHORT}
    if kind == "gone":
        return "GET", "/gone", None, {}
    if kind in ("large", "chunked", "gzip", "close", "drop"):
        return "GET", f"/{kind}", LARGE if kind == "large" else SMALL, {}
    return "GET", "/small", SMALL, {}


def _check(kind: str, expected: bytes | None, content: bytes) -> None:
    if content != expected:
        raise FailedError(f"{kind}: {content[:50]!r} and {len(content)} bytes in all")


def _parts() -> Iterator[bytes]:
    yield from [bytes(5000)] * 4


async def _aparts() -> AsyncIterator[bytes]:
    for part in _parts():
        yield part


class Load:
    """Requests, counted."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.done: Counter[str] = Counter()
        self._next = 0
        self._end = 0

    def numbers(self) -> Iterator[int]:
        """The numbers of requests until the next sample; several take from them."""
        while self._next < self._end:
            self._next += 1
            yield self._next

    def go_on_to(self, end: int) -> None:
        self._end = end

    # -- coroutines ------------------------------------------------------------------------------

    async def ask(self, client: AsyncClient, number: int) -> None:
        kind = kind_of(number)
        self.done[kind] += 1
        if kind == "cancelled":
            task = asyncio.ensure_future(client.get(f"{self.url}/large"))
            for _ in range(number % 7):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            return
        if kind == "half-read":
            async with client.stream("GET", f"{self.url}/large") as response:
                async for _ in response.aiter_bytes():
                    return
        method, path, expected, sent = _arguments(kind)
        if kind == "post-in-parts":
            method, sent = "POST", {"content": _aparts()}
        try:
            response = await client.request(method, self.url + path, **sent)
        except RequestError:
            self._failed(kind, expected)
        else:
            _check(kind, expected, response.content)

    def _failed(self, kind: str, expected: bytes | None) -> None:
        """Called in the handler of an exception."""
        if expected is None:
            return
        if kind not in ("post", "post-in-parts"):
            raise  # noqa: PLE0704 - see above
        # It went out on a connection that the server was closing ("drop"), and is not one that may be repeated.
        self.done["lost posts"] += 1

    # -- green threads and plain code ------------------------------------------------------------

    def ask_plainly(self, client: Client, number: int, cancel: Callable[[Callable[[], Any], int], None]) -> None:
        kind = kind_of(number)
        self.done[kind] += 1
        if kind == "cancelled":
            cancel(lambda: client.get(f"{self.url}/large"), number % 7)
            return
        if kind == "half-read":
            with client.stream("GET", f"{self.url}/large") as response:
                for _ in response.iter_bytes():
                    return
        method, path, expected, sent = _arguments(kind)
        if kind == "post-in-parts":
            method, sent = "POST", {"content": _parts()}
        try:
            response = client.request(method, self.url + path, **sent)
        except RequestError:
            self._failed(kind, expected)
        else:
            _check(kind, expected, response.content)


def in_coroutines(load: Load, sample: Callable[[Any], None], ends: list[int]) -> None:
    async def main() -> None:
        async with AsyncClient(**SETTINGS) as client:

            async def work() -> None:
                for number in load.numbers():
                    await load.ask(client, number)

            for end in ends:
                load.go_on_to(end)
                await asyncio.gather(*[work() for _ in range(AT_ONCE)])
                while client.statistics()["open"] != client.statistics()["idle"]:
                    await asyncio.sleep(0.01)
                sample(client)

    oneloop.run(main())


def in_green_threads(load: Load, sample: Callable[[Any], None], ends: list[int]) -> None:
    from oneloop.green import joinall, sleep, spawn

    def cancel(call: Callable[[], Any], steps: int) -> None:
        thread = spawn(call)
        for _ in range(steps):
            sleep(0)
        thread.kill()

    def work(client: Client) -> None:
        for number in load.numbers():
            load.ask_plainly(client, number, cancel)

    def main() -> None:
        with Client(**SETTINGS) as client:
            for end in ends:
                load.go_on_to(end)
                joinall([spawn(work, client) for _ in range(AT_ONCE)], raise_error=True)
                while client.statistics()["open"] != client.statistics()["idle"]:
                    sleep(0.01)
                sample(client)

    from oneloop.green.hub import end_own_hub

    try:
        spawn(main).get()
    finally:
        end_own_hub()


def in_plain_code(load: Load, sample: Callable[[Any], None], ends: list[int]) -> None:
    def in_a_thread(call: Callable[[], Any], _: int) -> None:
        # Plain code cannot be cancelled: a thread of its own ends, with its loop and connections.
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    with Client(**SETTINGS) as client:
        for end in ends:
            load.go_on_to(end)
            for number in load.numbers():
                load.ask_plainly(client, number, in_a_thread)
            sample(client)


RUN = {"coroutine": in_coroutines, "green": in_green_threads, "plain": in_plain_code}


@contextmanager
def serving() -> Iterator[str]:
    """The server, in another process. Gives its URL."""
    command = [sys.executable, "-m", "tests.stress.answering"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()
            process.wait(20)


def run(caller: str, count: int, warm_up: int) -> None:
    """Send them.

    Raises:
        FailedError: memory, descriptors or the pool's counters are not as they were.
    """
    samples: list[tuple[int, int, int]] = []

    def sample(client: Any) -> None:
        counters = client.statistics()
        samples.append((resident_bytes(), len(descriptors.open_descriptors()) - counters["idle"], load._next))
        if counters["waiting"] or counters["open"] != counters["idle"]:
            raise FailedError(f"{caller}: nothing is under way, but {counters}")
        if load._next > warm_up:
            memory, fds, number = samples[-1]
            print(f"{caller:9} {number:>8} requests: rss {memory / 2**20:.1f} MiB, descriptors {fds}", flush=True)

    with serving() as url:
        load = Load(url)
        RUN[caller](load, sample, [warm_up, *[max(warm_up + 1, int(count * share)) for share in SHARES]])
    print(f"{caller:9} kinds: " + ", ".join(f"{kind} {number}" for kind, number in load.done.most_common()))
    first, last = samples[1], samples[-1]
    if last[0] - first[0] > ALLOWED_GROWTH_BYTES:
        raise FailedError(f"{caller}: resident memory grew by {(last[0] - first[0]) / 2**20:.1f} MiB")
    if last[1] > first[1]:
        raise FailedError(f"{caller}: {last[1]} descriptors at the end, {first[1]} at first")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stress.requests", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--warm-up", type=int, default=2000)
    parser.add_argument("--caller", choices=CALLERS, action="append")
    arguments = parser.parse_args()
    status = 0
    for caller in arguments.caller or CALLERS:
        try:
            run(caller, arguments.count, arguments.warm_up)
        except FailedError as failure:
            print(f"FAIL {failure}")
            status = 1
    print("requests: " + ("FAILED" if status else "passed"))
    return status


if __name__ == "__main__":
    sys.exit(main())
