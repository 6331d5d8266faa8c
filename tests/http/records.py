"""The ways to make a response, how each of them is left, and what was recorded of it.

A record is one call of `on_response`: a line of the access log, and one count in each of the metrics.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

from oneloop import green
from oneloop.http.measures import BOUNDS_S, BUCKET, INCOMPLETE, STATUS, Board, Measures
from oneloop.http.static import settings
from tests.http.site import GET, App, Message, Receive, Scope, Send, Site, Wire, reply, serving

PART = b"a" * 1000
# More than the buffers between a server and a client that reads nothing can take.
LONG_BYTES = 64 << 20
CLIENT_GONE = 499


class Row(NamedTuple):
    """What a record says."""

    method: str
    target: bytes
    status: int
    sent_bytes: int
    is_complete: bool


@dataclass
class Records:
    """The records of a server, and its metrics."""

    rows: list[Row] = field(default_factory=list)
    board: Board = field(default_factory=lambda: Board(1))

    def __post_init__(self) -> None:
        self.measures = Measures(self.board)

    def on_response(self, *given: Any) -> None:
        self.measures.add(*given)
        self.rows.append(Row(given[1], given[2], given[4], given[5], given[8]))

    def check_metrics(self) -> None:
        """The metrics count what the rows say."""
        cells = self.board.values
        by_digit = [int(cells[STATUS + digit]) for digit in range(10)]
        assert by_digit == [sum(row.status // 100 == digit for row in self.rows) for digit in range(10)]
        assert sum(cells[BUCKET + place] for place in range(len(BOUNDS_S) + 1)) == len(self.rows)
        assert cells[INCOMPLETE] == sum(not row.is_complete for row in self.rows)


async def until(is_so: Callable[[], object]) -> None:
    """Wait for a condition; the time limit of the test ends it."""
    while not is_so():
        await asyncio.sleep(0.001)


class Course:
    """One cell of the matrix: how far the application goes, as its path says, and when it may go on."""

    def __init__(self, folder: Path) -> None:
        self.long, self.short = folder / "long", folder / "short"
        self.short.write_bytes(PART)
        with self.long.open("wb") as file:
            file.truncate(LONG_BYTES)
        self.is_open = threading.Event()
        self.waiting = 0

    async def wait(self, receive: Receive) -> None:
        """Wait as an application does that looks after its client."""
        self.waiting += 1
        while (await receive())["type"] != "http.disconnect":
            pass

    def wait_in_thread(self) -> None:
        """Wait as an application does that works, in a thread or a green thread."""
        self.waiting += 1
        if threading.current_thread() is not threading.main_thread():
            assert self.is_open.wait(60)
        while not self.is_open.is_set():
            green.sleep(0.001)


def start(status: int = 200) -> Message:
    return {"type": "http.response.start", "status": status, "headers": []}


def asgi_whole(course: Course) -> App:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/fails":
            raise ValueError("before")
        if scope["path"] == "/waits":
            await course.wait(receive)
            return
        await reply(send, PART)

    return app


def asgi_stream(course: Course) -> App:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start())
        await send({"type": "http.response.body", "body": PART, "more_body": True})
        if scope["path"] == "/fails":
            raise ValueError("in the middle")
        if scope["path"] == "/waits":
            await course.wait(receive)
            return
        await send({"type": "http.response.body"})

    return app


def asgi_pathsend(course: Course) -> App:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start())
        course.waiting += 1
        path = course.long if scope["path"] == "/waits" else course.short
        await send({"type": "http.response.pathsend", "path": str(path)})

    return app


def wsgi_list(course: Course) -> App:
    def app(environ: dict[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"] == "/fails":
            raise ValueError("before")
        if environ["PATH_INFO"] == "/waits":
            course.wait_in_thread()
        start_response("200 OK", [])
        return [PART]

    return cast("App", app)


def parts_of(course: Course, path: str) -> Iterator[bytes]:
    yield PART
    if path == "/fails":
        raise ValueError("in the middle")
    if path == "/waits":
        course.wait_in_thread()
        for _ in range(LONG_BYTES // 100_000):
            yield bytes(100_000)


def wsgi_iterator(course: Course) -> App:
    def app(environ: dict[str, Any], start_response: Any) -> Any:
        start_response("200 OK", [])
        return parts_of(course, environ["PATH_INFO"])

    return cast("App", app)


def wsgi_write(course: Course) -> App:
    def app(environ: dict[str, Any], start_response: Any) -> Any:
        write = start_response("200 OK", [])
        for part in parts_of(course, environ["PATH_INFO"]):
            write(part)
        return []

    return cast("App", app)


def wsgi_file(course: Course) -> App:
    def app(environ: dict[str, Any], start_response: Any) -> Any:
        start_response("200 OK", [])
        course.waiting += 1
        path = course.long if environ["PATH_INFO"] == "/waits" else course.short
        return environ["wsgi.file_wrapper"](path.open("rb"))

    return cast("App", app)


def static(course: Course) -> App:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError

    course.waiting = 1
    return app


WAYS: dict[str, Callable[[Course], App]] = {
    "asgi-whole": asgi_whole,
    "asgi-stream": asgi_stream,
    "asgi-pathsend": asgi_pathsend,
    "wsgi-list": wsgi_list,
    "wsgi-iterator": wsgi_iterator,
    "wsgi-write": wsgi_write,
    "wsgi-file": wsgi_file,
    "green-list": wsgi_list,
    "green-iterator": wsgi_iterator,
    "green-write": wsgi_write,
    "green-file": wsgi_file,
    "static": static,
}


@asynccontextmanager
async def recorded(course: Course, way: str) -> AsyncIterator[tuple[Site, Records]]:
    records = Records()
    kind = way.partition("-")[0]
    options: dict[str, Any] = {"on_response": records.on_response}
    if kind in ("wsgi", "green"):
        options |= {"interface": "wsgi", "green": kind == "green"}
    if way == "static":
        # As the paths that the other applications know.
        folder = course.long.parent / "static"
        folder.mkdir()
        (folder / "waits").symlink_to(course.long)
        course.long.rename(folder / "waits")
        course.short.rename(folder / "whole")
        options["static"] = settings([("/", str(folder))], [])
    async with serving(WAYS[way](course), **options) as site:
        try:
            yield site, records
        finally:
            course.is_open.set()
            threads = site.http.end_threads()
    for thread in threads:
        await asyncio.to_thread(thread.join, 10)
    records.check_metrics()
    assert site.http.total_requests == len(records.rows)


def asked(path: str) -> bytes:
    return GET.replace(b"/", path.encode(), 1)


async def leave(site: Site, wire: Wire, end: str, course: Course) -> None:
    """End the client's or the server's part, after the response has begun or while the application waits."""
    if end == "fin":
        # Whatever has arrived was read, so the system sends no reset.
        wire.writer.close()
    elif end == "rst":
        wire.reset()
    elif end == "half":
        wire.end()
    else:
        site.http.shut_down()
        site.http.cancel()
        await asyncio.sleep(0)
        site.http.abort()
    if end in ("fin", "half"):
        # A thread finds out when it sends; the others must be recorded without its help.
        course.is_open.set()
