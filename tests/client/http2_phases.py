"""The phases of `phases` that HTTP/2 has too, or only HTTP/2 has."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.certificates import client_context, server_context
from tests.client.http2_server import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PRIOR,
    WINDOW,
    WINDOW_UPDATE,
    Http2Peer,
    Http2Server,
    frame,
)
from tests.client.phases import LONG, Phase, Scene, long_parts, may_leave
from tests.client.servers import Peer, RawServer

WIDE = (1 << 31) - 1
"""The widest window there is."""


def well(peer: Http2Peer) -> None:
    """Answer every request."""
    peer.greet()
    while True:
        stream, fields = peer.request()
        if fields[":method"] == "POST":
            peer.body(stream)
        peer.answer(stream, b"good")


@contextmanager
def _wrong_once(wrong: Callable[[Http2Peer, Scene], None], **parts: Any) -> Iterator[Scene]:
    """A server that does something wrong until it is healed."""

    def serve(peer: Http2Peer) -> None:
        if scene.healed.is_set():
            well(peer)
        else:
            wrong(peer, scene)

    with Http2Server(serve) as server:
        scene = Scene(server.url, server.url, dict(PRIOR), **parts)
        yield scene
        scene.heal()


def _do(fault: str, peer: Http2Peer, scene: Scene, lie: bytes) -> None:
    """Stall, end or lie, at this point."""
    if fault == "lies":
        peer.send(lie)
    scene.reached.set()
    if fault != "ends":
        peer.wait_for_end()


def _do_and_go_on(fault: str, peer: Http2Peer, scene: Scene, lie: bytes) -> None:
    """The same, on one stream: what comes on others is answered when nothing is wrong any more."""
    if fault == "lies":
        peer.send(lie)
        peer.wait_delivered()
    elif fault == "ends":
        peer.end()
    scene.reached.set()
    if fault != "ends":
        _go_on(peer, scene)


def _go_on(peer: Http2Peer, scene: Scene) -> None:
    while True:
        stream, fields = peer.request()
        assert scene.healed.wait(60)
        if fields[":method"] == "POST":
            peer.body(stream)
        peer.answer(stream, b"good")


@contextmanager
def handshake(fault: str, patch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """TLS, in which HTTP/2 is agreed."""
    context = server_context()
    context.set_alpn_protocols(["h2", "http/1.1"])

    def serve(peer: Peer) -> None:
        if scene.healed.is_set():
            with context.wrap_socket(peer.sock, server_side=True) as sock:
                return well(Http2Peer(sock, peer.number))
        with may_leave(fault, scene):
            # The start of a ClientHello.
            peer.exactly(5)
        scene.reached.set()
        if fault == "lies":
            peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        if fault != "ends":
            peer.wait_for_end()
        return None

    with RawServer(serve) as server:
        url = f"https://127.0.0.1:{server.port}"
        scene = Scene(url, url, {"verify": client_context(), "http2": True})
        yield scene


def greet(fault: str, patch: pytest.MonkeyPatch) -> Any:
    """The server's settings, which come first."""

    def wrong(peer: Http2Peer, scene: Scene) -> None:
        peer.exactly(24)
        _do(fault, peer, scene, b"HTTP/1.1 400 Bad Request\r\n\r\n")

    return _wrong_once(wrong)


def _sending(fault: str, sent: Callable[[bool], Any]) -> Any:
    def wrong(peer: Http2Peer, scene: Scene) -> None:
        peer.greet((WINDOW, WIDE))
        peer.give(0, WIDE - 65535)
        stream, _ = peer.request()
        peer.exactly(100_000)
        scene.reached.set()
        if fault == "ends":
            return peer.reset()
        if fault == "lies":
            # It has not read the request to which it responds.
            peer.answer(stream, b"no", 413)
        # It reads no more.
        scene.healed.wait(60)
        return None

    return _wrong_once(wrong, method="POST", sent=sent)


def send_whole(fault: str, patch: pytest.MonkeyPatch) -> Any:
    return _sending(fault, lambda _: LONG)


def send_parts(fault: str, patch: pytest.MonkeyPatch) -> Any:
    return _sending(fault, long_parts)


def window(fault: str, patch: pytest.MonkeyPatch) -> Any:
    """A server that reads, and opens no window."""

    def wrong(peer: Http2Peer, scene: Scene) -> None:
        peer.greet()
        stream, _ = peer.request()
        got = 0
        while got < 65535:
            got += len(peer.next(DATA, stream).payload)
        _do_and_go_on(fault, peer, scene, frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", WIDE)) * 2)

    return _wrong_once(wrong, method="POST", sent=lambda _: LONG)


def head(fault: str, patch: pytest.MonkeyPatch) -> Any:
    def wrong(peer: Http2Peer, scene: Scene) -> None:
        peer.greet()
        stream, _ = peer.request()
        # The rest is the end of a value that is not allowed.
        whole = frame(HEADERS, END_HEADERS, stream, b"\x88\0\x01x\x28" + b"a" * 39 + b"\0")
        peer.send(whole[:20])
        if fault != "stalls":
            return _do_and_go_on(fault, peer, scene, whole[20:])
        scene.reached.set()
        # A client that was told to leave before it had seen the start does not know better than to go on.
        assert scene.healed.wait(60)
        peer.send(whole[20:])
        return _go_on(peer, scene)

    return _wrong_once(wrong)


def body(fault: str, patch: pytest.MonkeyPatch) -> Any:
    def wrong(peer: Http2Peer, scene: Scene) -> None:
        peer.greet()
        stream, _ = peer.request()
        peer.head(stream, 200, ("content-length", "4"))
        peer.data(stream, b"goo")
        _do_and_go_on(fault, peer, scene, frame(DATA, END_STREAM, stream, b"d and more"))

    return _wrong_once(wrong)


def idle(fault: str, patch: pytest.MonkeyPatch) -> Any:
    """The kept connection is where something is wrong: the first request on it is answered."""

    def wrong(peer: Http2Peer, scene: Scene) -> None:
        peer.greet()
        stream, _ = peer.request()
        peer.answer(stream, b"good")
        if fault == "stalls":
            peer.request()
        else:
            # Not with the response.
            scene.healed.wait(0.02)
        _do_and_go_on(fault, peer, scene, frame(HEADERS, END_HEADERS, stream + 2, peer.block((":status", "200"))))

    return _wrong_once(wrong, is_kept=True)


HTTP2_PHASES: dict[str, Phase] = {
    "h2-TLS": handshake,
    "h2-greet": greet,
    "h2-send": send_whole,
    "h2-send-parts": send_parts,
    "h2-window": window,
    "h2-head": head,
    "h2-body": body,
    "h2-idle": idle,
}
