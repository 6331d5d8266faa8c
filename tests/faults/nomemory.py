"""`python -m tests.faults.nomemory`: each allocation of Python fails once, in small whole programs.

`_testcapi.set_nomemory(n, n + 1)` makes the n-th allocation fail, whoever makes it: oneloop, asyncio, the program.
A run is a forked child; its peer is another one, which has memory. Then the same program runs once more, in the same
process: it must go well.

- Allowed: the right result; a MemoryError that the program, the exception handler or `sys.unraisablehook` sees.
- Not allowed: a crash, a hang, a panic, a SystemError or another exception without a MemoryError before it, a result
  that is wrong or missing although nobody saw a MemoryError, a second run that fails.
- Excused, by name: what CPython, asyncio and greenlet do by themselves (`excuses.py`; `proofs.py` shows it without
  oneloop). `--loop asyncio` runs the same programs on asyncio's own loop.
"""

from __future__ import annotations

import _testcapi  # type: ignore[import-not-found]
import argparse
import asyncio
import faulthandler
import gc
import os
import pickle
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import oneloop
import oneloop.http
from oneloop import files, green
from oneloop.green.event import Event
from oneloop.green.queue import Queue
from tests.faults import excuses
from tests.faults.excuses import ExtraNoneError

LIMIT_S = 60.0
PATIENCE_S = 5.0
"""No program waits that long for what comes. Afterwards it says that something is missing."""


_on_asyncio = False
"""The same programs, as far as they need nothing of oneloop, on asyncio's own loop: for comparison."""


class MissingError(Exception):
    """Something that the program waited for did not happen."""


@dataclass
class Seen:
    """What one run saw."""

    errors: list[str] = field(default_factory=list)
    """Names of exceptions, the whole chain of each; in the order in which they were seen."""
    texts: list[str] = field(default_factory=list)
    is_right: bool = False
    excuses: list[str] = field(default_factory=list)
    """Names of what of it is not ours."""

    def note(self, error: BaseException | None, message: str = "") -> None:
        chain, shown = [], repr(error)
        while error is not None:
            name = excuses.of_exception(error)
            if name:
                self.excuses.append(name)
            chain.append(type(error).__name__ + (f" ({name})" if name else ""))
            error = error.__cause__ or error.__context__
        self.errors.append(" < ".join(chain) or message)
        # Also into the log: a program that hangs afterwards cannot report it.
        os.write(2, f"noticed: {self.errors[-1]}: {message} {shown}\n".encode())


Program = Callable[[Seen, "Peer"], None]
Work = Callable[[int, socket.socket], str]
"""What a peer does, with the program's port, or with a listener of its own, whose port the program knows."""


class Peer:
    """A process that is asked to do something, with memory of its own, and says whether it went well."""

    def __init__(self, work: Work) -> None:
        self.here, there = socket.socketpair()
        listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = listener.getsockname()[1]
        self.pid = os.fork()
        if not self.pid:
            try:
                self.here.close()
                while port := there.recv(4):
                    try:
                        answer = work(struct.unpack("I", port)[0], listener)
                    except Exception as error:
                        answer = f"{type(error).__name__}: {error}"
                    there.send(answer.encode() or b"nothing")
            finally:
                os._exit(0)
        there.close()
        listener.close()
        self.here.settimeout(2 * PATIENCE_S)

    def start(self, port: int) -> None:
        self.here.send(struct.pack("I", port))

    def end(self) -> str:
        return self.here.recv(1000).decode()


def _echo_client(port: int, _: socket.socket) -> str:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as sock:
        for size in (1, 1000, 70_000):
            sock.sendall(b"x" * size)
            got = 0
            while got < size:
                part = sock.recv(size - got)
                if not part:
                    return "closed"
                if part.strip(b"x"):
                    return "WRONG"
                got += len(part)
        sock.shutdown(socket.SHUT_WR)
        return "right" if sock.recv(1) == b"" else "WRONG"


def _http_client(port: int, _: socket.socket) -> str:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as sock:
        for size in (10, 20_000):
            sock.sendall(b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size + b"y" * size)
            got = b""
            while b"\r\n\r\n" not in got or len(got.partition(b"\r\n\r\n")[2]) < size:
                part = sock.recv(100_000)
                if not part:
                    return "closed"
                got += part
                if not got.startswith(b"HTTP/1.1 200"[: len(got)]):
                    return f"status {got[9:12].decode()}"
            if got.partition(b"\r\n\r\n")[2] != b"y" * size:
                return "WRONG"
    return "right"


def _http_server(_: int, listener: socket.socket) -> str:
    """Sends back bodies and targets, one connection after the other, until it is asked for /end."""
    listener.settimeout(PATIENCE_S)
    while True:
        sock = listener.accept()[0]
        sock.settimeout(PATIENCE_S)
        with sock, suppress(ConnectionError), sock.makefile("rb") as stream:
            while line := stream.readline():
                target, length = line.split(b" ")[1], 0
                while (field := stream.readline()) not in (b"\r\n", b""):
                    if field.lower().startswith(b"content-length:"):
                        length = int(field.split(b":")[1])
                body = stream.read(length) or target
                if target == b"/end":
                    return "right"
                if target == b"/chunks":
                    parts = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body, body * 9000, body))
                    sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n\r\n")
                else:
                    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def _run(seen: Seen, main: Callable[[], Any]) -> None:
    """`oneloop.run`, or asyncio's, with an exception handler from the first moment."""

    async def handled() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, c: seen.note(c.get("exception"), str(c["message"])))
        await main()

    if _on_asyncio:
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(handled())
    else:
        oneloop.run(handled())


class _Echo(asyncio.Protocol):
    def __init__(self, over: asyncio.Event) -> None:
        self.over = over

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set()


async def _serve(server: asyncio.Server, peer: Peer, over: asyncio.Event) -> None:
    async with server:
        peer.start(server.sockets[0].getsockname()[1])
        try:
            await asyncio.wait_for(over.wait(), PATIENCE_S)
        except TimeoutError:
            raise MissingError("the connection's end") from None


def _tcp(seen: Seen, peer: Peer) -> None:
    async def main() -> None:
        over = asyncio.Event()
        server = await asyncio.get_running_loop().create_server(lambda: _Echo(over), "127.0.0.1", 0)
        await _serve(server, peer, over)

    _run(seen, main)
    seen.is_right = peer.end() == "right"


def _streams(seen: Seen, peer: Peer) -> None:
    async def main() -> None:
        over = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while data := await reader.read(8192):
                    writer.write(data)
                    await writer.drain()
                writer.close()
                await writer.wait_closed()
            finally:
                over.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        await _serve(server, peer, over)

    _run(seen, main)
    seen.is_right = peer.end() == "right"


def _timers(seen: Seen, _peer: Peer) -> None:
    ran: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in range(5):
            loop.call_later(0.001 * number, ran.append, number)
            loop.call_later(60, ran.append, -1).cancel()
            loop.call_soon(ran.append, 10 + number)
            loop.call_soon_threadsafe(ran.append, 20 + number)
            await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.gather(*(asyncio.sleep(0.001 * n) for n in range(6))), PATIENCE_S)

    _run(seen, main)
    seen.is_right = sorted(ran) == [*range(5), *range(10, 15), *range(20, 25)]


def _files(seen: Seen, _peer: Peer) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "a")

        async def main() -> None:
            await files.write_file(path, b"old" * 1000)
            await files.write_file(path, b"new" * 1000, atomic=True)
            async with files.open(path, "ab") as file:
                await file.write(b"more")
            async with files.open(path) as text:
                read = [line async for line in text]
            if read[-1:] == [None]:
                raise ExtraNoneError
            assert "".join(read) == "new" * 1000 + "more"
            assert await files.read_file(path) == b"new" * 1000 + b"more"
            await files.remove(path)

        _run(seen, lambda: asyncio.wait_for(main(), PATIENCE_S))
        seen.is_right = not path.exists()


async def _app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


def _http(seen: Seen, peer: Peer) -> None:
    told: list[str] = []

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def heard() -> None:
            loop.remove_reader(peer.here)
            told.append(peer.end())
            stop.set()

        def on_ready(addresses: list[str]) -> None:
            loop.add_reader(peer.here, heard)
            peer.start(int(addresses[0].rsplit(":", 1)[1].strip("/")))

        serving = oneloop.http.serve(
            _app, port=0, access_log=False, stop=stop, on_ready=on_ready, timeout_graceful_shutdown=1, lifespan="off"
        )
        try:
            await asyncio.wait_for(serving, PATIENCE_S + 1)
        except TimeoutError:
            raise MissingError("the server's end") from None

    _run(seen, main)
    seen.is_right = told == ["right"]


def _green(seen: Seen, _peer: Peer) -> None:
    queue: Queue[int] = Queue(2)
    done = Event()
    received: list[int] = []

    def produce() -> None:
        for number in range(10):
            queue.put(number, timeout=PATIENCE_S)
            green.sleep(0 if number % 3 else 0.001)

    def consume() -> None:
        received.extend(queue.get(timeout=PATIENCE_S) for _ in range(10))
        done.set()

    threads: list[Any] = []
    try:
        threads += [green.spawn(produce), green.spawn(consume)]
        if not done.wait(PATIENCE_S) and all(thread.exception is None for thread in threads):
            raise MissingError("the queue's end")
        green.joinall(threads, timeout=PATIENCE_S)
        for thread in threads:
            if thread.exception is not None:
                seen.note(thread.exception)
    finally:
        green.killall(threads, timeout=PATIENCE_S)
        green.get_hub().destroy(destroy_loop=True)
    seen.is_right = received == list(range(10))


BODIES = [b"/short", b"y" * 100_000, b"/chunks" * 9002]


def _client(seen: Seen, peer: Peer) -> None:
    """Coroutines."""
    got: list[bytes] = []

    async def main() -> None:
        url = f"http://127.0.0.1:{peer.port}"
        async with oneloop.http.AsyncClient(timeout=PATIENCE_S, trust_env=False) as client:
            got.append((await client.get(f"{url}/short")).content)
            got.append((await client.post(f"{url}/long", content=BODIES[1])).content)
            async with client.stream("GET", f"{url}/chunks") as response:
                got.append(b"".join([piece async for piece in response.aiter_bytes()]))

    _ask(peer, lambda: _run(seen, main))
    seen.is_right = got == BODIES


def _plain_client(seen: Seen, peer: Peer) -> None:
    """Code without a loop."""
    got: list[bytes] = []

    def main() -> None:
        url = f"http://127.0.0.1:{peer.port}"
        with oneloop.http.Client(timeout=PATIENCE_S, trust_env=False) as client:
            got.append(client.get(f"{url}/short").content)
            got.append(client.post(f"{url}/long", content=BODIES[1]).content)
            with client.stream("GET", f"{url}/chunks") as response:
                got.append(b"".join(response.iter_bytes()))

    _ask(peer, main)
    seen.is_right = got == BODIES


def _ask(peer: Peer, main: Callable[[], None]) -> None:
    """Run a client's program while the peer serves."""
    peer.start(0)
    try:
        main()
    finally:
        with socket.create_connection(("127.0.0.1", peer.port), PATIENCE_S) as sock:
            sock.sendall(b"GET /end HTTP/1.1\r\n\r\n")
            sock.recv(1)


PROGRAMS: dict[str, tuple[Program, Work]] = {
    "timers": (_timers, _echo_client),
    "tcp": (_tcp, _echo_client),
    "streams": (_streams, _echo_client),
    "files": (_files, _echo_client),
    "http": (_http, _http_client),
    "client": (_client, _http_server),
    "plain client": (_plain_client, _http_server),
    "green": (_green, _echo_client),
}


def perform(name: str, first: int, last: int | None, peer: Peer) -> Seen:
    """Run a program whose allocations from `first` to `last` fail; 0: none."""
    seen = Seen()
    sys.unraisablehook = lambda unraisable: seen.note(unraisable.exc_value)
    try:
        if first:
            _testcapi.set_nomemory(first, first + 1 if last is None else last)
        try:
            PROGRAMS[name][0](seen, peer)
        finally:
            _testcapi.remove_mem_hooks()
    except BaseException as error:
        seen.note(error)
        seen.texts.append("".join(traceback.format_exception(error))[-3000:])
    return seen


def _is_excused(error: str) -> bool:
    return any(f" ({name})" in error for name in excuses.REASONS)


def verdict(first: Seen, second: Seen | None) -> list[str]:
    """What was not allowed."""
    found = [error for error in first.errors if "Panic" in error or ("SystemError" in error and not _is_excused(error))]
    if not any("MemoryError" in error for error in first.errors):
        # What follows from a MemoryError that was seen is allowed.
        found += [
            f"{error} without a MemoryError" for error in first.errors if not _is_excused(error) and error not in found
        ]
    is_logged = any("MemoryError" in text for text in first.texts)
    if not first.is_right and not first.errors and not is_logged:
        found.append("the result is wrong or missing, and nobody was told")
    if second is not None and not first.excuses and (second.errors or not second.is_right):
        found.append(f"the program does not go well any more: {second.errors or 'wrong'}")
        first.texts += second.texts
    return [*found, *first.texts] if found else []


@dataclass
class Outcome:
    """What became of one child."""

    number: int
    found: list[str]
    is_hit: bool
    excuse: str = ""
    """The name under which it is forgiven."""


def native_frames(folder: str) -> str:
    """The innermost native frames of the crash whose core is in this folder, by gdb. Without gdb or a core, nothing."""
    gdb, core = shutil.which("gdb"), next(Path(folder).glob("core*"), None)
    if gdb is None or core is None:
        return ""
    command = [gdb, "-q", "-batch", "-ex", "bt 10", sys.executable, str(core)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return "\n".join(line for line in said.splitlines() if line.startswith("#"))


def child(name: str, number: int, last: int | None = None) -> Outcome:
    """Run a program in a forked child, and once more without a fault."""
    with tempfile.TemporaryDirectory() as folder:
        return _child(name, number, last, folder)


def _child(name: str, number: int, last: int | None, folder: str) -> Outcome:
    log = tempfile.TemporaryFile()
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            os.dup2(log.fileno(), 2)
            # Where it leaves its core.
            os.chdir(folder)
            resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            faulthandler.enable(log)
            faulthandler.dump_traceback_later(LIMIT_S, exit=True, file=log)
            peer = Peer(PROGRAMS[name][1])
            first = perform(name, number, last, peer)
            is_fault = number and last is None
            again = perform(name, 0, None, Peer(PROGRAMS[name][1])) if is_fault else None
            with open(writing, "wb") as stream:
                pickle.dump((first, again), stream)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(writing)
    with open(reading, "rb") as stream:
        data = stream.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    log.seek(0)
    said = log.read().decode(errors="replace")
    log.close()
    if code or not data:
        heard = re.findall(r"(?m)^noticed: (.*?)(?: at 0x\w+.*)?$", said)
        what = "it hangs" if "Timeout (" in said else f"it ends with {code}"
        what += f" after {heard[-1]}" if heard else ", and nobody was told"
        excuse = excuses.of_hang(said) if "Timeout (" in said else excuses.of_crash(said) if code < 0 else ""
        if not excuse and code < 0:
            frames = native_frames(folder)
            excuse = excuses.of_frames(frames)
            said += frames
        if excuse:
            return Outcome(number, [], True, excuse)
        return Outcome(number, [f"{what}:\n{said[-4000:]}"], True)
    first, again = pickle.loads(data)
    first.texts.append(said)
    excuse = next(iter(first.excuses), "")
    return Outcome(number, verdict(first, again), bool(first.errors) or not first.is_right, excuse)


def allocations(name: str) -> int:
    """About how many allocations a program makes: after them, none is missing."""
    low, high = 1, 1 << 20
    while low < high:
        middle = (low + high) // 2
        if child(name, middle, 0).is_hit:
            low = middle + 1
        else:
            high = middle
    return low


def outcomes(name: str, every: int, total: int, begin: int = 1) -> Iterator[Outcome]:
    """Run a program once for each allocation, or for each of so many."""
    for number in range(begin, total + 1, every):
        yield child(name, number)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.nomemory", description=__doc__)
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--every", type=int, default=1, help="only each of so many allocations")
    parser.add_argument("--number", type=int, help="only this one")
    parser.add_argument("--total", type=int, help="do not count the allocations, but take this for their number")
    parser.add_argument("--loop", choices=("oneloop", "asyncio"), default="oneloop")
    arguments = parser.parse_args()
    global _on_asyncio
    _on_asyncio = arguments.loop == "asyncio"
    damaged = 0
    for name in arguments.programs:
        perform(name, 0, None, Peer(PROGRAMS[name][1]))  # what is imported late is there now
        gc.collect()
        gc.freeze()
        total = arguments.number or arguments.total or allocations(name)
        runs, hits, excused, kinds = 0, 0, Counter[str](), Counter[str]()
        for outcome in outcomes(name, arguments.every, total, arguments.number or 1):
            runs += 1
            hits += outcome.is_hit
            if outcome.excuse and not outcome.found:
                excused[outcome.excuse] += 1
            if outcome.found:
                damaged += 1
                kinds[outcome.found[0].splitlines()[0][:150]] += 1
                if kinds[outcome.found[0].splitlines()[0][:150]] <= 2:
                    print(f"{name} {outcome.number}:", *outcome.found, sep="\n  ", flush=True)
        sums = f"{runs} runs, {hits} noticed, {excused.total()} excused, {kinds.total()} forbidden"
        print(f"{name}: {total} allocations, {sums}", flush=True)
        for kind, count in excused.most_common():
            print(f"    {count:5} excused: {kind}: {excuses.REASONS[kind]}")
        for kind, count in kinds.most_common():
            print(f"    {count:5} {kind}")
    return 1 if damaged else 0


if __name__ == "__main__":
    sys.exit(main())
