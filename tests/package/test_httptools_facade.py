"""`oneloop.compat.httptools`: httptools' names and behaviour, and the differences that its docstring names."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from oneloop import compat
from oneloop.compat import httptools

CALLBACKS = [
    "on_message_begin",
    "on_url",
    "on_status",
    "on_header",
    "on_headers_complete",
    "on_body",
    "on_chunk_header",
    "on_chunk_complete",
    "on_message_complete",
]

Trace = list[tuple[Any, ...]]


class Recorder:
    """Keeps what a parser calls; pieces of one text are joined."""

    def __init__(self) -> None:
        self.trace: Trace = []
        self.parser: Any = None

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name not in CALLBACKS:
            raise AttributeError(name)

        def record(*args: Any) -> None:
            if name in ("on_url", "on_status", "on_body") and self.trace and self.trace[-1][0] == name:
                self.trace[-1] = (name, self.trace[-1][1] + args[0])
            else:
                self.trace.append((name, *args))
            if name == "on_headers_complete":
                parser = self.parser
                self.trace.append((parser.get_http_version(), parser.should_keep_alive(), parser.should_upgrade()))

        return record


def trace_of(library: Any, kind: str, data: bytes, step: int) -> Trace:
    """What a library's parser calls for `data` in pieces of `step` bytes, and what it raises in the end."""
    recorder = Recorder()
    recorder.parser = getattr(library, kind)(recorder)
    for at in range(0, len(data), step):
        try:
            recorder.parser.feed_data(data[at : at + step])
        except library.HttpParserUpgrade as upgrade:
            recorder.trace.append(("upgrade", at + upgrade.args[0]))
            break
        except library.HttpParserError as error:
            recorder.trace.append((type(error).__name__,))
            break
    return recorder.trace


HEAD = b"POST /a HTTP/1.1\r\nHost: a\r\n"

REQUESTS = [
    b"GET /a?b HTTP/1.1\r\nHost: a\r\nA: b\r\n\r\nGET / HTTP/1.0\r\n\r\n",
    b"\r\n" + HEAD + b"Content-Length: 3\r\n\r\nabc" + HEAD + b"Connection: close\r\n\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nother",
    b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\nother",
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"SPAM / HTTP/1.1\r\nHost: a\r\n\r\n",
]

RESPONSES = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.0 204 No Content\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nHTTP/1.1 304 \r\n\r\n",
    b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\nabc",
    b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nother",
    b"HTTP/1.1 2000 OK\r\n\r\n",
]


@pytest.mark.parametrize("step", [1, 2, 3, 7, 10_000])
@pytest.mark.parametrize(
    ("kind", "data"),
    [("HttpRequestParser", data) for data in REQUESTS] + [("HttpResponseParser", data) for data in RESPONSES],
)
def test_calls_are_those_of_httptools(kind: str, data: bytes, step: int) -> None:
    theirs = pytest.importorskip("httptools")
    assert trace_of(httptools, kind, data, step) == trace_of(theirs, kind, data, step)


@pytest.mark.parametrize(
    "url",
    [
        b"/",
        b"*",
        b"/a?b#c",
        b"//a/b",
        b"http://a",
        b"http://a:80?b",
        b"HTTPS://u:p@[::1]:1/a?b?c#d",
        b"http://a:99999/",
        b"http://a:/",
        b"http://",
        b"http:///a",
        b"a",
        b"a:b",
        b"?a",
        b"/\xe4",
        b"/a b",
        b"/a\x7f",
        b"http://a@b@c/",
        b"http://a_b.c-d/",
        b"http://a,b/",
        b"http://@a/",
        b"/?",
        b"/#",
        b"/a#b#c",
        b"/a##b",
        b"http://a#b",
        b"http://[::1%eth0]/",
        b"http://[x]/",
        b"://a",
        b"h2://a",
    ],
)
def test_urls_are_taken_apart_as_by_httptools(url: bytes) -> None:
    theirs = pytest.importorskip("httptools")
    names = ["schema", "host", "port", "path", "query", "fragment", "userinfo"]

    def parts(library: Any) -> list[Any] | None:
        try:
            parsed = library.parse_url(url)
        except library.HttpParserInvalidURLError:
            return None
        assert repr(parsed).startswith("<URL schema: ")
        return [getattr(parsed, name) for name in names]

    assert parts(httptools) == parts(theirs)


def test_names() -> None:
    theirs = pytest.importorskip("httptools")
    assert set(httptools.__all__) == set(theirs.__all__)
    assert httptools.__version__ == theirs.__version__
    assert set(httptools.parser.__all__) == set(theirs.parser.__all__)
    assert "httptools" in compat.KNOWN


def test_installed_facade_is_what_import_finds() -> None:
    program = (
        "from oneloop import compat; compat.install('httptools')\n"
        "import httptools, httptools.parser.errors\n"
        "from httptools.parser.parser import HttpRequestParser\n"
        "print(httptools.__name__, HttpRequestParser is httptools.HttpRequestParser)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "oneloop.compat.httptools True\n"


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        b"GET /#a HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"b" * 300_000,
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 256,
    ],
)
def test_strict_where_httptools_is_not(data: bytes) -> None:
    parser = httptools.HttpRequestParser(None)
    for _ in range(2):
        with pytest.raises(httptools.HttpParserError):
            parser.feed_data(data)


@pytest.mark.parametrize("name", [name for name in CALLBACKS if name != "on_status"])
def test_a_callback_that_raises(name: str) -> None:
    class Protocol:
        pass

    def fail(*args: object) -> None:
        raise KeyError(name)

    protocol = Protocol()
    setattr(protocol, name, fail)
    parser = httptools.HttpRequestParser(protocol)
    with pytest.raises(httptools.HttpParserCallbackError, match=f"`{name}` callback error") as raised:
        parser.feed_data(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n1\r\na\r\n0\r\n\r\n")
    assert isinstance(raised.value.__context__, KeyError)
    with pytest.raises(httptools.HttpParserCallbackError):
        parser.feed_data(b"GET")


def test_feeding_from_a_callback_is_refused() -> None:
    class Protocol:
        def on_url(self, url: bytes) -> None:
            parser.feed_data(b"GET / HTTP/1.1\r\n")

    parser = httptools.HttpRequestParser(Protocol())
    with pytest.raises(httptools.HttpParserCallbackError) as raised:
        parser.feed_data(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert isinstance(raised.value.__context__, httptools.HttpParserError)


def test_a_protocol_that_holds_its_parser_is_collected() -> None:
    class Protocol:
        def __init__(self) -> None:
            self.parser = httptools.HttpRequestParser(self)

        def on_url(self, url: bytes) -> None: ...

    protocol = Protocol()
    seen = weakref.ref(protocol)
    protocol.parser.feed_data(b"GET / HTTP/1.1\r\nHo")
    del protocol
    gc.collect()
    assert seen() is None


def test_subclasses_and_bytes_like_data() -> None:
    class Parser(httptools.HttpRequestParser):
        def __init__(self, extra: int) -> None:
            super().__init__(self)
            self.extra = extra
            self.urls: list[bytes] = []

        def on_url(self, url: bytes) -> None:
            self.urls.append(url)

    parser = Parser(extra=1)
    for data in (bytearray(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"), memoryview(b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n")):
        parser.feed_data(data)
    assert parser.urls == [b"/a", b"/b"]
    assert parser.get_method() == b"GET"
