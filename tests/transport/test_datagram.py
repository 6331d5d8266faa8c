"""Datagram transports, addresses and values: the same tests on stock asyncio and on oneloop."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.ipv6 import NEEDS_IPV6
from tests.transport.datagrams import Echo, Recorder, bound, endpoint, finish

if TYPE_CHECKING:
    import pathlib

OURS_SENDS_EMPTY, STOCK_SENDS_EMPTY = sys.version_info >= (3, 12), sys.version_info >= (3, 13)


@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("::1", marks=NEEDS_IPV6)])
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
        received = await recorder.wait_received(3 if (OURS_SENDS_EMPTY if run.is_ours else STOCK_SENDS_EMPTY) else 2)
        expected = [b"by name", b"", b"after"] if len(received) == 3 else [b"by name", b"after"]
        assert [data for data, _ in received] == expected
        await finish(recorder, echo)

    run(main)


@NEEDS_IPV6
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


def test_arguments_by_position_and_by_name(run: Any) -> None:
    async def main() -> None:
        server, echo = await endpoint(Echo, local_addr=("127.0.0.1", 0))
        address = server.get_extra_info("sockname")
        client, recorder = await endpoint(local_addr=("127.0.0.1", 0))
        client.sendto(b"one", address)
        client.sendto(b"two", addr=address)
        client.sendto(addr=address, data=b"three")
        wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
            ((), {}),
            ((), {"addr": address}),
            ((b"", address, 1), {}),
            ((b"", address), {"port": 1}),
            ((b"",), {"data": b""}),
            ((b"", address), {"addr": address}),
        ]
        for args, kwargs in wrong:
            with pytest.raises(TypeError, match="sendto"):
                client.sendto(*args, **kwargs)
        client.sendto(b"after", address)
        received = await recorder.wait_received(4)
        assert [data for data, _ in received] == [b"one", b"two", b"three", b"after"]
        await finish(recorder, echo)

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
