"""What a client keeps of its proxies."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest

from oneloop.http import (
    AsyncClient,
    Client,
    ConnectError,
    LocalProtocolError,
    Proxy,
)
from tests.client.conftest import MakeCaller
from tests.client.servers import Peer, RawServer, echo, hold
from tests.client.test_websockets import client_frame, upgrade


def test_a_proxy_is_the_same_after_its_first_use() -> None:
    proxy = Proxy("https://proxy.example:8443")
    before = hash(proxy)
    proxy.tls_context()
    assert hash(proxy) == before
    assert proxy == Proxy("https://proxy.example:8443")


def test_a_unix_socket_is_no_way_to_the_proxies_of_the_environment(
    make_caller: MakeCaller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server behind it would see the proxy's password."""
    monkeypatch.setenv("HTTP_PROXY", "http://user:secret@proxy.example:3128")
    heads: list[bytes] = []
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def serve() -> None:
            with listener.accept()[0] as sock:
                heads.append(sock.recv(4096))
                sock.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        assert make_caller(uds=path).get("http://localhost/info").status_code == 204
        thread.join()
    assert heads[0].startswith(b"GET /info HTTP/1.1\r\n")
    assert b"proxy-auth" not in heads[0].lower()


async def test_a_websocket_goes_through_a_tunnel() -> None:
    """RFC 6455 section 4.1: also without TLS."""
    heads: list[bytes] = []

    def proxy(peer: Peer) -> None:
        heads.append(peer.head())
        peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        upgrade(peer)
        peer.send(b"\x81\x02ok")
        client_frame(peer)
        peer.send(b"\x88\x02\x03\xe8")

    with RawServer(proxy) as between:
        async with AsyncClient(proxy=between.url) as client, client.websocket("ws://host.example/") as socket:
            assert await socket.receive() == "ok"
    assert heads[0].startswith(b"CONNECT host.example:80 HTTP/1.1\r\n")


def test_fields_for_the_proxy_are_checked() -> None:
    with RawServer(hold) as server:
        proxy = Proxy(server.url, headers={"X": "a\r\nInjected: b"})
        with Client(proxy=proxy, timeout=1) as client, pytest.raises((LocalProtocolError, ConnectError)):
            client.get("https://example.com/")


def test_many_proxies_cut_no_request_off() -> None:
    def serve(peer: Peer) -> None:
        peer.head()
        time.sleep(0.6)
        peer.answer(b"whole")

    requests = pytest.importorskip("requests")
    from oneloop.http import RequestsAdapter

    results: list[str] = []
    with RawServer(serve) as server, RawServer(echo) as quick, requests.Session() as session:
        session.trust_env = False
        session.mount("http://", RequestsAdapter())
        thread = threading.Thread(target=lambda: results.append(session.get(server.url).text))
        thread.start()
        time.sleep(0.1)
        for number in range(70):
            proxies = {"http": f"http://user{number}:x@127.0.0.1:{quick.port}"}
            session.get("http://somewhere.example/", proxies=proxies)
        thread.join(60)
    assert results == ["whole"]
