"""Green TLS sockets, compared with the standard library's, which OS threads use on the other end."""

from __future__ import annotations

import errno
import io
import os
import socket as stock_socket
import ssl as stock
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from test.test_asyncio import utils as cpython

from oneloop import green
from oneloop.green import Timeout, socket, ssl
from tests import certificates
from tests.certificates import HOST

CERTIFICATE = cpython.ONLYCERT


def green_context(server_side: bool = False) -> Any:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT)
    if server_side:
        context.load_cert_chain(CERTIFICATE, cpython.ONLYKEY)
    else:
        context.load_verify_locations(CERTIFICATE)
    return context


def in_thread(function: Callable[..., Any], *args: Any) -> Future[Any]:
    """Runs in an OS thread."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(function(*args))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run).start()
    return future


def green_pair() -> tuple[Any, Any]:
    """Two green ends: client and server."""
    one, other = socket.socketpair()
    serving = green.spawn(green_context(server_side=True).wrap_socket, other, server_side=True)
    client = green_context().wrap_socket(one, server_hostname=HOST)
    return client, serving.get()


@pytest.fixture
def pair() -> Iterator[tuple[Any, Any]]:
    client, server = green_pair()
    yield client, server
    client.close()
    server.close()


@pytest.fixture
def mixed() -> Iterator[tuple[Any, Any]]:
    """A green client, and a stock server that blocks."""
    one, other = stock_socket.socketpair()
    accepting = in_thread(lambda: certificates.server_context().wrap_socket(other, server_side=True))
    client = green_context().wrap_socket(one, server_hostname=HOST)
    server = accepting.result()
    yield client, server
    client.close()
    server.close()


def certificate_of(path: str) -> Any:
    return stock._ssl._test_decode_cert(path)  # type: ignore[attr-defined]


def outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        return type(error), str(error).partition("_ssl.c")[0].rstrip(" (")


def test_talking_to_the_standard_library(mixed: tuple[Any, Any]) -> None:
    client, server = mixed
    assert type(client) is ssl.SSLSocket
    assert isinstance(client, stock.SSLSocket)
    assert isinstance(client, socket.socket)
    assert (client.version(), client.cipher()) == (server.version(), server.cipher())
    assert client.getpeercert() == certificate_of(CERTIFICATE)
    client.sendall(b"one")
    assert server.recv(10) == b"one"
    server.sendall(b"twothree")
    assert (client.read(3), client.pending()) == (b"two", 5)
    room = bytearray(3)
    assert (client.recv_into(room), bytes(room)) == (3, b"thr")
    assert (client.read(1, room), bytes(room)) == (1, b"ehr")
    assert client.recv() == b"e"
    assert (client.send(b"ab"), client.write(b"c")) == (2, 1)
    assert server.recv(2) + server.recv(1) == b"abc"
    with client.makefile("rwb") as file:
        server.sendall(b"line\n")
        assert file.readline() == b"line\n"


def test_a_green_server() -> None:
    listener = green_context(server_side=True).wrap_socket(socket.create_server(("127.0.0.1", 0)), server_side=True)

    def ask(number: int) -> bytes:
        with (
            stock_socket.create_connection(listener.getsockname()) as plain,
            certificates.verifying_context().wrap_socket(plain, server_hostname=HOST) as sock,
        ):
            sock.sendall(b"client %d" % number)
            return sock.recv(100)

    def serve() -> None:
        for _ in range(5):
            connection, _ = listener.accept()
            with connection:
                assert type(connection) is ssl.SSLSocket
                connection.sendall(connection.recv(100).upper())

    serving = green.spawn(serve)
    asking = [in_thread(ask, number) for number in range(5)]
    serving.get()
    assert [one.result() for one in asking] == [b"CLIENT %d" % number for number in range(5)]
    listener.close()


def test_waiting_lets_the_others_go_on(pair: tuple[Any, Any]) -> None:
    client, server = pair
    seen: list[str] = []
    reading = green.spawn(client.recv, 10)

    def send() -> None:
        seen.append("other")
        server.send(b"x")

    green.spawn(send)
    assert (reading.get(), seen) == (b"x", ["other"])


def read_all(sock: Any, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        found += sock.recv(65536)
    return bytes(found)


def test_reading_and_writing_at_once(pair: tuple[Any, Any]) -> None:
    data = bytes(range(256)) * 8000
    reading = [green.spawn(read_all, sock, len(data)) for sock in pair]
    writing = [green.spawn(sock.sendall, data) for sock in pair]
    green.joinall([*reading, *writing], raise_error=True)
    assert [one.value == data for one in reading] == [True, True]


def test_several_writers_take_turns(pair: tuple[Any, Any]) -> None:
    client, server = pair
    pieces = [bytes([number]) * 300_000 for number in range(5)]
    writing = [green.spawn(client.sendall, piece) for piece in pieces]
    green.sleep(0.01)
    assert not any(one.ready() for one in writing)
    late = green.spawn(outcome, lambda: client.sendall(b"late"))
    green.sleep(0)
    late.kill()
    assert read_all(server, 5 * 300_000) == b"".join(pieces)
    green.joinall(writing, raise_error=True)


def test_a_killed_reader_leaves_the_data(pair: tuple[Any, Any]) -> None:
    client, server = pair
    reading = green.spawn(client.recv, 10)
    green.sleep(0)
    reading.kill()
    server.sendall(b"kept")
    assert client.recv(10) == b"kept"
    with pytest.raises(Timeout), Timeout(0.001):
        client.recv(1)


def test_timeouts_are_told_as_by_the_standard_library(mixed: tuple[Any, Any]) -> None:
    client, server = mixed
    for sock in (client, server):
        sock.settimeout(0.01)
    assert outcome(lambda: client.recv(1)) == outcome(lambda: server.recv(1))
    assert outcome(client.unwrap) == (TimeoutError, "The read operation timed out")


def test_a_write_that_takes_too_long(mixed: tuple[Any, Any]) -> None:
    client, _ = mixed
    client.settimeout(0.01)
    writing = green.spawn(outcome, lambda: client.sendall(bytes(10_000_000)))
    assert outcome(lambda: client.sendall(bytes(10_000_000))) == (TimeoutError, "The write operation timed out")
    assert writing.get() == (TimeoutError, "The write operation timed out")


def test_a_handshake_that_takes_too_long() -> None:
    one, other = socket.socketpair()
    with one, other:
        one.settimeout(0.01)
        with pytest.raises(TimeoutError, match="The handshake operation timed out"):
            green_context().wrap_socket(one, server_hostname=HOST)


def test_without_waiting(mixed: tuple[Any, Any]) -> None:
    client, _ = mixed
    client.setblocking(False)
    with pytest.raises(ssl.SSLWantReadError):
        client.recv(1)
    with pytest.raises(ssl.SSLWantWriteError):
        client.sendall(bytes(10_000_000))
    with pytest.raises(ssl.SSLWantWriteError):
        client.unwrap()


def test_a_handshake_without_waiting() -> None:
    one, other = socket.socketpair()
    one.setblocking(False)
    with pytest.raises(ValueError, match="non-blocking sockets"):
        green_context().wrap_socket(one.dup(), server_hostname=HOST)
    client = green_context().wrap_socket(one, server_hostname=HOST, do_handshake_on_connect=False)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    accepting = green.spawn(green_context(server_side=True).wrap_socket, other, server_side=True)
    client.do_handshake(block=True)
    assert client.gettimeout() == 0.0
    client.close()
    accepting.get().close()


@pytest.mark.parametrize("is_suppressed", [True, False])
def test_an_end_without_a_word(is_suppressed: bool) -> None:
    client, server = green_pair()
    client.suppress_ragged_eofs = is_suppressed
    with stock_socket.socket(fileno=os.dup(server.fileno())) as plain:
        plain.shutdown(stock_socket.SHUT_WR)
    if is_suppressed:
        assert (client.recv(1), client.recv_into(bytearray(1))) == (b"", 0)
    else:
        with pytest.raises(ssl.SSLEOFError):
            client.recv(1)
    client.close()
    server.close()


def test_unwrapping(pair: tuple[Any, Any]) -> None:
    client, server = pair
    unwrapping = green.spawn(server.unwrap)
    assert client.unwrap() is client
    assert unwrapping.get() is server
    client.sendall(b"in the clear")
    assert server.recv(100) == b"in the clear"
    for call in (client.unwrap, lambda: client.read(1), lambda: client.write(b"x")):
        with pytest.raises(ValueError, match=r"SSL (socket|wrapper)"):
            call()


def test_closing_wakes_who_waits(pair: tuple[Any, Any]) -> None:
    client, server = pair
    reading = green.spawn(outcome, lambda: client.recv(1))
    green.sleep(0)
    client.close()
    assert reading.get()[0] is socket.cancel_wait_ex
    server.shutdown(stock_socket.SHUT_RDWR)
    assert server.pending() == 0


def test_flags_and_datagrams_are_refused(pair: tuple[Any, Any]) -> None:
    client, _ = pair
    call: Any
    for call in (
        lambda: client.send(b"x", 1),
        lambda: client.sendall(b"x", 1),
        lambda: client.recv(1, 1),
        lambda: client.recvfrom(1),
        lambda: client.sendto(b"x", ("127.0.0.1", 1)),
    ):
        with pytest.raises(ValueError, match="not allowed"):
            call()
    with pytest.raises(NotImplementedError):
        client.sendmsg([b"x"])
    with socket.socket(stock_socket.AF_INET, stock_socket.SOCK_DGRAM) as datagrams:
        with pytest.raises(NotImplementedError):
            green_context().wrap_socket(datagrams, server_hostname=HOST)
    with pytest.raises(TypeError, match="public"):
        ssl.SSLSocket()  # type: ignore[no-untyped-call]


def test_files_are_sent(pair: tuple[Any, Any]) -> None:
    client, server = pair
    data = bytes(range(256)) * 400
    assert (client.sendfile(io.BytesIO(data)), read_all(server, len(data))) == (len(data), data)


def test_wrapped_before_it_is_connected() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = green_context().wrap_socket(socket.socket(), server_hostname=HOST)
        with pytest.raises(OSError, match=r".") as error:
            client.do_handshake()
        assert error.value.errno == errno.ENOTCONN

        def serve() -> None:
            with green_context(server_side=True).wrap_socket(listener.accept()[0], server_side=True) as server:
                server.sendall(b"hello")

        serving = green.spawn(serve)
        with client:
            assert client.connect_ex(listener.getsockname()) == 0
            assert client.recv(10) == b"hello"
            with pytest.raises(ValueError, match="already-connected"):
                client.connect(listener.getsockname())
        serving.get()
        address = listener.getsockname()
    with green_context().wrap_socket(socket.socket(), server_hostname=HOST) as client:
        assert client.connect_ex(address) == errno.ECONNREFUSED
    with green_context().wrap_socket(socket.socket(), server_hostname=HOST) as client:
        with pytest.raises(ConnectionRefusedError):
            client.connect(address)


def test_a_certificate_that_nobody_trusts() -> None:
    one, other = socket.socketpair()
    serving = green.spawn(outcome, lambda: green_context(server_side=True).wrap_socket(other, server_side=True))
    with pytest.raises(ssl.SSLCertVerificationError):
        ssl.create_default_context().wrap_socket(one, server_hostname=HOST)
    assert issubclass(serving.get()[0], ssl.SSLError)


def test_names_and_sessions() -> None:
    asked: list[Any] = []
    context = green_context(server_side=True)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.sni_callback = lambda sock, name, _: asked.append((type(sock), name))
    client_context = green_context()
    session = None
    for is_reused in (False, True):
        one, other = socket.socketpair()
        serving = green.spawn(context.wrap_socket, other, server_side=True)
        client = client_context.wrap_socket(one, server_hostname=HOST, session=session)
        serving.get().close()
        assert client.session_reused == is_reused
        session = client.session
        client.close()
    assert asked == [(ssl.SSLSocket, HOST)] * 2


def test_tls_in_tls(pair: tuple[Any, Any]) -> None:
    def talk(outer: Any, inner: Any, incoming: Any, outgoing: Any, step: Callable[[Any], Any]) -> Any:
        while True:
            try:
                found = step(inner)
            except ssl.SSLWantReadError:
                outer.sendall(outgoing.read())
                incoming.write(outer.recv(65536))
            else:
                outer.sendall(outgoing.read())
                return found

    def end(outer: Any, is_server: bool) -> bytes:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = green_context(is_server)
        inner = context.wrap_bio(incoming, outgoing, is_server, None if is_server else HOST)
        talk(outer, inner, incoming, outgoing, lambda inner: inner.do_handshake())
        if is_server:
            talk(outer, inner, incoming, outgoing, lambda inner: inner.write(b"inside"))
            return b""
        return bytes(talk(outer, inner, incoming, outgoing, lambda inner: inner.read(100)))

    client, server = pair
    serving = green.spawn(end, server, True)
    assert end(client, False) == b"inside"
    serving.get()


def test_functions_that_make_contexts() -> None:
    for context in (
        ssl.create_default_context(),
        ssl._create_unverified_context(),
        ssl._create_default_https_context(),
        ssl._create_stdlib_context(),
    ):
        assert type(context) is ssl.SSLContext
    assert stock.create_default_context().__class__ is stock.SSLContext
    assert set(ssl.__all__) >= {"SSLContext", "create_default_context", "MemoryBIO"}
    with pytest.raises(AttributeError):
        ssl.no_such_name  # noqa: B018


def test_the_certificate_of_a_server() -> None:
    listener = green_context(server_side=True).wrap_socket(socket.create_server(("127.0.0.1", 0)), server_side=True)

    def serve() -> None:
        listener.accept()[0].close()

    serving = green.spawn(serve)
    found = ssl.get_server_certificate(listener.getsockname())
    serving.get()
    listener.close()
    with open(CERTIFICATE) as file:
        assert found.strip() in file.read()


SETTINGS = {
    "options": stock.OP_NO_TICKET,
    "verify_flags": stock.VERIFY_X509_STRICT,
    "verify_mode": stock.CERT_OPTIONAL,
    "minimum_version": stock.TLSVersion.TLSv1_2,
    "maximum_version": stock.TLSVersion.TLSv1_3,
    "hostname_checks_common_name": True,
    "_msg_callback": print,
}


def set_all(context: Any) -> None:
    context.check_hostname = False
    for name, value in SETTINGS.items():
        setattr(context, name, value)
        assert getattr(context, name) == value
    context._msg_callback = None
    assert context._msg_callback is None


def test_settings_do_not_call_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    class Early(stock.SSLContext):
        pass

    early = [Early(stock.PROTOCOL_TLS_CLIENT), stock.SSLContext(stock.PROTOCOL_TLS_CLIENT)]
    set_all(green_context())
    for name in ssl.__implements__:
        monkeypatch.setattr(stock, name, getattr(ssl, name))
    for owner, name, value in ssl.__patched_attributes__:
        monkeypatch.setattr(owner, name, value)

    class Late(stock.SSLContext):
        pass

    for context in (*early, green_context(), Late(stock.PROTOCOL_TLS_CLIENT), stock.create_default_context()):
        set_all(context)
        with stock_socket.socket() as sock:
            wrapped: Any = context.wrap_socket(sock)
            assert type(wrapped) is ssl.SSLSocket
            wrapped.close()


def test_beside_a_stock_context_where_nothing_is_patched() -> None:
    with stock_socket.socket() as sock, certificates.client_context().wrap_socket(sock) as wrapped:
        assert type(wrapped) is stock.SSLSocket
