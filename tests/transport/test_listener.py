"""create_server and Server: addresses, serving, closing, factories that fail, descriptors that run out."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import os
import resource
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.ipv6 import NEEDS_IPV6
from tests.protocols import Echo, Recorder


def address_of(server: asyncio.Server) -> Any:
    return server.sockets[0].getsockname()


async def ask(address: Any, text: bytes = b"hello") -> bytes:
    """Send to an echo server and return what comes back."""
    opening = (
        asyncio.open_unix_connection(address) if isinstance(address, str) else asyncio.open_connection(*address[:2])
    )
    reader, writer = await opening
    try:
        writer.write(text)
        return await reader.readexactly(len(text))
    finally:
        writer.close()
        await writer.wait_closed()


async def test_serving(loop: asyncio.AbstractEventLoop) -> None:
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    assert server.is_serving()
    assert server.get_loop() is loop
    assert await asyncio.gather(*(ask(address_of(server), b"%d" % number) for number in range(50))) == [
        b"%d" % number for number in range(50)
    ]
    server.close()
    assert not server.is_serving()
    assert server.sockets == ()
    await server.wait_closed()
    server.close()


async def accepted(loop: asyncio.AbstractEventLoop, address: str | None) -> tuple[Any, Any, Any]:
    """A server, the transport of a connection that it accepted, and the client's socket."""
    made: asyncio.Future[Any] = loop.create_future()

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.set_result(transport)

    server = await loop.create_server(Protocol, address, 0, family=socket.AF_INET)
    client = socket.create_connection(("127.0.0.1", address_of(server)[1]))
    return server, await made, client


@pytest.mark.parametrize("address", ["127.0.0.1", None])
@pytest.mark.parametrize("first", ["socket", "peername", "sockname", "unknown"])
async def test_what_an_accepted_transport_tells(
    loop: asyncio.AbstractEventLoop, address: str | None, first: str
) -> None:
    server, transport, client = await accepted(loop, address)
    try:
        transport.get_extra_info(first)
        sock = transport.get_extra_info("socket")
        assert sock is transport.get_extra_info("socket")
        assert (sock.family, sock.type, sock.gettimeout()) == (socket.AF_INET, socket.SOCK_STREAM, 0.0)
        assert sock.proto in (0, socket.IPPROTO_TCP)
        assert not os.get_blocking(sock.fileno())
        assert sock.getpeername() == client.getsockname()
        for name, value in [("peername", client.getsockname()), ("sockname", client.getpeername())]:
            assert transport.get_extra_info(name) == value
            assert transport.get_extra_info(name) is transport.get_extra_info(name)
        default = object()
        assert transport.get_extra_info("unknown", default) is default
        assert transport.get_extra_info(3) is None
        with pytest.raises(TypeError, match="unhashable"):
            transport.get_extra_info([])
    finally:
        transport.abort()
        client.close()
        server.close()
    await server.wait_closed()


@pytest.mark.parametrize("address", ["127.0.0.1", None])
async def test_a_closed_transport_still_knows_its_names(loop: asyncio.AbstractEventLoop, address: str | None) -> None:
    server, transport, client = await accepted(loop, address)
    names = client.getpeername(), client.getsockname()
    transport.abort()
    client.close()
    server.close()
    await server.wait_closed()
    assert (transport.get_extra_info("sockname"), transport.get_extra_info("peername")) == names


@NEEDS_IPV6
async def test_several_hosts_share_one_port(loop: asyncio.AbstractEventLoop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    async with await loop.create_server(Echo, ["127.0.0.1", "127.0.0.2", "::1"], port) as server:
        assert len(server.sockets) == 3
        for sock in server.sockets:
            assert await ask(sock.getsockname()) == b"hello"


async def test_all_interfaces(loop: asyncio.AbstractEventLoop) -> None:
    async with await loop.create_server(Echo, None, 0) as server:
        families = {sock.family for sock in server.sockets}
        assert socket.AF_INET in families
        port = server.sockets[0].getsockname()[1]
        if server.sockets[0].family == socket.AF_INET:
            assert await ask(("127.0.0.1", port)) == b"hello"


async def test_address_in_use(loop: asyncio.AbstractEventLoop) -> None:
    async with await loop.create_server(Echo, "127.0.0.1", 0) as server:
        with pytest.raises(OSError, match="while attempting to bind") as error:
            await loop.create_server(Echo, "127.0.0.1", address_of(server)[1])
        assert error.value.errno == errno.EADDRINUSE


async def test_reuse_port(loop: asyncio.AbstractEventLoop) -> None:
    async with await loop.create_server(Echo, "127.0.0.1", 0, reuse_port=True) as first:
        async with await loop.create_server(Echo, "127.0.0.1", address_of(first)[1], reuse_port=True) as second:
            assert address_of(first) == address_of(second)
            assert await asyncio.gather(*(ask(address_of(first)) for _ in range(20))) == [b"hello"] * 20


async def test_start_serving_later(loop: asyncio.AbstractEventLoop) -> None:
    server = await loop.create_server(Echo, "127.0.0.1", 0, start_serving=False)
    assert not server.is_serving()
    await server.start_serving()
    await server.start_serving()
    assert server.is_serving()
    assert await ask(address_of(server)) == b"hello"
    server.close()
    await server.wait_closed()


async def test_serve_forever(loop: asyncio.AbstractEventLoop) -> None:
    server = await loop.create_server(Echo, "127.0.0.1", 0, start_serving=False)
    serving = loop.create_task(server.serve_forever())
    await asyncio.sleep(0)
    assert await ask(address_of(server)) == b"hello"
    with pytest.raises(RuntimeError, match="is already being awaited on serve_forever"):
        await server.serve_forever()
    serving.cancel()
    await asyncio.wait([serving])
    assert serving.cancelled()
    assert not server.is_serving()
    with pytest.raises(RuntimeError, match="is closed"):
        await server.serve_forever()


async def test_a_ready_socket(loop: asyncio.AbstractEventLoop) -> None:
    sock = socket.create_server(("127.0.0.1", 0))
    async with await loop.create_server(Echo, sock=sock) as server:
        assert await ask(sock.getsockname()) == b"hello"
        assert server.sockets[0].fileno() == sock.fileno()


async def test_wrong_arguments(loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as datagram, socket.socket() as stream:
        bad: list[tuple[dict[str, Any], type[Exception], str]] = [
            ({"host": "127.0.0.1", "sock": stream}, ValueError, "host/port and sock can not be specified"),
            ({}, ValueError, "Neither host/port nor sock were specified"),
            ({"sock": datagram}, ValueError, "A Stream Socket was expected"),
            ({"host": "127.0.0.1", "port": 0, "ssl": True}, TypeError, "ssl argument must be an SSLContext"),
            ({"host": "127.0.0.1", "port": 0, "ssl_handshake_timeout": 1}, ValueError, "ssl_handshake_timeout is only"),
            ({"host": "127.0.0.1", "port": 0, "ssl_shutdown_timeout": 1}, ValueError, "ssl_shutdown_timeout is only"),
        ]
        for options, error, text in bad:
            with pytest.raises(error, match=text):
                await loop.create_server(Echo, **options)


async def test_unix_servers(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    for address in (str(tmp_path / "socket"), f"\0oneloop-test-{os.getpid()}"):
        async with await loop.create_unix_server(Echo, address) as server:
            assert await ask(address) == b"hello"
            assert address_of(server) == (address if address[0] != "\0" else address.encode())
    # A pathlib path, over the socket file that an earlier server left.
    stale = tmp_path / "stale"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(stale))
    async with await loop.create_unix_server(Echo, stale):
        assert await ask(str(stale)) == b"hello"


@pytest.mark.skipif(sys.version_info < (3, 13), reason="cleanup_socket came with Python 3.13")
async def test_unix_servers_clean_up(loop: asyncio.AbstractEventLoop, tmp_path: Path) -> None:
    path, kept = tmp_path / "socket", tmp_path / "kept"
    server = await loop.create_unix_server(Echo, path)
    keeping = await loop.create_unix_server(Echo, kept, cleanup_socket=False)  # type: ignore[call-arg,unused-ignore]
    server.close()
    keeping.close()
    assert not path.exists()
    assert kept.exists()


@pytest.mark.skipif(sys.version_info < (3, 13), reason="close_clients came with Python 3.13")
@pytest.mark.parametrize("way", ["close_clients", "abort_clients"])
async def test_closing_clients(loop: asyncio.AbstractEventLoop, way: str) -> None:
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    clients = [await loop.create_connection(Recorder, *address_of(server)) for _ in range(10)]
    for transport, _ in clients:
        transport.write(b"x")
    for _, protocol in clients:
        await protocol.wait_received(1)
    server.close()
    getattr(server, way)()
    await server.wait_closed()
    for _, protocol in clients:
        await protocol.wait_lost()


@pytest.mark.skipif(sys.version_info < (3, 13), reason="close_clients came with Python 3.13")
@pytest.mark.parametrize("way", ["close_clients", "abort_clients"])
async def test_closing_clients_that_have_not_begun(loop: asyncio.AbstractEventLoop, way: str) -> None:
    """Their protocols are told the beginning before the end."""
    told: list[list[str]] = []

    class Second(asyncio.Protocol):
        def __init__(self) -> None:
            if told:
                getattr(server, way)()
            self.told: list[str] = []
            told.append(self.told)

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.told.append(f"made, closing: {transport.is_closing()}")

        def connection_lost(self, exc: Exception | None) -> None:
            self.told.append(f"lost: {exc}")

    async with await loop.create_server(Second, "127.0.0.1", 0) as server:
        with socket.create_connection(address_of(server)), socket.create_connection(address_of(server)):
            for _ in range(8):
                await asyncio.sleep(0.001)
    assert told[0] == ["made, closing: True", "lost: None"]


@pytest.mark.oneloop_only("stock asyncio tells it, which raises")
async def test_a_closed_server_is_not_told_of_the_end_of_what_it_refused(loop: Any) -> None:
    """A TLS connection may be accepted when its server has just been closed."""
    told: list[Any] = []
    loop.set_exception_handler(lambda _, context: told.append(context))
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    server.close()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        with pytest.warns(ResourceWarning), pytest.raises(AssertionError):
            loop._make_socket_transport(ours, Echo(), server=server)
        gc.collect()
        await asyncio.sleep(0.001)
    assert told == []


@pytest.mark.skipif(sys.version_info < (3, 13), reason="keep_alive came with Python 3.13")
async def test_keep_alive(loop: asyncio.AbstractEventLoop) -> None:
    flags: list[int] = []

    class Asks(Echo):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            sock = transport.get_extra_info("socket")
            flags.append(sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))

    async with await loop.create_server(Asks, "127.0.0.1", 0, keep_alive=True) as server:
        await ask(address_of(server))
    assert flags == [1]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="wait_closed waits for connections since Python 3.12")
async def test_wait_closed_waits_for_connections(loop: asyncio.AbstractEventLoop) -> None:
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    transport, protocol = await loop.create_connection(Recorder, *address_of(server))
    transport.write(b"x")
    await protocol.wait_received(1)
    server.close()
    waiting = loop.create_task(server.wait_closed())
    await asyncio.sleep(0.001)
    assert not waiting.done()
    transport.close()
    await waiting


async def test_connections_of_a_closed_server_live_on(loop: asyncio.AbstractEventLoop) -> None:
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    transport, protocol = await loop.create_connection(Recorder, *address_of(server))
    transport.write(b"one")
    await protocol.wait_received(3)
    server.close()
    transport.write(b"two")
    assert await protocol.wait_received(6) == b"onetwo"
    transport.close()
    await protocol.wait_lost()


@pytest.mark.oneloop_only("stock asyncio leaves the accepted socket to the garbage collector")
async def test_a_factory_that_raises(loop: asyncio.AbstractEventLoop, reported: Any) -> None:
    calls: list[int] = []

    def factory() -> Echo:
        calls.append(1)
        if len(calls) % 2:
            raise LookupError("in the factory")
        return Echo()

    async with await loop.create_server(factory, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*address_of(server)[:2])
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        assert await ask(address_of(server)) == b"hello"
    contexts = reported.take()
    assert [type(context["exception"]) for context in contexts] == [LookupError]


async def test_connection_made_that_raises(loop: asyncio.AbstractEventLoop, reported: Any) -> None:
    made: list[Any] = []

    class Failing(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.append(transport)
            raise LookupError("in connection_made")

    async with await loop.create_server(Failing, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*address_of(server)[:2])
        while not made:
            await asyncio.sleep(0.001)
        reported.take_one(LookupError)
        made[0].abort()
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        with contextlib.suppress(ConnectionResetError):
            await writer.wait_closed()


async def test_a_client_that_left_before_accept(loop: asyncio.AbstractEventLoop) -> None:
    """A connection that is reset while it waits in the backlog (ECONNABORTED or dead on arrival)."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = await loop.create_server(Echo, sock=listening, start_serving=False)
    for _ in range(20):
        with socket.create_connection(address_of(server)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    await server.start_serving()
    assert await ask(address_of(server)) == b"hello"
    server.close()
    await server.wait_closed()


@pytest.mark.oneloop_only("stock asyncio tries to serve on, a second later, on a server that was closed meanwhile")
async def test_descriptors_run_out_at_accept(loop: asyncio.AbstractEventLoop, caplog: Any, reported: Any) -> None:
    """EMFILE: the server waits, says so, and serves on when descriptors return."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    clients: list[socket.socket] = []
    fillers: list[int] = []
    async with await loop.create_server(Echo, "127.0.0.1", 0) as server:
        assert await ask(address_of(server)) == b"hello"
        for _ in range(5):
            client = socket.socket()
            client.setblocking(False)
            clients.append(client)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(int(n) for n in os.listdir("/proc/self/fd")) + 4, hard))
            with pytest.raises(OSError, match="Too many open files"):
                while True:
                    fillers.append(os.open("/dev/null", os.O_RDONLY))
            with caplog.at_level(logging.DEBUG, "asyncio"):
                for client in clients:
                    await loop.sock_connect(client, address_of(server))
                for _ in range(20):
                    await asyncio.sleep(0.001)
            contexts = reported.take()
            assert contexts
            for context in contexts:
                assert context["exception"].errno == errno.EMFILE
        finally:
            for fd in fillers:
                os.close(fd)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        try:
            for client in clients:
                await loop.sock_sendall(client, b"hello")
            for client in clients:
                assert await loop.sock_recv(client, 100) == b"hello"
        finally:
            for client in clients:
                client.close()


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    """Every descriptor that this process may have is open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fillers: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(int(n) for n in os.listdir("/proc/self/fd")) + 4, hard))
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                fillers.append(os.open("/dev/null", os.O_RDONLY))
        yield
    finally:
        for fd in fillers:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.oneloop_only("stock asyncio reports each attempt, and its backlog loop tries many times a tick")
async def test_descriptors_that_run_out_are_told_once_and_cost_no_spin(loop: Any, reported: Any) -> None:
    """Once per outage: a second one, after connections have been accepted again, is told again."""
    async with await loop.create_server(Echo, "127.0.0.1", 0) as server:
        for _ in range(2):
            with socket.socket() as client:
                client.setblocking(False)
                with no_descriptors():
                    await loop.sock_connect(client, address_of(server))
                    ticks = loop.statistics().ticks
                    await asyncio.sleep(0.3)
                    # A spinning loop would take thousands.
                    assert loop.statistics().ticks - ticks < 50
                    context = reported.take_one(OSError)
                    assert context["exception"].errno == errno.EMFILE
                    assert context["message"] == "socket.accept() out of system resource"
                    assert "ulimit -n" in context["exception"].__notes__[-1]
                await loop.sock_sendall(client, b"hello")
                assert await loop.sock_recv(client, 100) == b"hello"


@pytest.mark.oneloop_only("stock asyncio reports each attempt, and its backlog loop tries many times a tick")
def test_a_full_file_table_is_told_once_and_the_server_serves_on(loop_name: str) -> None:
    """ENFILE, as the kernel gives it when the whole system has too many files."""
    out = programs.run_ok(
        loop_name,
        """
        import errno
        from oneloop import loop as module
        from tests import failing_calls
        from tests.protocols import Echo

        module.ACCEPT_RETRY_DELAY_S = 0.1

        async def main():
            reports = []
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda loop, context: reports.append(context["exception"].errno))
            server = await loop.create_server(Echo, "127.0.0.1", 0)
            with failing_calls.failing_accept(errno.ENFILE, times=3), socket.socket() as client:
                client.setblocking(False)
                await loop.sock_connect(client, server.sockets[0].getsockname())
                ticks = loop.statistics().ticks
                await loop.sock_sendall(client, b"hello")
                answer = await loop.sock_recv(client, 100)
                assert loop.statistics().ticks - ticks < 50, "it spins"
                print(answer, [errno.errorcode[number] for number in reports])
                server.close()

        try:
            new_loop().run_until_complete(main())
        except failing_calls.UnavailableError as error:
            print("unavailable:", error)
        """,
    )
    if out.startswith("unavailable"):
        pytest.skip(out.strip())
    assert out == "b'hello' ['ENFILE']\n"


@pytest.mark.oneloop_only("stock asyncio closes what it has not opened yet, with a traceback on stderr")
def test_a_process_without_descriptors_cannot_make_a_loop(loop_name: str) -> None:
    """EMFILE while the loop is made: an OSError, and nothing that was opened before it stays."""
    out = programs.run_ok(
        loop_name,
        """
        import resource
        new_loop().close()
        for spare in range(4):
            before = set(os.listdir("/proc/self/fd"))
            highest = max(int(name) for name in before)
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            free = [os.open("/dev/null", os.O_RDONLY) for _ in range(spare)]
            fillers = []
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + spare + 2, hard))
            try:
                while True:
                    fillers.append(os.open("/dev/null", os.O_RDONLY))
            except OSError:
                pass
            for fd in free:
                os.close(fd)
            made = None
            try:
                made = new_loop()
            except OSError as error:
                assert error.errno == 24, error
            if made is not None:
                made.close()
            del made
            import gc
            gc.collect()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for fd in fillers:
                os.close(fd)
            assert len(os.listdir("/proc/self/fd")) == len(before), os.listdir("/proc/self/fd")
        print("ok")
        """,
        options=("-W", "ignore::ResourceWarning"),
    )
    assert out.strip() == "ok"


@pytest.mark.parametrize("ends_by", ["close", "interrupt"])
def test_all_that_waited_are_served_whatever_the_first_one_does(loop: asyncio.AbstractEventLoop, ends_by: str) -> None:
    """The peers of four connections that wait are connected: closing the server, or leaving the loop, loses none."""
    made: list[Any] = []

    class Greeter(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            made.append(transport)
            transport.write(b"hi")
            if ends_by == "close":
                server.close()
            elif len(made) == 1:
                raise KeyboardInterrupt

    listener = socket.create_server(("127.0.0.1", 0))
    clients = [socket.create_connection(listener.getsockname()) for _ in range(4)]
    server = loop.run_until_complete(loop.create_server(Greeter, sock=listener, start_serving=False))

    async def serve() -> None:
        await server.start_serving()
        while len(made) < len(clients):
            await asyncio.sleep(0.001)

    task = loop.create_task(serve())
    if ends_by == "interrupt":
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(task)
    loop.run_until_complete(task)
    for client in clients:
        client.settimeout(60)
        assert client.recv(10) == b"hi"
        client.close()
    server.close()
    loop.run_until_complete(asyncio.sleep(0.01))
    for transport in made:
        transport.abort()
    loop.run_until_complete(asyncio.sleep(0.01))
