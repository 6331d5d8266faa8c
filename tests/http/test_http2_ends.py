"""HTTP/2: how streams and connections end. Nothing of a response is lost, and nothing is held for ever."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import time
from typing import TYPE_CHECKING

import pytest
from hpack import Decoder, Encoder

from tests.http.http2_peer import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    LIMIT_S,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Peer,
    Raw,
    frame,
    frames,
    head,
)
from tests.http.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.time_limit(120)

WIDE = struct.pack(">HI", 4, 1 << 24)
OPENS = frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 24))
NO_ERROR, CANCEL = 0, 8
APP = """
import asyncio, os


async def body_of(receive):
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            print("gone", flush=True)
            raise OSError
        parts.append(message["body"])
        if not message["more_body"]:
            return b"".join(parts)


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for _ in range(2):
            await send({"type": (await receive())["type"] + ".complete"})
        return
    path, number = scope["path"], int(scope["query_string"] or b"0")
    if scope["type"] == "websocket":
        await receive()
        if path == "/late":
            while not os.path.exists("go"):
                await asyncio.sleep(0.01)
        await send({"type": "websocket.accept"})
        message = await receive()
        print("heard", message.get("text"), message["type"], flush=True)
        return
    status, fields, body = 200, [], b""
    if path == "/late":
        open("waiting", "w").close()
        while not os.path.exists("go"):
            await asyncio.sleep(0.01)
        body = str(len(await body_of(receive))).encode()
    elif path == "/echo":
        body = await body_of(receive)
    elif path == "/big":
        body = b"x" * number
    elif path == "/204":
        status = 204
    elif path == "/304":
        status = 304
    elif path == "/spaces":
        fields = [(b"x-a", b" a b "), (b"x-b", b"")]
    elif path == "/poll":
        while (await receive())["type"] != "http.disconnect":
            pass
        print("told", flush=True)
        return
    if path == "/trailers":
        await send({"type": "http.response.start", "status": 200, "headers": [], "trailers": True})
        await send({"type": "http.response.body", "body": b"x" * number})
        fields = [(b"grpc-status", b"0"), (b"connection", b"close"), (b"keep-alive", b"1")]
        await send({"type": "http.response.trailers", "headers": fields})
        return
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
"""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    begun: list[Service] = []

    def begin(*arguments: str) -> Service:
        begun.append(Service(tmp_path, *arguments, source=APP))
        return begun[-1]

    yield begin
    for service in begun:
        service.__exit__(None, None, None)


def read_until(raw: Raw, is_enough: Callable[[list[tuple[int, int, bytes]]], bool]) -> list[tuple[int, int, bytes]]:
    """Read until the frames that have come are enough, or the connection ends."""
    while not is_enough(found := list(frames(raw.got))):
        data = raw.sock.recv(65536)
        if not data:
            raw.is_closed = True
            return list(frames(raw.got))
        raw.got += data
    return found


def is_over(stream: int) -> Callable[[list[tuple[int, int, bytes]]], bool]:
    return lambda found: any(kind == RST_STREAM and where == stream for kind, where, _ in found)


def heads_of(raw: Raw, stream: int) -> list[list[tuple[str, str]]]:
    decoder = Decoder()
    heads = [(where, decoder.decode(payload)) for kind, where, payload in frames(raw.got) if kind == HEADERS]
    return [[(str(name), str(value)) for name, value in fields] for where, fields in heads if where == stream]


def status_of(raw: Raw, stream: int = 1) -> str:
    return dict(heads_of(raw, stream)[0])[":status"]


def slow_reader(port: int) -> Raw:
    """A client whose kernel takes little, with windows that are no limit."""
    sock = socket.socket()
    sock.settimeout(LIMIT_S)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", port))
    raw = Raw.__new__(Raw)
    raw.sock, raw.got, raw.is_closed = sock, b"", False
    raw.send(PREFACE, frame(SETTINGS, 0, 0, WIDE), OPENS)
    return raw


def test_a_body_over_the_limit_gets_one_413(serve: Callable[..., Service]) -> None:
    """Each further frame was refused, too: the response was cut off by a reset, with a warning for each frame."""
    service = serve("--max-body-size", "1000")
    with Raw(service.port) as raw:
        parts = [frame(DATA, 0, 1, b"a" * 500) for _ in range(20)]
        raw.send(frame(HEADERS, END_HEADERS, 1, head(path="/echo", method="POST")), *parts)
        found = read_until(raw, is_over(1))
    assert status_of(raw) == "413"
    assert [payload for kind, _, payload in found if kind == RST_STREAM] == [struct.pack(">I", NO_ERROR)]
    service.end()
    assert service.log.text.count("too long") == 1


@pytest.mark.parametrize("path", ["/204", "/304", "/trailers?5"])
def test_a_response_to_an_upload_behind_a_full_transport(serve: Callable[..., Service], path: str) -> None:
    """The early end of the request came before the response that it follows, which was dropped."""
    service = serve()
    with slow_reader(service.port) as raw:
        raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, head(path="/big?9000000")))
        service.log.read_more(0.5)
        raw.send(frame(HEADERS, END_HEADERS, 3, head(path=path, method="POST")))
        service.log.read_more(0.5)
        read_until(raw, is_over(3))
    assert heads_of(raw, 3), "no response"
    assert len(heads_of(raw, 3)) == (2 if "trailers" in path else 1)


@pytest.mark.parametrize("length", [*range(49_104, 49_153, 8), 98_304])
def test_trailers_of_an_early_response(serve: Callable[..., Service], length: int) -> None:
    """Where a round of sending ended behind the body, the request was ended before the trailers were sent."""
    service = serve()
    with Raw(service.port, settings=WIDE) as raw:
        raw.send(OPENS, frame(HEADERS, END_HEADERS, 1, head(path=f"/trailers?{length}", method="POST")))
        read_until(raw, is_over(1))
    first, last = heads_of(raw, 1)
    assert (dict(first)[":status"], last) == ("200", [("grpc-status", "0")])


def test_fields_as_http2_allows_them(serve: Callable[..., Service]) -> None:
    """No spaces around values, nothing about the connection in trailers: a strict client would refuse the response."""
    service = serve()
    with Peer(service.port) as peer:
        fields = peer.get("/spaces").fields
        assert (fields["x-a"], fields["x-b"]) == ("a b", "")
        assert peer.get("/trailers?5").trailers == {"grpc-status": "0"}


def test_cookies_apart_are_one_field(serve: Callable[..., Service]) -> None:
    service = serve()
    with Raw(service.port) as raw:
        cookies = [("cookie", f"a{number}=b") for number in range(180)]
        raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, head(*cookies, ("x-last", "b"))))
        raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 3, head(*[(f"x-{number}", "b") for number in range(180)])))
        read_until(raw, lambda found: sum(kind == HEADERS for kind, _, _ in found) == 2)
    assert (status_of(raw, 1), status_of(raw, 3)) == ("200", "431")


@pytest.mark.parametrize(
    "field", [("x-a", "a\r\nb: c"), ("x-a", "a\0b"), ("x-a", "\x01"), ("x a", "b"), ("x-a", " b"), ("x-a", "b\t")]
)
def test_fields_that_are_not_valid(serve: Callable[..., Service], field: tuple[str, str]) -> None:
    """RFC 9113 section 8.2.1: such a request is malformed. The field was left out in silence."""
    service = serve()
    with Raw(service.port) as raw:
        raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, head(field)))
        raw.read_to_end()
    kinds = [(kind, payload[4:8]) for kind, _, payload in frames(raw.got) if kind in (HEADERS, GOAWAY)]
    assert kinds == [(GOAWAY, struct.pack(">I", 1))]
    assert "a header field that is not valid" in service.log.wait_for("HTTP/2 connection .*\n").group()


def test_the_log_names_the_error(serve: Callable[..., Service]) -> None:
    """Each error for which nghttp2 has no text was taken for a flood."""
    service = serve()
    with Raw(service.port) as raw:
        raw.send(frame(HEADERS, END_HEADERS, 1, head(("content-length", "5"), path="/echo", method="POST")))
        raw.send(frame(DATA, END_STREAM, 1, b"abc"))
        raw.read_to_end()
    service.log.wait_for("HTTP/2 connection of .* ended: PROTOCOL_ERROR\n")


def test_an_empty_body_that_does_not_end(serve: Callable[..., Service]) -> None:
    """A request with Content-Length 0 whose stream stays open: it counted as open for ever."""
    service = serve("--timeout-keep-alive", "0.3")
    with Raw(service.port) as raw:
        raw.send(frame(HEADERS, END_HEADERS, 1, head(("content-length", "0"), method="POST")))
        raw.read_to_end()
    ends = [payload for kind, _, payload in frames(raw.got) if kind == RST_STREAM]
    assert (status_of(raw), ends) == ("200", [struct.pack(">I", NO_ERROR)])


def test_a_head_that_never_ends_after_goaway(serve: Callable[..., Service]) -> None:
    service = serve("--timeout-header", "0.3", "--timeout-keep-alive", "0.3")
    with Raw(service.port) as raw:
        raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, head(path="/late")))
        service.wait_for_file("waiting")
        raw.send(frame(GOAWAY, 0, 0, bytes(8)), frame(HEADERS, END_STREAM, 3, head()))
        raw.read_to_end()


def test_a_head_that_never_ends_at_shutdown(serve: Callable[..., Service]) -> None:
    """It held up the end of the server for ever."""
    service = serve("--timeout-header", "1")
    with Raw(service.port) as raw:
        raw.send(frame(HEADERS, END_STREAM, 1, head()))
        service.log.read_more(0.3)
        assert service.end() == 0


def test_the_time_for_a_head_ends_with_it(serve: Callable[..., Service]) -> None:
    """Trailers in two parts: their deadline stayed, and cut off the response."""
    service = serve("--timeout-header", "0.5")
    with Raw(service.port) as raw:
        raw.send(frame(HEADERS, END_HEADERS, 1, head(path="/late", method="POST")), frame(DATA, 0, 1, b"abc"))
        service.wait_for_file("waiting")
        raw.send(frame(HEADERS, END_STREAM, 1, Encoder().encode([("x-a", "b")])))
        service.log.read_more(0.1)
        raw.send(frame(CONTINUATION, END_HEADERS, 1))
        service.log.read_more(1.5)
        (service.folder / "go").touch()
        found = read_until(raw, lambda found: any(kind == DATA for kind, _, _ in found))
    assert [payload for kind, _, payload in found if kind == DATA] == [b"3"]


def test_a_slow_client_gets_all_before_the_end(serve: Callable[..., Service]) -> None:
    """A closed connection was cut off after two seconds, although its client was still to read."""
    # No limit for a client that takes nothing meanwhile: they are read one after the other.
    service = serve("--timeout-keep-alive", "0.3", "--timeout-send", "0")
    lengths = range(2_300_000, 3_000_000, 25_000)
    raws = [slow_reader(service.port) for _ in lengths]
    for raw, length in zip(raws, lengths, strict=True):
        raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, head(path=f"/big?{length}")))
    service.log.read_more(1.0)
    end_s = time.monotonic() + 4
    while time.monotonic() < end_s:
        service.log.read_more(0.5)
    for raw in raws:
        raw.read_to_end()
        raw.sock.close()
    got = [sum(len(payload) for kind, _, payload in frames(raw.got) if kind == DATA) for raw in raws]
    assert got == list(lengths)


def test_a_full_window_has_no_deadline(serve: Callable[..., Service]) -> None:
    """The client cannot send the rest of the body before the application has taken some: it is not late."""
    service = serve("--http2-stream-window", "65535", "--timeout-body", "0.4")
    with Raw(service.port) as raw:
        raw.send(frame(HEADERS, END_HEADERS, 1, head(path="/late", method="POST")))
        raw.send(*[frame(DATA, 0, 1, b"a" * 13_107) for _ in range(5)])
        service.log.read_more(1.5)
        (service.folder / "go").touch()
        read_until(raw, lambda found: any(kind == WINDOW_UPDATE and stream == 1 for kind, stream, _ in found))
        raw.send(frame(DATA, END_STREAM, 1, b"b"))
        found = read_until(raw, lambda found: any(kind == DATA for kind, _, _ in found))
    assert [payload for kind, _, payload in found if kind == DATA] == [b"65536"]


def test_a_thread_takes_a_body_that_has_filled_its_window(tmp_path: Path) -> None:
    """A window of 64 KiB is full before a body counts as one that a thread should take: nobody went on."""
    source = """
def app(environ, start_response):
    start_response("200 OK", [])
    return [str(len(environ["wsgi.input"].read())).encode()]
"""
    with (
        Service(tmp_path, "--http2-stream-window", "65535", "--timeout-body", "2", source=source) as service,
        Peer(service.port) as peer,
    ):
        stream = peer.ask("/", "POST", ends=False)
        peer.send_body(stream, b"a" * 500_000)
        [response] = peer.wait(stream)
        assert (response.status, response.body) == (200, b"500000")


@pytest.mark.parametrize(
    ("path", "ends"), [("/echo", 0), ("/big?5000000", END_STREAM), ("/trailers?500000", END_STREAM)]
)
def test_a_client_that_ends_its_side(serve: Callable[..., Service], path: str, ends: int) -> None:
    """What waits for more of the request, or for a window, cannot go on: it stayed to its deadline, if it had one."""
    service = serve("--timeout-body", "0", "--timeout-send", "0")
    with Raw(service.port) as raw:
        raw.send(frame(HEADERS, END_HEADERS | ends, 1, head(path=path, method="POST")))
        service.log.read_more(0.3)
        raw.sock.shutdown(socket.SHUT_WR)
        raw.read_to_end()
    assert (RST_STREAM, 1, struct.pack(">I", CANCEL)) in list(frames(raw.got))


def test_an_error_and_the_end_of_a_client(serve: Callable[..., Service]) -> None:
    """A session that has ended by an error resets no stream: the server tried for ever."""
    service = serve()
    for ends in (True, False):
        with Raw(service.port) as raw:
            raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, head(path="/big?5000000")))
            service.log.read_more(0.2)
            raw.send(frame(DATA, 0, 0, b"a"))
            if ends:
                raw.sock.shutdown(socket.SHUT_WR)
            raw.read_to_end()
        with Raw(service.port) as raw:
            raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, head(path="/big?5000000")))
            service.log.read_more(0.2)
            raw.send(frame(DATA, 0, 0, b"a"))
            raw.sock.shutdown(socket.SHUT_RDWR)
    with Peer(service.port) as peer:
        assert peer.get("/").status == 200


def test_a_client_that_ends_its_side_gets_what_fits(serve: Callable[..., Service]) -> None:
    service = serve()
    with Raw(service.port, settings=WIDE) as raw:
        raw.send(OPENS, frame(HEADERS, END_HEADERS | END_STREAM, 1, head(path="/big?5000000")))
        raw.sock.shutdown(socket.SHUT_WR)
        raw.read_to_end()
    assert sum(len(payload) for kind, _, payload in frames(raw.got) if kind == DATA) == 5_000_000


def connect(path: str) -> bytes:
    encoder = Encoder()
    encoder.header_table_size = 0
    pseudo = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":authority", "a")]
    return bytes(encoder.encode([*pseudo, (":path", path), ("sec-websocket-version", "13")]))


TEXT = b"\x81\x85\0\0\0\0early"


def test_a_websocket_message_before_its_acceptance(serve: Callable[..., Service]) -> None:
    """It was lost."""
    service = serve()
    with Raw(service.port) as raw:
        raw.send(frame(HEADERS, END_HEADERS, 1, connect("/late")), frame(DATA, 0, 1, TEXT[:4]))
        service.log.read_more(0.3)
        raw.send(frame(DATA, 0, 1, TEXT[4:]))
        (service.folder / "go").touch()
        service.out.wait_for("heard early websocket.receive")


def test_a_websocket_whose_client_leaves_before_its_acceptance(serve: Callable[..., Service]) -> None:
    """The application was not told."""
    service = serve("--ws-ping-interval", "0")
    with Raw(service.port) as raw:
        raw.send(frame(HEADERS, END_HEADERS, 1, connect("/late")))
        service.log.read_more(0.3)
        raw.send(frame(DATA, END_STREAM, 1))
        found = read_until(raw, is_over(1))
        assert found[-1] == (RST_STREAM, 1, struct.pack(">I", CANCEL))
        raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 3, connect("/")))
        read_until(raw, lambda found: any(kind == HEADERS and stream == 3 for kind, stream, _ in found))
    assert status_of(raw, 3) == "400"


@pytest.mark.parametrize("is_h2", [True, False])
def test_a_busy_server_is_healthy(serve: Callable[..., Service], is_h2: bool) -> None:
    service = serve("--health", "/health", "--limit-concurrency", "1")
    if is_h2:
        with Peer(service.port) as peer:
            peer.ask("/late")
            assert (peer.get("/health").status, peer.get("/").status) == (200, 503)
    else:
        with service.ask_later("/late"):
            service.wait_for_file("waiting")
            assert (service.ask("GET", "/health")[0], service.ask("GET", "/")[0]) == (200, 503)


def test_nothing_is_left_of_clients_that_leave(serve: Callable[..., Service]) -> None:
    """Each way to leave at each moment of each kind of exchange: no request counts on, no descriptor stays."""
    service = serve("--limit-concurrency", "4")
    descriptors = f"/proc/{service.process.pid}/fd"

    def count() -> int:
        return len(os.listdir(descriptors))

    with Peer(service.port) as peer:
        assert peer.get("/").status == 200
    before = count()
    ways: dict[str, Callable[[Raw], object]] = {
        "reset": lambda raw: raw.send(frame(RST_STREAM, 0, 1, struct.pack(">I", CANCEL))),
        "close": lambda _: None,
        "abort": lambda raw: raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)),
        "half": lambda raw: raw.sock.shutdown(socket.SHUT_WR),
    }
    paths = ("/", "/echo", "/poll", "/big?5000000", "/trailers?300000", "/204")
    for way, path, ends, pause_s in itertools.product(ways, paths, (0, END_STREAM), (0, 0.05)):
        with Raw(service.port) as raw:
            raw.send(frame(HEADERS, END_HEADERS | ends, 1, head(path=path, method="POST")))
            service.log.read_more(pause_s)
            ways[way](raw)
            service.log.read_more(pause_s)
    end_s = time.monotonic() + LIMIT_S
    while count() > before:
        assert time.monotonic() < end_s, (count(), before)
        service.log.read_more(0.1)
    with Peer(service.port) as peer:
        assert [peer.get("/").status for _ in range(5)] == [200] * 5
