"""After a read has emptied a stream socket, the next read skips its first attempt. No data must be missed by that.

Each case waits once first, so that the loop watches the socket. The results are compared with those of blocking
sockets.
"""

from __future__ import annotations

import socket as stock
from collections.abc import Callable
from typing import Any

import pytest

from oneloop import green
from oneloop.green import socket

Pair = tuple[Any, Any]


def tcp() -> Pair:
    listener = stock.create_server(("127.0.0.1", 0))
    with listener:
        client = stock.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
    return accepted, client


def unix() -> Pair:
    return stock.socketpair()


def datagrams() -> Pair:
    return stock.socketpair(stock.AF_UNIX, stock.SOCK_DGRAM)


def packets() -> Pair:
    return stock.socketpair(stock.AF_UNIX, stock.SOCK_SEQPACKET)


def closes(peer: Any, pause: Callable[[], object]) -> None:
    peer.sendall(b"last")
    peer.close()


def ends_its_side(peer: Any, pause: Callable[[], object]) -> None:
    peer.sendall(b"last")
    peer.shutdown(stock.SHUT_WR)


def ends_later(peer: Any, pause: Callable[[], object]) -> None:
    peer.sendall(b"last")
    pause()
    peer.shutdown(stock.SHUT_WR)


def sends_two(peer: Any, pause: Callable[[], object]) -> None:
    peer.send(b"one")
    peer.send(b"two")
    pause()
    peer.close()


def resets(peer: Any, pause: Callable[[], object]) -> None:
    peer.setsockopt(stock.SOL_SOCKET, stock.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    peer.sendall(b"last")
    pause()
    peer.close()


def sends_urgent(peer: Any, pause: Callable[[], object]) -> None:
    peer.sendall(b"before")
    peer.send(b"!", stock.MSG_OOB)
    peer.sendall(b"after")
    pause()
    peer.close()


CASES = [
    (make, acts)
    for make, actions in {
        tcp: (closes, ends_its_side, ends_later, sends_two, resets, sends_urgent),
        unix: (closes, ends_its_side, ends_later, sends_two),
        datagrams: (sends_two,),
        packets: (closes, ends_its_side, ends_later, sends_two),
    }.items()
    for acts in actions
]


def read_all(sock: Any, count: int, into: bool) -> list[Any]:
    """The results of up to `count` reads. An error ends the list with its class."""
    got: list[Any] = []
    buffer = bytearray(100)
    for _ in range(count):
        try:
            data = bytes(buffer[: sock.recv_into(buffer)]) if into else sock.recv(100)
        except OSError as error:
            got.append(type(error))
            break
        got.append(data)
        if not data:
            break
    return got


def joined(got: list[Any]) -> tuple[bytes, Any]:
    """The bytes and the end of the results: how the data is split into reads depends on timing."""
    data = b"".join(part for part in got if isinstance(part, bytes))
    return data, got[-1]


@pytest.mark.parametrize("into", [False, True], ids=["recv", "recv_into"])
@pytest.mark.parametrize(("make", "acts"), CASES, ids=[f"{make.__name__}-{acts.__name__}" for make, acts in CASES])
def test_nothing_is_missed(make: Callable[[], Pair], acts: Callable[..., None], into: bool) -> None:
    reads = 2 if make is datagrams else 9
    reader, peer = make()
    with reader, peer:
        peer.send(b"first")
        assert reader.recv(100) == b"first"
        acts(peer, lambda: None)
        expected = joined(read_all(reader, reads, into))

    for pause in (lambda: None, lambda: green.sleep(0), lambda: green.sleep(0.005)):
        made, peer = make()
        sock = socket.socket(made.family, made.type, made.proto, fileno=made.detach())
        with sock, peer:
            first = green.spawn(sock.recv, 100)
            green.sleep(0)
            peer.send(b"first")
            assert first.get() == b"first"
            reading = green.spawn(read_all, sock, reads, into)
            green.sleep(0)
            acts(peer, pause)
            assert joined(reading.get(timeout=60)) == expected


def test_what_another_object_has_left_is_found() -> None:
    one, peer = socket.socketpair()
    with one, peer, one.dup() as other:
        first = green.spawn(one.recv, 100)
        green.sleep(0)
        peer.send(b"first")
        assert first.get() == b"first"
        peer.send(b"for the other")
        assert other.recv(3) == b"for"
        assert green.spawn(one.recv, 100).get(timeout=60) == b" the other"
        reading = green.spawn(one.recv, 100)
        green.sleep(0)
        peer.send(b"more")
        assert reading.get(timeout=60) == b"more"


def test_a_short_read_of_a_socket_that_never_waits_tries_at_once() -> None:
    one, peer = socket.socketpair()
    with one, peer:
        first = green.spawn(one.recv, 100)
        green.sleep(0)
        peer.send(b"first")
        assert first.get() == b"first"
        one.setblocking(False)
        with pytest.raises(BlockingIOError):
            one.recv(100)
        peer.send(b"x")
        assert one.recv(100) == b"x"
