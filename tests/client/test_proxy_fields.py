"""What a client keeps of its proxies."""

from __future__ import annotations

import threading
import time

import pytest

from oneloop.http import (
    Client,
    ConnectError,
    LocalProtocolError,
    Proxy,
)
from tests.client.servers import Peer, RawServer, echo, hold


def test_a_proxy_is_the_same_after_its_first_use() -> None:
    proxy = Proxy("https://proxy.example:8443")
    before = hash(proxy)
    proxy.tls_context()
    assert hash(proxy) == before
    assert proxy == Proxy("https://proxy.example:8443")


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
