"""Datagram transports: the same tests on stock asyncio and on oneloop."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import socket
import sys
import warnings
from typing import TYPE_CHECKING, Any

import pytest

import oneloop

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterator

EMPTY_IS_SENT = sys.version_info >= (3, 12)
HEADER_BYTES = 8 if sys.version_info >= (3, 12) else 0
# asyncio counts a queued datagram's header when it queues it, but not everywhere when it sends it.
STOCK_FORGETS_HEADERS = sys.version_info[:2] in ((3, 12), (3, 13))


def open_descriptors() -> dict[str, str]:
    """Number and target of each open descriptor but the loops' own, which live as long as these."""
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue  # the listing's own
        if not target.startswith("anon_inode:"):
            found[number] = target
    return found


@pytest.fixture(params=["asyncio", "oneloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Run a coroutine function on a new loop; afterwards no descriptor and no error may be left."""
    factory = asyncio.SelectorEventLoop if request.param == "asyncio" else oneloop.Loop
    before = open_descriptors()
    loop = factory()
    errors: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: errors.append(context))

    def runner(main: Callable[..., Any], *, errors_expected: int = 0) -> Any:
        try:
            result = loop.run_until_complete(asyncio.wait_for(main(), 20))
            loop.run_until_complete(asyncio.sleep(0))
        finally:
            loop.close()
        assert len(errors) == errors_expected, errors
        return result

    runner.loop = loop  # type: ignore[attr-defined]
    runner.errors = errors  # type: ignore[attr-defined]
    runner.is_ours = request.param == "oneloop"  # type: ignore[attr-defined]
    yield runner
    loop.close()
    gc.collect()
    assert open_descriptors() == before


class Recorder(asyncio.DatagramProtocol):
    """Keeps everything that it is told."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.received: list[tuple[bytes, Any]] = []
        self.errors: list[Exception] = []
        self.flow: list[str] = []
        self.lost: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.arrived = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.received.append((data, addr))
        self.arrived.set()

    def error_received(self, exc: Exception) -> None:
        self.errors.append(exc)
        self.arrived.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)

    def pause_writing(self) -> None:
        self.flow.append("pause")

    def resume_writing(self) -> None:
        self.flow.append("resume")
        self.arrived.set()

    async def wait_received(self, count: int) -> list[tuple[bytes, Any]]:
        while len(self.received) < count:
            self.arrived.clear()
            await self.arrived.wait()
        return self.received


class Echo(Recorder):
    def datagram_received(self, data: bytes, addr: Any) -> None:
        super().datagram_received(data, addr)
        self.transport.sendto(data, addr)


async def endpoint(factory: Any = Recorder, **kwargs: Any) -> tuple[Any, Any]:
    return await asyncio.get_running_loop().create_datagram_endpoint(factory, **kwargs)


async def finish(*protocols: Recorder) -> None:
    for protocol in protocols:
        protocol.transport.close()
        await protocol.lost


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("connected", [False, True])
def test_echo(run: Any, host: str, connected: bool) -> None:
    async def main() -> None:
        server, echo = await endpoint(Echo, local_addr=(host, 0))
        address = server.get_extra_info("sockname")
        if connected:
            client, recorder = await endpoint(remote_addr=address[:2])
            assert client.get_extra_info("peername") == address
            client.sendto(b"one")
            client.sendto(bytearray(b"two"), None)
            client.sendto(memoryview(b"three"), address)
        else:
            client, recorder = await endpoint(local_addr=(host, 0))
            assert client.get_extra_info("peername") is None
            client.sendto(b"one", address)
            client.sendto(bytearray(b"two"), address[:2])
            client.sendto(memoryview(b"three"), tuple(address))
        received = await recorder.wait_received(3)
        assert received == [(b"one", address), (b"two", address), (b"three", address)]
        sender = client.get_extra_info("sockname")
        assert [addr for _, addr in echo.received] == [sender] * 3
        assert type(echo.received[0][1]) is tuple
        await finish(recorder, echo)
        assert await echo.lost is None

    run(main)


def test_names_are_resolved(run: Any) -> None:
    async def main() -> None:
        server, echo = await endpoint(Echo, local_addr=("127.0.0.1", 0))
        port = server.get_extra_info("sockname")[1]
        client, recorder = await endpoint(local_addr=("127.0.0.1", 0))
        client.sendto(b"by name", ("localhost", port))
        await recorder.wait_received(1)
        client.sendto(b"", ("127.0.0.1", port))
        client.sendto(b"after", ("127.0.0.1", port))
        received = await recorder.wait_received(3 if EMPTY_IS_SENT else 2)
        expected = [b"by name", b"", b"after"] if EMPTY_IS_SENT else [b"by name", b"after"]
        assert [data for data, _ in received] == expected
        await finish(recorder, echo)

    run(main)


def test_ipv6_flow_and_scope(run: Any) -> None:
    async def main() -> None:
        server, echo = await endpoint(Echo, local_addr=("::1", 0))
        port = server.get_extra_info("sockname")[1]
        client, recorder = await endpoint(local_addr=("::1", 0))
        for address in [("::1", port), ("::1", port, 0), ("::1", port, 5, 0), ("0:0::1", port)]:
            client.sendto(repr(address).encode(), address)
        received = await recorder.wait_received(4)
        assert {addr for _, addr in received} == {("::1", port, 0, 0)}
        await finish(recorder, echo)

    run(main)


@pytest.mark.parametrize("kind", ["path", "abstract", "unnamed"])
def test_unix(run: Any, tmp_path: pathlib.Path, kind: str) -> None:
    async def main() -> None:
        names: list[Any] = [str(tmp_path / "server"), str(tmp_path / "cli\u00e9nt")]
        if kind == "abstract":
            names = [f"\0oneloop-{os.getpid()}-{end}".encode() for end in "sc"]
        _, echo = await endpoint(Recorder if kind == "unnamed" else Echo, sock=bound(names[0]))
        client, recorder = await endpoint(sock=bound(None if kind == "unnamed" else names[1]))
        client.sendto(b"hello", names[0])
        if kind == "unnamed":
            assert await echo.wait_received(1) == [(b"hello", None)]
        else:
            assert await recorder.wait_received(1) == [(b"hello", names[0])]
            assert echo.received == [(b"hello", names[1])]
        await finish(recorder, echo)

    run(main)


def test_unix_by_name(run: Any, tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        names = [str(tmp_path / "server"), str(tmp_path / "client")]
        _, echo = await endpoint(Echo, family=socket.AF_UNIX, local_addr=names[0])
        client, recorder = await endpoint(family=socket.AF_UNIX, local_addr=names[1], remote_addr=names[0])
        client.sendto(b"hello")
        assert await recorder.wait_received(1) == [(b"hello", names[0])]
        assert client.get_extra_info("peername") == names[0]
        await finish(recorder, echo)

    run(main)


def bound(name: Any) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    if name is not None:
        sock.bind(name)
    sock.setblocking(False)
    return sock


def test_unix_pair_without_names(run: Any) -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        for sock in (ours, theirs):
            sock.setblocking(False)
        transport, recorder = await endpoint(sock=ours)
        theirs.send(b"in")
        assert await recorder.wait_received(1) == [(b"in", None)]
        transport.sendto(b"out")
        await asyncio.sleep(0)
        assert theirs.recv(10) == b"out"
        theirs.close()
        await finish(recorder)

    if not run.is_ours:
        pytest.skip("asyncio passes None to sendto() for a peer whose name is empty")
    run(main)


def test_broadcast(run: Any) -> None:
    async def main() -> None:
        server, recorder = await endpoint(local_addr=("0.0.0.0", 0), allow_broadcast=True)
        sock = server.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST)
        port = server.get_extra_info("sockname")[1]
        client, other = await endpoint(remote_addr=("127.255.255.255", port), allow_broadcast=True)
        assert client.get_extra_info("peername") is None
        client.sendto(b"to all")
        with pytest.raises(ValueError, match="Invalid address: must be None or"):
            client.sendto(b"to one", ("127.0.0.1", port))
        received = await recorder.wait_received(1)
        assert received[0][0] == b"to all"
        await finish(other, recorder)

    run(main)


def test_refused_datagrams_reach_error_received(run: Any) -> None:
    async def main() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            address = free.getsockname()
        client, recorder = await endpoint(remote_addr=address)
        client.sendto(b"anybody?")
        while not recorder.errors:
            await recorder.arrived.wait()
        assert isinstance(recorder.errors[0], ConnectionRefusedError)
        assert recorder.errors[0].errno == errno.ECONNREFUSED
        assert not client.is_closing()
        await finish(recorder)
        assert await recorder.lost is None

    run(main)


def test_a_datagram_that_is_too_long_is_the_protocols_business(run: Any) -> None:
    async def main() -> None:
        client, recorder = await endpoint(local_addr=("127.0.0.1", 0))
        client.sendto(b"x" * 70_000, client.get_extra_info("sockname"))
        assert [exc.errno for exc in recorder.errors] == [errno.EMSGSIZE]
        client.sendto(b"x", ("no such host.invalid", 9))
        assert isinstance(recorder.errors[1], socket.gaierror)
        assert not client.is_closing()
        await finish(recorder)

    run(main)


@pytest.mark.parametrize("size", [1, 1472, 9000, 65507])
def test_sizes(run: Any, size: int) -> None:
    async def main() -> None:
        server, echo = await endpoint(Echo, local_addr=("127.0.0.1", 0))
        client, recorder = await endpoint(remote_addr=server.get_extra_info("sockname"))
        data = os.urandom(size)
        client.sendto(data)
        received = await recorder.wait_received(1)
        assert received[0][0] == data
        assert type(received[0][0]) is bytes
        await finish(recorder, echo)

    run(main)


def test_empty_datagram_is_received(run: Any) -> None:
    async def main() -> None:
        server, recorder = await endpoint(local_addr=("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"", server.get_extra_info("sockname"))
        received = await recorder.wait_received(1)
        assert received[0][0] == b""
        await finish(recorder)

    run(main)


def test_wrong_types_and_values(run: Any) -> None:
    async def main() -> None:
        client, recorder = await endpoint(local_addr=("127.0.0.1", 0))
        for wrong in ("text", None, 5, [b"x"]):
            name = type(wrong).__name__
            text = f"data argument must be a bytes-like object, not '{name}'"
            with pytest.raises(TypeError, match=text):
                client.sendto(wrong, ("127.0.0.1", 9))
        for high, low in [(1, 2), (-1, None), (None, -1), (-5, -6)]:
            with pytest.raises(ValueError, match="must be >= low"):
                client.set_write_buffer_limits(high, low)
        client.set_write_buffer_limits(low=10)
        assert client.get_write_buffer_limits() == (10, 40)
        client.set_write_buffer_limits(high=100)
        assert client.get_write_buffer_limits() == (25, 100)
        client.set_write_buffer_limits()
        assert client.get_write_buffer_limits() == (16384, 65536)
        assert client.get_extra_info("nothing", "default") == "default"
        assert client.get_protocol() is recorder
        await finish(recorder)

    run(main)


@pytest.mark.parametrize(
    ("address", "error"),
    [
        (None, TypeError),
        ("127.0.0.1", TypeError),
        (("127.0.0.1",), TypeError),
        (("127.0.0.1", "http"), TypeError),
        (("127.0.0.1", 70_000), OverflowError),
        (("127.0.0.1", -1), OverflowError),
    ],
)
def test_a_wrong_address_ends_the_transport(run: Any, address: Any, error: Any) -> None:
    async def main() -> None:
        client, recorder = await endpoint(local_addr=("127.0.0.1", 0))
        client.sendto(b"x", address)
        assert client.is_closing()
        assert isinstance(await recorder.lost, error)

    run(main, errors_expected=1)
    assert run.errors[0]["message"] == "Fatal write error on datagram transport"
    assert isinstance(run.errors[0]["exception"], error)


def test_the_only_destination(run: Any) -> None:
    async def main() -> None:
        server, echo = await endpoint(Echo, local_addr=("127.0.0.1", 0))
        address = server.get_extra_info("sockname")
        client, recorder = await endpoint(remote_addr=address)
        with pytest.raises(ValueError, match="Invalid address: must be None or"):
            client.sendto(b"x", ("127.0.0.1", 1))
        await finish(recorder, echo)

    run(main)


def fill(transport: Any, size: int = 1000) -> int:
    """Send until something is queued; returns how many datagrams were sent or queued."""
    count = 0
    while not transport.get_write_buffer_size():
        transport.sendto(count.to_bytes(4, "big") + b"x" * (size - 4))
        count += 1
        assert count < 10_000
    return count


async def blocked_pair(factory: Any = Recorder) -> tuple[Any, Any, socket.socket]:
    """A connected Unix datagram transport whose peer reads only when the test does."""
    name = f"\0oneloop-blocked-{os.getpid()}".encode()
    peer = bound(name)
    ours = bound(None)
    ours.connect(name)
    transport, recorder = await endpoint(factory, sock=ours)
    return transport, recorder, peer


def drain(peer: socket.socket) -> list[int]:
    numbers = []
    while True:
        try:
            numbers.append(int.from_bytes(peer.recv(65536)[:4], "big"))
        except BlockingIOError:
            return numbers


def test_flow_control_and_order(run: Any) -> None:
    async def main() -> None:
        transport, recorder, peer = await blocked_pair()
        count = fill(transport)
        assert transport.get_write_buffer_size() == 1000 + HEADER_BYTES
        transport.set_write_buffer_limits(high=3000)
        assert recorder.flow == []
        for _ in range(5):
            buffer = bytearray(count.to_bytes(4, "big") + b"x" * 996)
            transport.sendto(buffer)
            buffer[:4] = b"\xff" * 4  # what is queued is a copy
            count += 1
        assert recorder.flow == ["pause"]
        assert transport.get_write_buffer_size() == 6 * (1000 + HEADER_BYTES)
        numbers: list[int] = []
        while len(numbers) < count:
            numbers += drain(peer)
            await asyncio.sleep(0)
        assert numbers == list(range(count))
        await asyncio.sleep(0)
        assert recorder.flow == ["pause", "resume"]
        if not STOCK_FORGETS_HEADERS or run.is_ours:
            assert transport.get_write_buffer_size() == 0
        peer.close()
        await finish(recorder)

    run(main)


def test_close_sends_what_is_queued(run: Any) -> None:
    async def main() -> None:
        transport, recorder, peer = await blocked_pair()
        count = fill(transport)
        transport.close()
        assert transport.is_closing()
        await asyncio.sleep(0)
        assert not recorder.lost.done()
        numbers: list[int] = []
        while not recorder.lost.done():
            numbers += drain(peer)
            await asyncio.sleep(0)
        numbers += drain(peer)
        assert numbers == list(range(count))
        assert await recorder.lost is None
        peer.close()

    run(main)


def test_abort_drops_what_is_queued(run: Any) -> None:
    async def main() -> None:
        transport, recorder, peer = await blocked_pair()
        fill(transport)
        transport.abort()
        transport.abort()
        transport.close()
        assert await recorder.lost is None
        if run.is_ours:
            assert transport.get_write_buffer_size() == 0
        assert transport.get_protocol() is None
        peer.close()

    run(main)


def test_a_peer_that_goes_while_datagrams_wait(run: Any) -> None:
    async def main() -> None:
        transport, recorder, peer = await blocked_pair()
        fill(transport)
        peer.close()
        while not recorder.errors:
            await asyncio.sleep(0)
        assert isinstance(recorder.errors[0], ConnectionRefusedError)
        assert not transport.is_closing()
        await finish(recorder)

    run(main)


@pytest.mark.parametrize("method", ["datagram_received", "error_received"])
def test_a_raising_callback_is_reported_and_survived(run: Any, method: str) -> None:
    class Raising(Recorder):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            super().datagram_received(data, addr)
            if data == b"raise":
                raise ZeroDivisionError

        def error_received(self, exc: Exception) -> None:
            super().error_received(exc)
            raise ZeroDivisionError

    async def main() -> None:
        if method == "datagram_received":
            transport, recorder = await endpoint(Raising, local_addr=("127.0.0.1", 0))
            address = transport.get_extra_info("sockname")
            for data in (b"before", b"raise", b"after"):
                transport.sendto(data, address)
            assert [data for data, _ in await recorder.wait_received(3)] == [
                b"before",
                b"raise",
                b"after",
            ]
        else:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
                free.bind(("127.0.0.1", 0))
                address = free.getsockname()
            transport, recorder = await endpoint(Raising, remote_addr=address)
            transport.sendto(b"anybody?")
            while not recorder.errors:
                await recorder.arrived.wait()
            # While sending it is called directly, so that its exception is the sender's.
            with pytest.raises(ZeroDivisionError):
                transport.sendto(b"x" * 70_000)
        assert not transport.is_closing()
        await finish(recorder)

    run(main, errors_expected=1)
    assert isinstance(run.errors[0]["exception"], ZeroDivisionError)


def test_raising_connection_made_and_connection_lost(run: Any) -> None:
    class Raising(Recorder):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            raise ZeroDivisionError

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            raise ZeroDivisionError

    async def main() -> None:
        _, recorder = await endpoint(Raising, local_addr=("127.0.0.1", 0))
        await finish(recorder)
        await asyncio.sleep(0)

    run(main, errors_expected=2)


def test_keyboard_interrupt_leaves_the_loop_and_loses_nothing(run: Any) -> None:
    class Interrupting(Recorder):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            super().datagram_received(data, addr)
            if data == b"interrupt":
                raise KeyboardInterrupt

    recorders = []

    async def interrupted() -> None:
        transport, recorder = await endpoint(Interrupting, local_addr=("127.0.0.1", 0))
        recorders.append(recorder)
        address = transport.get_extra_info("sockname")
        for data in (b"interrupt", b"after"):
            transport.sendto(data, address)
        await recorder.wait_received(2)

    async def resumed() -> None:
        await recorders[0].wait_received(2)
        await finish(*recorders)

    loop = run.loop
    task = loop.create_task(interrupted())
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(task)
    loop.run_until_complete(task)
    run(resumed)


def test_many_senders_keep_their_addresses(run: Any) -> None:
    async def main() -> None:
        server, echo = await endpoint(Echo, local_addr=("127.0.0.1", 0))
        address = server.get_extra_info("sockname")
        clients = [await endpoint(remote_addr=address) for _ in range(200)]
        for round_ in range(3):
            for number, (client, _) in enumerate(clients):
                client.sendto(b"%d.%d" % (round_, number))
                if number % 20 == 0:
                    await asyncio.sleep(0)
            for _, recorder in clients:
                await recorder.wait_received(round_ + 1)
        for number, (client, recorder) in enumerate(clients):
            assert recorder.received == [(b"%d.%d" % (r, number), address) for r in range(3)]
            mine = client.get_extra_info("sockname")
            seen = [addr for data, addr in echo.received if data.endswith(b".%d" % number)]
            assert seen == [mine] * 3
        await finish(echo, *(recorder for _, recorder in clients))

    run(main)


def test_a_flood_is_received_whole_and_in_order(run: Any) -> None:
    async def main() -> None:
        server, recorder = await endpoint(local_addr=("127.0.0.1", 0))
        client, other = await endpoint(remote_addr=server.get_extra_info("sockname"))
        for burst in (1, 2, 3, 40, 1, 1, 1, 100, 5):
            start = len(recorder.received)
            for number in range(burst):
                client.sendto(number.to_bytes(4, "big"))
            await recorder.wait_received(start + burst)
            assert [int.from_bytes(d, "big") for d, _ in recorder.received[start:]] == list(range(burst))
        await finish(recorder, other)

    run(main)


@pytest.mark.parametrize("how", ["close", "abort", "pause_reading"])
def test_nothing_is_delivered_after(run: Any, how: str) -> None:
    class Ending(Recorder):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            super().datagram_received(data, addr)
            getattr(self.transport, how)()

    async def main() -> None:
        transport, recorder = await endpoint(Ending, local_addr=("127.0.0.1", 0))
        for _ in range(10):
            transport.sendto(b"x", transport.get_extra_info("sockname"))
        await recorder.wait_received(1)
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(recorder.received) == 1
        if how == "pause_reading":
            assert not transport.is_reading()
            transport.resume_reading()
            await recorder.wait_received(2)
            transport.close()
        assert await recorder.lost is None

    run(main)


def test_sending_on_a_closed_transport_is_harmless(run: Any) -> None:
    async def main() -> None:
        server, echo = await endpoint(Echo, local_addr=("127.0.0.1", 0))
        client, recorder = await endpoint(remote_addr=server.get_extra_info("sockname"))
        await finish(recorder, echo)
        for _ in range(6):
            client.sendto(b"too late")
        assert client.is_closing()

    run(main)


def test_set_protocol(run: Any) -> None:
    async def main() -> None:
        transport, first = await endpoint(local_addr=("127.0.0.1", 0))
        address = transport.get_extra_info("sockname")
        second = Recorder()
        second.transport = transport
        transport.set_protocol(second)
        assert transport.get_protocol() is second
        transport.sendto(b"x", address)
        await second.wait_received(1)
        assert not first.received
        await finish(second)

    run(main)


def test_a_socket_closed_behind_its_back(run: Any) -> None:
    """The number goes to another socket; neither hears of the other's datagrams."""

    async def main() -> None:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setblocking(False)
        sock.bind(("127.0.0.1", 0))
        transport, recorder = await endpoint(sock=sock)
        number = sock.fileno()
        sock.close()
        other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        assert other.fileno() == number
        other.bind(("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"for the other", other.getsockname())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not recorder.received
        transport.sendto(b"from nobody", other.getsockname())
        assert recorder.errors[0].errno == errno.EBADF
        await finish(recorder)
        assert other.recv(100) == b"for the other"
        other.close()

    if not run.is_ours:
        pytest.skip("asyncio watches the number, whoever owns it")
    run(main)


def test_unclosed_transport_warns(run: Any) -> None:
    async def main() -> None:
        transport, recorder = await endpoint(local_addr=("127.0.0.1", 0))
        assert "DatagramTransport" in repr(transport)
        recorder.transport = None

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(main)
        run.loop = None
        gc.collect()
    messages = [str(w.message) for w in caught if issubclass(w.category, ResourceWarning)]
    if run.is_ours:  # asyncio's lives on in its loop's tables
        assert any("DatagramTransport" in message for message in messages)


def test_another_family(run: Any) -> None:
    """Netlink addresses are the socket module's."""

    async def main() -> None:
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 0)
        sock.setblocking(False)
        sock.bind((0, 0))
        transport, recorder = await endpoint(sock=sock)
        # RTM_GETLINK | NLM_F_REQUEST | NLM_F_DUMP (rtnetlink(7))
        request = bytes([20, 0, 0, 0, 18, 0, 1, 3]) + bytes(12)
        transport.sendto(request, (0, 0))
        received = await recorder.wait_received(1)
        assert received[0][1] == (0, 0)
        await finish(recorder)

    run(main)
