"""The WSGI applications that the tests ask for, by the first part of the path."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import unquote
from wsgiref.validate import validator

Environ = dict[str, Any]
StartResponse = Callable[..., Callable[[bytes], object]]
App = Callable[[Environ, StartResponse], Iterable[bytes]]

ROUTES: dict[str, App] = {}
TEXT = [("Content-Type", "text/plain")]
server: Any = None
"""The native server, once it serves."""


class Told:
    """What has happened, and who waits for it."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.changed = threading.Condition()

    def add(self, name: str) -> None:
        with self.changed:
            self.names.append(name)
            self.changed.notify_all()

    def wait(self, name: str) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: name in self.names, 60)


told = Told()


def route(function: App) -> App:
    ROUTES[function.__name__] = function
    return function


def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    name = environ["PATH_INFO"].split("/")[1]
    if name == "validated":
        rest = environ["PATH_INFO"].removeprefix("/validated")
        environ["PATH_INFO"] = rest
        return validator(ROUTES[rest.split("/")[1]])(environ, start_response)  # type: ignore[arg-type]
    return ROUTES[name](environ, start_response)


def as_json(start_response: StartResponse, value: object) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(value).encode()]


class Closing:
    """An iterable that tells of its end."""

    def __init__(self, parts: Iterable[bytes], name: str) -> None:
        self.parts = iter(parts)
        self.name = name

    def __iter__(self) -> Iterator[bytes]:
        return self.parts

    def close(self) -> None:
        told.add(self.name)


@route
def hello(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    start_response("200 OK", TEXT)
    return [b"hello"]


@route
def environ(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    kinds = (str, int, bool, tuple)
    return as_json(start_response, {key: value for key, value in environ.items() if isinstance(value, kinds)})


@route
def echo(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    body = environ["wsgi.input"].read(-1 if "CONTENT_LENGTH" not in environ else int(environ["CONTENT_LENGTH"]))
    start_response("200 OK", [*TEXT, ("Content-Length", str(len(body)))])
    return [body]


@route
def reads(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """What a list of calls gives: the query, as in `read(3);readline()`."""
    given = environ["wsgi.input"]
    results: list[object] = []
    for call in environ["QUERY_STRING"].split(";"):
        name, _, rest = call.partition("(")
        arguments = [int(part) for part in rest.rstrip(")").split(",") if part]
        if name == "iter":
            results.append([line.decode("latin-1") for line in given])
        elif name == "readinto":
            room = bytearray(arguments[0])
            count = given.readinto(room)
            results.append(bytes(room[:count]).decode("latin-1"))
        else:
            result = getattr(given, name)(*arguments)
            is_list = isinstance(result, list)
            results.append([line.decode("latin-1") for line in result] if is_list else result.decode("latin-1"))
    return as_json(start_response, results)


@route
def cut(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Tells what became of reading all of the body."""
    name = environ["QUERY_STRING"]
    told.add(f"{name} began")
    try:
        environ["wsgi.input"].read()
    except OSError as error:
        told.add(f"{name} {type(error).__name__}")
        raise
    told.add(f"{name} complete")
    return hello(environ, start_response)


@route
def waited(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Waits until something has been told."""
    return as_json(start_response, told.wait(unquote(environ["QUERY_STRING"])))


@route
def tell(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    told.add(unquote(environ["QUERY_STRING"]))
    return hello(environ, start_response)


@route
def names(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    return as_json(start_response, told.names)


@route
def counters(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    values = {
        "requests": server.requests,
        "connections": server.connections,
        "threads": sum(thread.name.startswith("oneloop-wsgi") for thread in threading.enumerate()),
        "memory": int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
    }
    return as_json(start_response, values)


@route
def thread(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    return as_json(start_response, [threading.current_thread().name, threading.get_ident()])


# -- responses -------------------------------------------------------------------------------------------


@route
def parts(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """The parts of the query."""
    start_response("200 OK", TEXT)
    return Closing([part.encode() for part in environ["QUERY_STRING"].split(",")], "parts closed")


@route
def sized(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """`?length,part,part`."""
    length, *rest = environ["QUERY_STRING"].split(",")
    start_response("200 OK", [*TEXT, ("Content-Length", length)])
    return Closing([part.encode() for part in rest], "sized closed")


@route
def of_length(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """`?kind,length,part,part`: the parts, given in a way, with a Content-Length. `x*3` is xxx."""
    query = environ["QUERY_STRING"]
    kind, length, *rest = query.split(",")
    parts = [(text * int(times or 1)).encode() for text, _, times in (part.partition("*") for part in rest)]
    write = start_response("200 OK", [*TEXT, ("Content-Length", length)])

    def iterated(times: int) -> Iterator[bytes]:
        for _ in range(times):
            yield from parts
        told.add(f"{query} at its end")

    if kind.startswith("write"):
        try:
            for part in parts:
                write(part)
        except RuntimeError as error:
            told.add(f"{query} {error}")
            if kind == "write":
                raise
        return []
    if kind == "file":
        file: Iterable[bytes] = environ["wsgi.file_wrapper"](io.BytesIO(b"".join(parts)))
        return file
    results: dict[str, Iterable[bytes]] = {"list": parts, "tuple": tuple(parts)}
    endless = kind == "endless"
    return results.get(kind) or Closing(iterated(sys.maxsize if endless else 1), f"{query} closed")


@route
def empty(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    start_response("200 OK", TEXT)
    return []


@route
def generator(environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
    """Says its head when it is asked for the first part."""
    start_response("200 OK", TEXT)
    yield b""
    yield b"one"
    yield b"two"


@route
def status(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    code = environ["QUERY_STRING"].replace("+", " ")
    start_response(code, [] if code[:3] in ("204", "304") else TEXT)
    return [] if code[:3] in ("204", "304") else [b"body"]


@route
def body_with_204(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    start_response("204 No Content", [("Content-Length", "6"), ("X-One", "1")])
    return [b"a body"]


@route
def written(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    write = start_response("200 OK", TEXT)
    write(b"first ")
    assert told.wait("first was seen")
    write(b"second ")
    return [b"third"]


@route
def slow_parts(environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
    """A part leaves before the next one is asked for."""
    start_response("200 OK", TEXT)
    yield b"first "
    assert told.wait("a part was seen")
    yield b"second"


@route
def fields(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Headers as the body has them in JSON."""
    given = [tuple(pair) for pair in json.loads(environ["wsgi.input"].read())]
    start_response("200 OK", given)
    return [b"accepted"]


@route
def mistakes(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """What `start_response` raises for wrong arguments."""
    wrong: list[tuple[Any, ...]] = [
        (200, []),
        (b"200 OK", []),
        ("OK", []),
        ("20 OK", []),
        ("100 Continue", []),
        ("200 OK\r\nX: 1", []),
        ("200 \x00", []),
        ("200 OK", ()),
        ("200 OK", {}),
        ("200 OK", [["a", "b"]]),
        ("200 OK", [("a", "b", "c")]),
        ("200 OK", [("a", 1)]),
        ("200 OK", [(b"a", b"b")]),
        ("200 OK", [("a", "b\r\nc: d")]),
        ("200 OK", [("a", "b\nc")]),
        ("200 OK", [("a", "b\x00")]),
        ("200 OK", [("a:", "b")]),
        ("200 OK", [("a\r\nb", "c")]),
        ("200 OK", [("", "b")]),
        ("200 OK", [("a", "\u20ac")]),
        ("200 OK", [("Content-Length", "x")]),
        ("200 OK", [("Content-Length", "1"), ("Content-Length", "2")]),
        ("200 OK", [("a", "b\x01")]),
        ("200 OK", [("a", "b\x7f")]),
        (),
        ("200 OK",),
        ("200 OK", [], None, None),
    ]
    results = []
    for arguments in wrong:
        try:
            start_response(*arguments)
        except Exception as error:
            results.append(type(error).__name__)
        else:
            results.append(f"taken: {arguments}")
    try:
        start_response("200 OK", [], wrong=1)
    except TypeError:
        results.append("TypeError")
    return as_json(start_response, results)


@route
def twice(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    start_response("200 OK", [("X-First", "1")])
    try:
        start_response("200 OK", [])
    except AssertionError:
        told.add("twice refused")
    try:
        raise ValueError("a reason")
    except ValueError:
        start_response("500 Replaced", [("X-Second", "2")], sys.exc_info())
    return [b"replaced"]


@route
def twice_late(environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
    start_response("200 OK", TEXT)
    yield b"part"
    try:
        raise ValueError("a reason")
    except ValueError:
        try:
            start_response("500 Late", [], exc_info=sys.exc_info())
        except ValueError as error:
            told.add(f"raised again: {error}")
            raise


@route
def no_start(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    return [b"no head"]


@route
def no_start_empty(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    return []


@route
def wrong_type(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    start_response("200 OK", TEXT)
    return Closing(["text"], "wrong closed")  # type: ignore[list-item]


@route
def returns_none(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    start_response("200 OK", TEXT)
    return None  # type: ignore[return-value]


@route
def raises(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    raise RuntimeError("secret of the traceback")


@route
def raises_started(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    start_response("200 OK", TEXT)
    raise RuntimeError("secret of the traceback")


@route
def raises_midway(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    start_response("200 OK", TEXT)

    def parts() -> Iterator[bytes]:
        yield b"part"
        raise RuntimeError("secret of the traceback")

    return Closing(parts(), "midway closed")


@route
def raises_closing(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    start_response("200 OK", TEXT)

    class Raising(Closing):
        def close(self) -> None:
            super().close()
            raise RuntimeError("in close")

    return Raising([b"whole"], "raising closed")


@route
def raises_exit(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    sys.exit("secret")


@route
def exits(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    from greenlet import GreenletExit

    raise GreenletExit


@route
def endless(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Parts for ever; of a size that the socket takes, or not."""
    start_response("200 OK", TEXT)
    name, size = unquote(environ["QUERY_STRING"]).split(",")

    def parts() -> Iterator[bytes]:
        while True:
            yield b"x" * int(size)

    return Closing(parts(), f"{name} closed")


@route
def endless_write(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    write = start_response("200 OK", TEXT)
    try:
        while True:
            write(b"x" * 65_536)
    except OSError as error:
        told.add(f"write raised {type(error).__name__}")
        raise


@route
def large(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """`?count,size`: so many parts of that size."""
    count, size = map(int, environ["QUERY_STRING"].split(","))
    start_response("200 OK", [*TEXT, ("Content-Length", str(count * size))])
    part = b"x" * size
    told.add("large began")

    def parts() -> Iterator[bytes]:
        for number in range(count):
            yield part
            if number == 256:
                told.add("256 parts")

    return Closing(parts(), "large closed")


@route
def upload(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """How much has come, and how much memory that took at most."""
    length, most = 0, 0
    while data := environ["wsgi.input"].read(65_536):
        length += len(data)
        with open("/proc/self/statm") as file:
            most = max(most, int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    return as_json(start_response, [length, most])


@route
def early(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Responses without a look at the body."""
    start_response("403 Forbidden", TEXT)
    return [b"no"]


@route
def file(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """`?size,start`: a real file, from `start` on."""
    size, start = map(int, environ["QUERY_STRING"].split(","))
    opened = tempfile.TemporaryFile()
    opened.write(bytes(range(256)) * (size // 256 + 1))
    opened.truncate(size)
    opened.seek(start)
    start_response("200 OK", TEXT)
    result: Iterable[bytes] = environ["wsgi.file_wrapper"](opened, 4096)
    return result


@route
def file_of_length(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """`?size,start,length`: a real file, from `start` on, with a Content-Length."""
    size, start, length = map(int, environ["QUERY_STRING"].split(","))
    opened = tempfile.TemporaryFile()
    opened.write(bytes(range(256)) * (size // 256 + 1))
    opened.truncate(size)
    opened.seek(start)
    start_response("200 OK", [*TEXT, ("Content-Length", str(length))])
    result: Iterable[bytes] = environ["wsgi.file_wrapper"](opened, 4096)
    return result


@route
def file_closed(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """A file of 50 MB, which tells of its end."""
    path = environ["QUERY_STRING"]

    class Told(io.FileIO):
        def close(self) -> None:
            told.add(f"{path} closed")
            super().close()

    with open(path, "wb") as new:
        new.truncate(50_000_000)
    start_response("200 OK", TEXT)
    result: Iterable[bytes] = environ["wsgi.file_wrapper"](Told(path))
    return result


@route
def file_in_memory(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    class Closed(io.BytesIO):
        def close(self) -> None:
            told.add("memory closed")
            super().close()

    start_response("200 OK", TEXT)
    result: Iterable[bytes] = environ["wsgi.file_wrapper"](Closed(b"m" * 100_000))
    return result


@route
def file_packed(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Its descriptor is that of what it unpacks."""
    packed = tempfile.TemporaryFile()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=0) as new:
        new.write(b"p" * 100_000)
    packed.seek(0)
    start_response("200 OK", TEXT)
    unpacking: Any = gzip.GzipFile(fileobj=packed, mode="rb")
    # It closes this one, too.
    unpacking.myfileobj = packed
    result: Iterable[bytes] = environ["wsgi.file_wrapper"](unpacking)
    return result


@route
def file_of_kernel(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """A regular file that has no size."""
    start_response("200 OK", TEXT)
    result: Iterable[bytes] = environ["wsgi.file_wrapper"](open("/proc/version", "rb"))
    return result


@route
def block(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Waits until it is told to go on."""
    name = environ["QUERY_STRING"]
    told.add(f"{name} blocks")
    told.wait(f"{name} goes")
    return hello(environ, start_response)


@route
def compute(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    end_s = time.thread_time() + 0.02
    while time.thread_time() < end_s:
        pass
    return hello(environ, start_response)
