"""HTTP/2: requests and responses, bodies both ways, WebSocket, the end of a connection."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
from test.test_asyncio.utils import ONLYCERT, ONLYKEY

from tests.certificates import client_context
from tests.http.http2_peer import Peer, Raw
from tests.http.service import Service

pytestmark = pytest.mark.time_limit(180)

TLS = ("--ssl-certfile", ONLYCERT, "--ssl-keyfile", ONLYKEY)
APP = """
import asyncio, json, os

BIG = bytes(range(256)) * 4096


async def body_of(receive):
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for _ in range(2):
            await send({"type": (await receive())["type"] + ".complete"})
        return
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept", "subprotocol": (scope["subprotocols"] or [None])[0]})
        while (message := await receive())["type"] == "websocket.receive":
            if message.get("text") == "close":
                await send({"type": "websocket.close", "code": 4000})
                return
            await send({"type": "websocket.send", "text": message.get("text"), "bytes": message.get("bytes")})
        print("websocket ended", message.get("code"), flush=True)
        return
    path, body, fields = scope["path"], b"", []
    if path == "/scope":
        keys = ("http_version", "method", "path", "scheme", "headers", "query_string", "client", "extensions")
        told = {key: scope[key] for key in keys} | {"raw_path": scope["raw_path"]}
        body = json.dumps(told, default=lambda value: value.decode()).encode()
    elif path == "/echo":
        body = await body_of(receive)
    elif path == "/big":
        body = BIG
    elif path == "/slow":
        await asyncio.sleep(0.3)
        body = b"slow"
    elif path == "/wait":
        open("waiting", "w").close()
        while not os.path.exists("go"):
            await asyncio.sleep(0.01)
        body = b"waited"
    elif path == "/connection":
        fields = [(b"connection", b"close"), (b"keep-alive", b"1"), (b"transfer-encoding", b"chunked")]
    elif path == "/fail":
        raise RuntimeError("of the test")
    elif path == "/break":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise RuntimeError("of the test")
    elif path == "/hints":
        await send({"type": "http.response.early_hint", "links": [b"</a.css>; rel=preload"]})
    elif path == "/trailers":
        await send({"type": "http.response.start", "status": 200, "headers": [], "trailers": True})
        await send({"type": "http.response.body", "body": b"data", "more_body": False})
        await send({"type": "http.response.trailers", "headers": [(b"grpc-status", b"0")], "more_trailers": True})
        await send({"type": "http.response.trailers", "headers": [(b"grpc-message", b"fine")]})
        return
    elif path == "/file":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.pathsend", "path": os.path.abspath("file")})
        return
    elif path == "/early":
        await send({"type": "http.response.start", "status": 403, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})
        return
    elif path == "/gone":
        open("waiting", "w").close()
        while (await receive())["type"] != "http.disconnect":
            pass
        print("told", flush=True)
        return
    elif path == "/stream":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        sent = 0
        try:
            while True:
                await send({"type": "http.response.body", "body": BIG[:65536], "more_body": True})
                await asyncio.sleep(0)
                sent += 1
                if sent < 100:
                    print("sent", sent, flush=True)
        except OSError as error:
            print("raised", error, flush=True)
            raise
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain"), *fields]})
    await send({"type": "http.response.body", "body": body})


def wsgi(environ, start_response):
    data = environ["wsgi.input"].read()
    start_response("201 Made", [("Content-Type", "text/plain")])
    yield f"{environ['SERVER_PROTOCOL']} {environ['REQUEST_METHOD']} {environ['PATH_INFO']} {len(data)};".encode()
    yield b"x" * 100_000
    yield environ.get("HTTP_COOKIE", "").encode()
"""


@pytest.mark.parametrize("options", [(), TLS, (*TLS, "--ssl-ciphers", "ECDHE+AESGCM"), ("--http", "2")])
def test_many_requests_on_one_connection(tmp_path: Path, options: tuple[str, ...]) -> None:
    with Service(tmp_path, *options, source=APP) as service:
        context = client_context() if options[:1] == ("--ssl-certfile",) else None
        with Peer(service.port, context) as peer:
            streams = [peer.ask(path) for path in ("/slow", "/big", "/", "/big", "/slow")]
            slow, big, empty, other, last = peer.wait(*streams)
            assert [one.status for one in (slow, big, empty, other, last)] == [200] * 5
            assert slow.body == last.body == b"slow"
            assert big.body == other.body == bytes(range(256)) * 4096
            assert empty.body == b""
            assert big.fields["server"] == "oneloop"
            assert "date" in big.fields
        assert service.end() == 0
        assert '"GET /big HTTP/2" 200' in service.out.text


def test_the_scope(tmp_path: Path) -> None:
    import json

    with Service(tmp_path, *TLS, source=APP) as service, Peer(service.port, client_context()) as peer:
        found = peer.get("/scope?a=%20b", "GET", ("cookie", "a=1"), ("x-own", "1"), ("cookie", "b=2"))
        scope = json.loads(found.body)
        assert scope["http_version"] == "2"
        assert (scope["method"], scope["path"], scope["raw_path"], scope["query_string"]) == (
            "GET", "/scope", "/scope", "a=%20b",
        )  # fmt: skip
        assert scope["scheme"] == "https"
        assert scope["headers"] == [["host", "localhost"], ["cookie", "a=1; b=2"], ["x-own", "1"]]
        assert "tls" in scope["extensions"]
        assert "http.response.trailers" in scope["extensions"]


@pytest.mark.parametrize(("http", "expected"), [("auto", "h2"), ("1", "http/1.1"), ("2", "h2")])
def test_what_a_client_of_tls_gets(tmp_path: Path, http: str, expected: str) -> None:
    import socket

    with Service(tmp_path, *TLS, "--http", http, source=APP) as service:
        context = client_context()
        context.set_alpn_protocols(["h2", "http/1.1"])
        with (
            socket.create_connection(("127.0.0.1", service.port), 30) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as sock,
        ):
            assert sock.selected_alpn_protocol() == expected


def test_http1_beside_and_without(tmp_path: Path) -> None:
    with Service(tmp_path, source=APP) as service:
        assert service.ask("GET", "/slow")[2] == b"slow"
        with Peer(service.port) as peer:
            assert peer.get("/slow").body == b"slow"
    with Service(tmp_path, "--http", "h2c", source=APP) as service:
        status, _, body = service.ask("GET", "/")
        assert (status, body) == (505, b"This server speaks HTTP/2 only.")
    with Service(tmp_path, "--http", "1", source=APP) as service:
        assert service.ask("GET", "/slow")[0] == 200
        with Raw(service.port) as raw:
            raw.read_to_end()
            assert raw.got.startswith(b"HTTP/1.1 505 ")


@pytest.mark.parametrize("length", [0, 1, 1000, 65_536, 3_000_000])
def test_bodies_come_back(tmp_path: Path, length: int) -> None:
    sent = (b"%07d" % length) * (length // 7 + 1)
    sent = sent[:length]
    with Service(tmp_path, source=APP) as service, Peer(service.port) as peer:
        stream = peer.ask("/echo", "POST", ends=False)
        peer.send_body(stream, sent)
        (echoed,) = peer.wait(stream)
        assert echoed.body == sent


def test_a_body_that_nobody_reads_delays_no_other(tmp_path: Path) -> None:
    """The server buffers a window of it; the connection's window stays open."""
    with Service(tmp_path, source=APP) as service, Peer(service.port) as peer:
        assert peer.get("/").status == 200
        stuck = peer.ask("/wait", "POST", ends=False)
        sent = 0
        while peer.h2.local_flow_control_window(stuck) > 0:
            part = min(peer.h2.local_flow_control_window(stuck), peer.h2.max_outbound_frame_size)
            peer.h2.send_data(stuck, b"x" * part)
            peer.flush()
            sent += part
        assert sent == 256 * 1024
        other = peer.ask("/echo", "POST", ends=False)
        peer.send_body(other, b"y" * 2_000_000)
        assert len(peer.wait(other)[0].body) == 2_000_000
        assert peer.h2.local_flow_control_window(stuck) == 0
        (tmp_path / "go").touch()
        assert peer.wait(stuck)[0].body == b"waited"


def test_a_response_that_nobody_reads_delays_no_other(tmp_path: Path) -> None:
    """Its application waits, with a bounded part of it sent."""
    with Service(tmp_path, source=APP) as service, Peer(service.port, window=16_384) as peer:
        stuck = peer.ask("/stream")
        peer.unread.add(stuck)
        while len(peer.responses[stuck].body) < 16_384:
            assert peer.read()
        assert len(peer.get("/big").body) == 1 << 20
        sent = service.out.text.count("sent")
        assert sent <= 4, service.out.text
        peer.h2.reset_stream(stuck)
        peer.flush()
        service.out.wait_for("raised")


def test_early_hints_trailers_and_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(256)) * 3000)
    with Service(tmp_path, source=APP) as service, Peer(service.port) as peer:
        hinted = peer.get("/hints")
        assert hinted.interim == [{":status": "103", "link": "</a.css>; rel=preload"}]
        assert hinted.status == 200
        trailing = peer.get("/trailers")
        assert trailing.body == b"data"
        assert trailing.trailers == {"grpc-status": "0", "grpc-message": "fine"}
        sent = peer.get("/file")
        assert sent.body == (tmp_path / "file").read_bytes()
        assert sent.fields["content-length"] == str(len(sent.body))
        for path in ("/big", "/file"):
            without = peer.get(path, "HEAD")
            assert (without.status, without.body) == (200, b"")


def test_expect(tmp_path: Path) -> None:
    with Service(tmp_path, source=APP) as service, Peer(service.port) as peer:
        stream = peer.ask("/echo", "POST", ("expect", "100-continue"), ends=False)
        while not peer.responses[stream].interim:
            assert peer.read()
        assert peer.responses[stream].interim == [{":status": "100"}]
        peer.send_body(stream, b"now")
        assert peer.wait(stream)[0].body == b"now"


def test_fields_of_a_connection_are_left_out(tmp_path: Path) -> None:
    with Service(tmp_path, source=APP) as service, Peer(service.port) as peer:
        found = peer.get("/connection")
        assert set(found.fields) == {":status", "date", "server", "content-type"}


def test_failures_are_those_of_one_stream(tmp_path: Path) -> None:
    with Service(tmp_path, "--max-body-size", "1000", source=APP) as service, Peer(service.port) as peer:
        failed, broken, fine = peer.wait(peer.ask("/fail"), peer.ask("/break"), peer.ask("/slow"))
        assert failed.status == 500
        assert (broken.code, broken.body) == (2, b"half")
        assert fine.body == b"slow"
        stream = peer.ask("/echo", "POST", ends=False)
        peer.h2.send_data(stream, b"x" * 1001)
        peer.flush()
        assert peer.wait(stream)[0].status == 413
        assert peer.get("/x" * 9000).status in (200, 431)
        assert peer.get("/", "CONNECTED").status == 200
        assert peer.get("/", "M" * 33).status in (400, 501)
        assert peer.get("/slow").body == b"slow"
        assert service.end() == 0


def test_an_early_response_ends_the_request(tmp_path: Path) -> None:
    """RFC 9113 section 8.1: the client is told that the rest is not wanted."""
    with Service(tmp_path, source=APP) as service, Peer(service.port) as peer:
        stream = peer.ask("/early", "POST", ends=False)
        peer.h2.send_data(stream, b"x" * 1000)
        peer.flush()
        response = peer.responses[stream]
        while response.code is None:
            assert peer.read()
        assert (response.status, response.body, response.code) == (403, b"no", 0)
        assert peer.get("/slow").body == b"slow"


def test_a_client_that_leaves_is_told(tmp_path: Path) -> None:
    with Service(tmp_path, source=APP) as service, Peer(service.port) as peer:
        stream = peer.ask("/gone")
        service.wait_for_file("waiting")
        peer.h2.reset_stream(stream, 8)
        peer.flush()
        service.out.wait_for("told")
        service.out.wait_for("499")
        (tmp_path / "waiting").unlink()
        peer.ask("/gone")
        service.wait_for_file("waiting")
        peer.sock.close()
        service.out.wait_for("told")


def test_wsgi(tmp_path: Path) -> None:
    for options in ((), ("--green",)):
        with Service(tmp_path, *options, app="apps:wsgi", source=APP) as service, Peer(service.port) as peer:
            streams = [
                peer.ask(f"/at/{number}", "POST", ("cookie", "a=1"), ("cookie", "b=2"), ends=False)
                for number in range(20)
            ]
            for number, stream in enumerate(streams):
                peer.send_body(stream, b"z" * number * 1000)
            for number, response in enumerate(peer.wait(*streams)):
                start = f"HTTP/2.0 POST /at/{number} {number * 1000};".encode()
                assert response.status == 201
                assert response.body == start + b"x" * 100_000 + b"a=1; b=2"
            assert service.end() == 0


def test_static_files(tmp_path: Path) -> None:
    (tmp_path / "static").mkdir()
    (tmp_path / "static/a.txt").write_bytes(b"0123456789" * 50_000)
    with Service(tmp_path, "--static", "/s=static", source=APP) as service, Peer(service.port) as peer:
        whole = peer.get("/s/a.txt")
        assert whole.body == b"0123456789" * 50_000
        part = peer.get("/s/a.txt", "GET", ("range", "bytes=5-14"))
        assert (part.status, part.body) == (206, b"5678901234")
        same = peer.get("/s/a.txt", "GET", ("if-none-match", whole.fields["etag"]))
        assert (same.status, same.body) == (304, b"")
        assert peer.get("/s/none").status == 404


def websocket_frame(payload: bytes, kind: int = 1) -> bytes:
    mask = b"\x01\x02\x03\x04"
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
    assert len(payload) < 126
    return bytes([0x80 | kind, 0x80 | len(payload)]) + mask + masked


def test_websocket(tmp_path: Path) -> None:
    """RFC 8441."""
    with Service(tmp_path, source=APP) as service, Peer(service.port) as peer:
        assert peer.get("/").status == 200
        assert peer.h2.remote_settings.enable_connect_protocol == 1
        fields = (("sec-websocket-version", "13"), ("sec-websocket-protocol", "chat"))
        stream = peer.ask("/ws", "CONNECT", *fields, ends=False, protocol="websocket")
        response = peer.responses[stream]
        while not response.fields:
            assert peer.read()
        assert (response.status, response.fields["sec-websocket-protocol"]) == (200, "chat")
        assert "sec-websocket-accept" not in response.fields
        peer.send_body(stream, websocket_frame(b"hello"), ends=False)
        while len(response.body) < 7:
            assert peer.read()
        assert response.body == b"\x81\x05hello"
        assert peer.get("/slow").body == b"slow"
        peer.send_body(stream, websocket_frame(b"close"), ends=False)
        while len(response.body) < 11:
            assert peer.read()
        assert response.body[7:] == b"\x88\x02\x0f\xa0"
        peer.send_body(stream, websocket_frame(b"\x0f\xa0", 8))
        assert peer.wait(stream)[0].code in (None, 0)
        refused = peer.wait(peer.ask("/ws", "CONNECT", ("sec-websocket-version", "12"), protocol="websocket"))[0]
        assert refused.status == 426
        refused = peer.wait(peer.ask("/ws", "CONNECT", protocol="other"))[0]
        assert refused.status == 501
        dropped = peer.ask("/ws", "CONNECT", *fields, ends=False, protocol="websocket")
        while not peer.responses[dropped].fields:
            assert peer.read()
        peer.h2.reset_stream(dropped)
        peer.flush()
        service.out.wait_for("websocket ended 1006")


def test_ends_in_two_steps(tmp_path: Path) -> None:
    """What is on its way when the server begins to end is served; the connection closes after the last stream."""
    with Service(tmp_path, source=APP) as service, Peer(service.port) as peer:
        waiting = peer.ask("/wait")
        service.wait_for_file("waiting")
        service.send(signal.SIGTERM)
        while not peer.goaways:
            assert peer.read()
        assert peer.goaways == [(1 << 31) - 1]
        late = peer.ask("/slow")
        (tmp_path / "go").touch()
        first, second = peer.wait(waiting, late)
        assert (first.body, second.body) == (b"waited", b"slow")
        peer.read_to_end()
        assert peer.goaways[1:] == [late]
        assert service.wait() == 0


def test_an_idle_connection_is_closed(tmp_path: Path) -> None:
    with Service(tmp_path, "--timeout-keep-alive", "0.2", source=APP) as service, Peer(service.port) as peer:
        assert peer.get("/slow").body == b"slow"
        peer.read_to_end()
        assert peer.goaways
        assert peer.left == (1, 0)
        assert service.end() == 0


def test_a_body_that_is_late(tmp_path: Path) -> None:
    with Service(tmp_path, "--timeout-body", "0.3", source=APP) as service, Peer(service.port) as peer:
        stream = peer.ask("/echo", "POST", ends=False)
        assert peer.wait(stream)[0].status == 408
        assert peer.get("/").status == 200


def test_concurrent_requests_are_limited(tmp_path: Path) -> None:
    with Service(tmp_path, "--limit-concurrency", "3", source=APP) as service, Peer(service.port) as peer:
        streams = [peer.ask("/wait") for _ in range(5)]
        assert [one.status for one in peer.wait(*streams[3:])] == [503, 503]
        (tmp_path / "go").touch()
        assert [one.status for one in peer.wait(*streams[:3])] == [200, 200, 200]


def test_curl(tmp_path: Path) -> None:
    """Another client's view: over TLS, and without."""
    for options, url in (((), "http"), (TLS, "https")):
        with Service(tmp_path, *options, source=APP) as service:
            told = subprocess.run(
                ["curl", "-sk", "--http2-prior-knowledge" if url == "http" else "--http2", "-w", "%{http_version}",
                 f"{url}://127.0.0.1:{service.port}/slow"],
                capture_output=True, text=True, timeout=60, check=True,
            )  # fmt: skip
            assert told.stdout == "slow2"


def test_reload_loses_no_stream(tmp_path: Path) -> None:
    """Workers are replaced while a client asks: each request is answered, on this connection or the next one."""
    with Service(tmp_path, "--workers", "2", "--no-access-log", source=APP) as service:
        answered = 0
        end_s = time.monotonic() + 3
        service.send(signal.SIGHUP)
        while time.monotonic() < end_s or answered <= 10:
            with Peer(service.port) as peer:
                while not peer.left and answered < 2000:
                    stream = peer.ask("/")
                    assert peer.wait(stream)[0].status == 200
                    answered += 1
        assert service.end() == 0
