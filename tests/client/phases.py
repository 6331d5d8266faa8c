"""Peers that misbehave in one phase of a request, and behave well afterwards: the rows and columns of `test_phases`.

A phase is a context manager that gives a `Scene`. Its faults are "stalls", "ends" and "lies"; "stalls" is also the
fault of requests that are cancelled or run out of time.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.certificates import client_context, server_context
from tests.client.farm import farm
from tests.client.servers import LeftError, Peer, RawServer, full_listener

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"
LONG = bytes(1 << 24)


@dataclass
class Scene:
    """What a cell of the matrix needs.

    Attributes:
        url: where the request goes.
        next_url: where the next one goes, for which nothing is wrong.
        settings: of the client.
        method: of the request.
        sent: makes the body, if there is one; a new one for each request.
        is_kept: a request goes before, so that the next one is on a kept connection.
        reached: the request is in the phase.
    """

    url: str
    next_url: str
    settings: dict[str, Any] = field(default_factory=dict)
    method: str = "GET"
    sent: Callable[[bool], Any] | None = None
    is_kept: bool = False
    reached: threading.Event = field(default_factory=threading.Event)
    healed: threading.Event = field(default_factory=threading.Event)

    def heal(self) -> None:
        """From now on nothing is wrong."""
        self.healed.set()


Phase = Callable[[str, pytest.MonkeyPatch], AbstractContextManager[Scene]]


def well(peer: Peer) -> None:
    """Answer every request."""
    while head := peer.head():
        if b"content-length: 4\r\n" in head.lower():
            peer.exactly(4)
        peer.send(GOOD)


@contextmanager
def _wrong_once(wrong: Callable[[Peer, Scene], None], **parts: Any) -> Iterator[Scene]:
    """A server that does something wrong until it is healed."""

    def serve(peer: Peer) -> None:
        if scene.healed.is_set():
            well(peer)
        else:
            wrong(peer, scene)

    with RawServer(serve) as server:
        scene = Scene(server.url, server.url, **parts)
        yield scene


@contextmanager
def may_leave(fault: str, scene: Scene) -> Iterator[None]:
    """The short time that a client gives to a server that stalls may be over before it has sent anything."""
    try:
        yield
    except LeftError:
        if fault != "stalls" or scene.healed.is_set():
            raise
        scene.reached.set()


def _do(fault: str, peer: Peer, scene: Scene, lie: bytes) -> None:
    """Stall, end or lie, at this point."""
    scene.reached.set()
    if fault == "stalls":
        peer.wait_for_end()
    elif fault == "lies":
        peer.send(lie)
        peer.wait_for_end()


@contextmanager
def resolve(fault: str, patch: pytest.MonkeyPatch) -> Iterator[Scene]:
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host != "name.test":
            return real(host, *args, **kwargs)
        if not scene.healed.is_set():
            scene.reached.set()
            if fault == "ends":
                raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
            if fault == "lies":
                return []
            scene.healed.wait(60)
        return real("127.0.0.1", *args, **kwargs)

    with RawServer(well) as server:
        url = f"http://name.test:{server.port}"
        scene = Scene(url, url)
        patch.setattr(socket, "getaddrinfo", getaddrinfo)
        yield scene
        # The thread of the lookup is the loop's, and ends with it.
        scene.heal()


@contextmanager
def connect(fault: str, patch: pytest.MonkeyPatch) -> Iterator[Scene]:
    with RawServer(well) as server, full_listener() as listener:
        port = listener.getsockname()[1]
        if fault == "ends":
            listener.close()
        scene = Scene(f"http://127.0.0.1:{port}", server.url)
        # Nobody can see it.
        scene.reached.set()
        yield scene


def pipe(peer: Peer, port: int) -> None:
    """Pass everything on, both ways."""
    with socket.create_connection(("127.0.0.1", port)) as other:

        def back() -> None:
            # The client may have left.
            with suppress(OSError):
                while data := other.recv(65536):
                    peer.sock.sendall(data)
                peer.sock.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=back)
        thread.start()
        with suppress(OSError):
            while data := peer.sock.recv(65536):
                other.sendall(data)
        other.shutdown(socket.SHUT_WR)
        thread.join()


@contextmanager
def _through(scheme: str, fault: str, talk: Callable[[Peer], bytes], lie: bytes, secured: bool) -> Iterator[Scene]:
    """A proxy; `talk` reads what it is asked, and returns that it has done so."""
    with farm(secured=secured) as target:

        def serve(peer: Peer) -> None:
            with may_leave(fault, scene):
                done = talk(peer)
                if scene.healed.is_set():
                    peer.send(done)
                    assert target.port is not None
                    pipe(peer, target.port)
                else:
                    _do(fault, peer, scene, lie)

        with RawServer(serve) as proxy:
            url = f"{'https' if secured else 'http'}://127.0.0.1:{target.port}/kept"
            settings = {"proxy": f"{scheme}://127.0.0.1:{proxy.port}", "verify": client_context()}
            scene = Scene(url, url, settings)
            yield scene


def connect_proxy(fault: str, patch: pytest.MonkeyPatch) -> AbstractContextManager[Scene]:
    def talk(peer: Peer) -> bytes:
        peer.head()
        return b"HTTP/1.1 200 Connected\r\n\r\n"

    return _through("http", fault, talk, b"SSH-2.0-OpenSSH\r\n\r\n", secured=True)


def socks_proxy(fault: str, patch: pytest.MonkeyPatch) -> AbstractContextManager[Scene]:
    def talk(peer: Peer) -> bytes:
        assert peer.exactly(3) == b"\x05\x01\x00"
        peer.send(b"\x05\x00")
        assert len(peer.exactly(10)) == 10
        return b"\x05\x00\x00\x01\x7f\0\0\x01\0\x50"

    return _through("socks5", fault, talk, b"HTTP/1.1 400 Bad Request\r\n\r\n", secured=False)


@contextmanager
def _tls(fault: str, verify: Any) -> Iterator[Scene]:
    context = server_context()

    def serve(peer: Peer) -> None:
        if not scene.healed.is_set():
            with may_leave(fault, scene):
                # The start of a ClientHello.
                peer.exactly(5)
                _do(fault, peer, scene, b"HTTP/1.1 400 Bad Request\r\n\r\n")
            return None
        with context.wrap_socket(peer.sock, server_side=True) as sock:
            return well(Peer(sock, peer.number))

    with RawServer(serve) as server:
        url = f"https://127.0.0.1:{server.port}"
        scene = Scene(url, url, {"verify": verify})
        yield scene


def tls_of_openssl(fault: str, patch: pytest.MonkeyPatch) -> AbstractContextManager[Scene]:
    return _tls(fault, client_context())


def tls_of_rustls(fault: str, patch: pytest.MonkeyPatch) -> AbstractContextManager[Scene]:
    return _tls(fault, False)


def _sending(fault: str, sent: Callable[[bool], Any]) -> AbstractContextManager[Scene]:
    def wrong(peer: Peer, scene: Scene) -> None:
        peer.head()
        peer.exactly(100_000)
        scene.reached.set()
        if fault == "ends":
            return peer.reset()
        if fault == "lies":
            # It has not read the request to which it responds.
            peer.answer(b"no", "413 Content Too Large")
        # Not `wait_for_end`, which reads.
        scene.healed.wait(60)
        return None

    return _wrong_once(wrong, method="POST", sent=sent)


def send_whole(fault: str, patch: pytest.MonkeyPatch) -> AbstractContextManager[Scene]:
    return _sending(fault, lambda _: LONG)


def long_parts(is_async: bool) -> Any:
    """The long body in parts."""

    async def parts() -> Any:
        for _ in range(256):
            yield LONG[:65536]

    return parts() if is_async else iter([LONG[:65536]] * 256)


def send_parts(fault: str, patch: pytest.MonkeyPatch) -> AbstractContextManager[Scene]:
    return _sending(fault, long_parts)


def _answering(fault: str, begin: bytes, lie: bytes) -> AbstractContextManager[Scene]:
    def wrong(peer: Peer, scene: Scene) -> None:
        peer.head()
        peer.send(begin)
        _do(fault, peer, scene, lie)

    return _wrong_once(wrong)


def head(fault: str, patch: pytest.MonkeyPatch) -> AbstractContextManager[Scene]:
    return _answering(fault, b"HTTP/1.1 200 OK\r\nContent-Le", b"ngth: 4\r\nContent-Length: 5\r\n\r\ngood")


def body(fault: str, patch: pytest.MonkeyPatch) -> AbstractContextManager[Scene]:
    begin = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngoo"
    return _answering(fault, begin, b"d\r\nnonsense\r\n")


def idle(fault: str, patch: pytest.MonkeyPatch) -> AbstractContextManager[Scene]:
    """The kept connection is where something is wrong: the first request on it is answered."""

    def wrong(peer: Peer, scene: Scene) -> None:
        peer.head()
        peer.send(GOOD)
        if fault == "stalls":
            assert peer.head()
        elif fault == "lies":
            # Neither with the response, nor as the response to the next request.
            scene.healed.wait(0.02)
            peer.send(GOOD)
            peer.wait_delivered()
        else:
            peer.end()
        scene.reached.set()
        peer.wait_for_end()

    return _wrong_once(wrong, is_kept=True)


PHASES: dict[str, Phase] = {
    "resolve": resolve,
    "connect": connect,
    "CONNECT": connect_proxy,
    "SOCKS": socks_proxy,
    "OpenSSL": tls_of_openssl,
    "rustls": tls_of_rustls,
    "send": send_whole,
    "send-parts": send_parts,
    "head": head,
    "body": body,
    "idle": idle,
}
