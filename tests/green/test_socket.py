"""Green sockets, compared with the standard library's, which OS threads use on the other end."""

from __future__ import annotations

import asyncio
import errno
import os
import socket as stock
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import oneloop
from oneloop import green
from oneloop.green import Timeout, socket


@pytest.fixture
def pair() -> Iterator[tuple[Any, Any]]:
    """A green socket, and a stock one that blocks."""
    one, other = stock.socketpair()
    mine = socket.socket(fileno=one.detach())
    yield mine, other
    mine.close()
    other.close()


def outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except OSError as error:
        return type(error), error.errno


def test_what_is_sent_arrives(pair: tuple[Any, Any]) -> None:
    mine, other = pair
    mine.sendall(b"one")
    assert other.recv(10) == b"one"
    other.sendall(b"two")
    assert mine.recv(10) == b"two"
    room = bytearray(2)
    other.sendall(b"three")
    assert (mine.recv_into(room), bytes(room)) == (2, b"th")
    assert (mine.recv_into(room, 1), bytes(room)) == (1, b"rh")
    assert mine.recv(1, stock.MSG_PEEK) == b"e"
    assert mine.recvfrom(10)[0] == b"ee"
    assert mine.send(b"x") == 1
    assert mine.sendmsg([b"y", b"z"]) == 2
    assert other.recv(10) == b"xyz"
    other.close()
    assert mine.recv(10) == b""


def test_waiting_lets_the_others_go_on(pair: tuple[Any, Any]) -> None:
    mine, other = pair
    seen: list[Any] = []
    reading = green.spawn(mine.recv, 10)

    def sends() -> None:
        seen.append("other")
        other.send(b"x")

    green.spawn(sends)
    assert (reading.get(), seen) == (b"x", ["other"])


def test_more_than_the_kernel_takes(pair: tuple[Any, Any]) -> None:
    mine, other = pair
    data = bytes(range(256)) * 20_000
    found = bytearray()

    def read() -> None:
        while len(found) < len(data):
            found.extend(other.recv(65_536))

    thread = threading.Thread(target=read)
    sending = green.spawn(mine.sendall, data)
    green.sleep(0.01)
    assert not sending.ready()
    thread.start()
    sending.get()
    thread.join()
    assert found == data


def test_timeouts(pair: tuple[Any, Any]) -> None:
    mine, _ = pair
    assert mine.gettimeout() is None
    mine.settimeout(0.001)
    with pytest.raises(TimeoutError, match="timed out"):
        mine.recv(1)
    with pytest.raises(TimeoutError):
        mine.sendall(bytes(10_000_000))
    mine.setblocking(False)
    assert (mine.gettimeout(), mine.getblocking()) == (0.0, False)
    with pytest.raises(BlockingIOError):
        mine.recv(1)
    with pytest.raises(ValueError, match="Timeout value out of range"):
        mine.settimeout(-1)
    with pytest.raises(TypeError):
        mine.settimeout("soon")
    mine.settimeout(None)
    with pytest.raises(Timeout), Timeout(0.001):
        mine.recv(1)


def test_a_killed_reader_leaves_the_data(pair: tuple[Any, Any]) -> None:
    mine, other = pair
    reading = green.spawn(mine.recv, 10)
    green.sleep(0)
    reading.kill()
    other.sendall(b"kept")
    assert mine.recv(10) == b"kept"


def test_closing_wakes_who_waits(pair: tuple[Any, Any]) -> None:
    mine, _ = pair
    reading = green.spawn(outcome, lambda: mine.recv(1))
    green.sleep(0)
    mine.close()
    assert reading.get() == (socket.cancel_wait_ex, errno.EBADF)
    assert outcome(lambda: mine.recv(1)) == (OSError, errno.EBADF)


@pytest.mark.parametrize(
    "call",
    [
        lambda sock: sock.recv(-1),
        lambda sock: sock.send("text"),
        lambda sock: sock.recv_into(b"read-only"),
        lambda sock: sock.connect(7),
        lambda sock: sock.getsockname(7),
    ],
)
def test_wrong_arguments(call: Any) -> None:
    with stock.socket() as theirs, socket.socket() as mine:
        with pytest.raises((TypeError, ValueError)) as expected:
            call(theirs)
        with pytest.raises(expected.type):
            call(mine)


def test_errors_are_those_of_the_kernel() -> None:
    with stock.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = unused.getsockname()
        for call in (
            lambda sock: sock.connect(address),
            lambda sock: sock.recv(1),
            lambda sock: sock.send(b"x"),
            lambda sock: sock.accept(),
        ):
            with stock.socket() as theirs, socket.socket() as mine:
                expected = outcome(lambda call=call, sock=theirs: call(sock))  # type: ignore[misc]
                assert outcome(lambda call=call, sock=mine: call(sock)) == expected  # type: ignore[misc]
        with socket.socket() as mine:
            assert mine.connect_ex(address) == errno.ECONNREFUSED


def test_a_server_and_many_clients() -> None:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(100)

    def serve(connection: Any) -> None:
        with connection:
            while data := connection.recv(100):
                connection.sendall(data.upper())

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            green.spawn(serve, connection)

    def ask(number: int) -> bytes:
        with socket.create_connection(listener.getsockname()) as sock:
            sock.sendall(b"client %d" % number)
            return bytes(sock.recv(100))

    accepting = green.spawn(accept)
    asking = [green.spawn(ask, number) for number in range(100)]
    green.joinall(asking, raise_error=True)
    assert [greenlet.value for greenlet in asking] == [b"CLIENT %d" % number for number in range(100)]
    accepting.kill()
    listener.close()


def test_files_of_sockets(pair: tuple[Any, Any]) -> None:
    mine, other = pair
    with mine.makefile("rwb") as file:
        writing = threading.Timer(0.01, other.sendall, (b"one\ntwo\n",))
        writing.start()
        assert file.readline() == b"one\n"
        assert file.readline() == b"two\n"
        file.write(b"three")
        file.flush()
        assert other.recv(10) == b"three"
        writing.join()


def test_datagrams() -> None:
    with socket.socket(stock.AF_INET, stock.SOCK_DGRAM) as one, socket.socket(stock.AF_INET, stock.SOCK_DGRAM) as other:
        one.bind(("127.0.0.1", 0))
        reading = green.spawn(one.recvfrom, 100)
        green.sleep(0)
        other.sendto(b"datagram", one.getsockname())
        data, address = reading.get()
        assert (data, address[1]) == (b"datagram", other.getsockname()[1])


def test_copies(pair: tuple[Any, Any]) -> None:
    mine, other = pair
    mine.settimeout(5)
    with mine.dup() as copy:
        assert (type(copy), copy.gettimeout()) == (socket.socket, 5)
        copy.sendall(b"x")
    assert other.recv(1) == b"x"
    one, two = socket.socketpair()
    with one, two, socket.fromfd(one.fileno(), one.family, one.type) as third:
        third.sendall(b"y")
        assert two.recv(1) == b"y"


def test_waiting_for_readiness(pair: tuple[Any, Any]) -> None:
    mine, other = pair
    for one in (mine, mine.fileno()):
        socket.wait_write(one)
        socket.wait_readwrite(one)
        with pytest.raises(TimeoutError):
            socket.wait_read(one, timeout=0.001)
        with pytest.raises(KeyError):
            socket.wait_read(one, 0.001, KeyError("late"))
    waiting = [green.spawn(socket.wait_read, one) for one in (mine, mine.fileno(), mine)]
    green.sleep(0)
    other.send(b"x")
    green.joinall(waiting, raise_error=True)
    while other.send(bytes(100_000), stock.MSG_DONTWAIT) == 100_000:
        continue
    socket.wait_readwrite(mine)


@pytest.mark.parametrize("wait", [socket.wait_read, socket.wait_write, socket.wait_readwrite])
def test_waiting_for_a_closed_descriptor(pair: tuple[Any, Any], wait: Callable[..., None]) -> None:
    """An error, as in gevent: the kernel says of such a descriptor at once that there is something to say."""
    fd = pair[0].fileno()
    copy = os.dup(fd)
    os.close(copy)
    assert outcome(lambda: wait(copy, timeout=60)) == (OSError, errno.EBADF)


def test_flags_that_say_not_to_wait(pair: tuple[Any, Any]) -> None:
    mine, _ = pair
    flag = stock.MSG_DONTWAIT
    call: Any
    for call in (
        lambda: mine.recv(1, flag),
        lambda: mine.recv_into(bytearray(1), 0, flag),
        lambda: mine.recvfrom(1, flag),
        lambda: mine.recvfrom_into(bytearray(1), 0, flag),
        lambda: mine.recvmsg(1, 0, flag),
        lambda: mine.recvmsg_into([bytearray(1)], 0, flag),
        lambda: mine.sendall(bytes(10_000_000), flag),
        lambda: mine.send(bytes(100), flag),
        lambda: mine.sendmsg([bytes(100)], [], flag),
    ):
        with pytest.raises(BlockingIOError):
            call()


def test_messages(pair: tuple[Any, Any]) -> None:
    mine, other = pair
    mine.settimeout(5)
    room = bytearray(3)
    receiving = green.spawn(mine.recvmsg_into, (one for one in [room]))
    green.sleep(0)
    assert other.sendmsg([b"abc"]) == 3
    assert (receiving.get()[0], bytes(room)) == (3, b"abc")
    receiving = green.spawn(socket.recv_fds, mine, 10, 1)
    green.sleep(0)
    stock.send_fds(other, [b"one"], [other.fileno()])
    data, fds, _, _ = receiving.get()
    with stock.socket(fileno=fds[0]) as third:
        third.send(data)
    assert mine.recv(10) == b"one"
    socket.send_fds(mine, iter([b"two"]), [mine.fileno()])
    data, fds, _, _ = stock.recv_fds(other, 10, 1)
    stock.socket(fileno=fds[0]).close()
    assert data == b"two"


def test_files_are_sent(pair: tuple[Any, Any], tmp_path: Any) -> None:
    mine, other = pair
    data = bytes(range(256)) * 10_000
    path = tmp_path / "file"
    path.write_bytes(data)
    for name in ("sendfile", "_sendfile_use_send"):
        found = bytearray()

        def read(found: bytearray = found) -> None:
            while len(found) < len(data):
                found.extend(other.recv(65_536))

        with path.open("rb") as file:
            sending = green.spawn(getattr(mine, name), file)
            green.sleep(0.01)
            assert not sending.ready()
            thread = threading.Thread(target=read)
            thread.start()
            assert sending.get() == len(data)
            assert file.tell() == len(data)
        thread.join()
        assert found == data
    mine.settimeout(0.001)
    with path.open("rb") as file, pytest.raises(TimeoutError):
        mine.sendfile(file)


def test_a_unix_listener_that_is_full(tmp_path: Any) -> None:
    path = str(tmp_path / "socket")
    with stock.socket(stock.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        with socket.socket(stock.AF_UNIX) as first, socket.socket(stock.AF_UNIX) as second:
            first.connect(path)
            second.settimeout(0.02)
            with pytest.raises(TimeoutError):
                second.connect(path)
            assert second.connect_ex(path) == errno.EAGAIN
            second.settimeout(0)
            assert second.connect_ex(path) == errno.EAGAIN
            second.settimeout(None)
            connecting = green.spawn(second.connect, path)
            green.sleep(0.001)
            listener.accept()[0].close()
            connecting.get()


def test_names_in_addresses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert type(listener) is socket.socket
        port = listener.getsockname()[1]
        with socket.create_connection(("localhost", port)) as client, listener.accept()[0] as server:
            assert client.getpeername() == server.getsockname()
        with socket.socket() as client, pytest.raises(TypeError):
            client.connect(("localhost", "http"))
        with socket.socket() as client:
            client.connect(("localhost", port))
    with socket.socket(stock.AF_INET, stock.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        assert one.sendto(b"x", ("localhost", one.getsockname()[1])) == 1
        assert one.sendmsg([b"y"], [], 0, ("localhost", one.getsockname()[1])) == 1
        assert [one.recv(1), one.recv(1)] == [b"x", b"y"]
    assert socket.getfqdn("127.0.0.1") == stock.getfqdn("127.0.0.1")
    assert socket.has_dualstack_ipv6() == stock.has_dualstack_ipv6()


def test_the_default_timeout() -> None:
    stock.setdefaulttimeout(7)
    try:
        with socket.socket() as one:
            assert one.gettimeout() == 7
            one.settimeout(None)
            assert (one.timeout, one.getblocking()) == (None, True)
    finally:
        stock.setdefaulttimeout(None)
    with socket.socket(type=stock.SOCK_STREAM | stock.SOCK_NONBLOCK) as one:
        assert one.gettimeout() == 0
        for value in (float("nan"), 1e30):
            with pytest.raises((ValueError, OverflowError)):
                one.settimeout(value)


def test_beside_coroutines() -> None:
    async def main() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(5))
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()

        def ask(number: int) -> bytes:
            with socket.create_connection(address) as sock:
                sock.sendall(b"%05d" % number)
                return b"".join(iter(lambda: sock.recv(2), b""))

        loop: Any = asyncio.get_running_loop()
        found = await asyncio.gather(*(loop.run_green(ask, number) for number in range(50)))
        assert found == [b"%05d" % number for number in range(50)]
        server.close()
        await server.wait_closed()

    oneloop.run(main())


def test_a_coroutine_connects_to_the_same_machine() -> None:
    async def main() -> bytes:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
            accepted, _ = server.accept()
            with accepted:
                client.sendall(b"here")
                data: bytes = accepted.recv(4)
        return data

    assert oneloop.run(main()) == b"here"


def test_names_of_the_standard_library() -> None:
    assert socket.AF_INET is stock.AF_INET
    assert socket.gaierror is stock.gaierror
    assert socket.SocketType is stock.SocketType
    assert not hasattr(socket, "fromshare")
    assert {"socket", "create_connection", "wait_read", "AF_INET"} <= set(socket.__all__)
    with pytest.raises(AttributeError):
        socket.no_such_name  # noqa: B018


@pytest.mark.parametrize("call", ["recv", "recv_into"])
def test_waitall_fills_the_buffer_or_comes_to_the_end(call: str) -> None:
    ours, peer = socket.socketpair()

    def receive(count: int) -> bytes:
        if call == "recv":
            data: bytes = ours.recv(count, stock.MSG_WAITALL)
            return data
        buffer = bytearray(count)
        return bytes(buffer[: ours.recv_into(buffer, 0, stock.MSG_WAITALL)])

    def send() -> None:
        for number in range(5):
            peer.send(b"%d" % number * 10)
            green.sleep(0.001)

    sending = green.spawn(send)
    assert receive(50) == b"".join(b"%d" % number * 10 for number in range(5))
    sending.get()
    green.spawn(send)
    green.spawn_later(0.02, peer.close)
    assert len(receive(100)) == 50
    assert receive(100) == b""
    ours.close()


def test_waitall_does_not_wait_with_a_timeout_or_a_peek() -> None:
    ours, peer = socket.socketpair()
    peer.send(b"abc")
    assert ours.recv(10, stock.MSG_WAITALL | stock.MSG_PEEK) == b"abc"
    ours.settimeout(5)
    # As the standard library, whose sockets with a timeout are non-blocking ones for the kernel.
    assert ours.recv(10, stock.MSG_WAITALL) == b"abc"
    ours.close()
    peer.close()
