"""getaddrinfo and getnameinfo: what they return, whom they ask, and numeric addresses without a thread."""

from __future__ import annotations

import _socket
import asyncio
import enum
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from oneloop import names

CASES: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (("127.0.0.1", 80), {"type": socket.SOCK_STREAM}),
    (("127.0.0.1", "80"), {"type": socket.SOCK_STREAM}),
    ((b"127.0.0.1", 80), {"type": socket.SOCK_STREAM}),
    (("127.0.0.1", 53), {"type": socket.SOCK_DGRAM}),
    (("127.0.0.1", 80), {"type": socket.SOCK_STREAM, "proto": socket.IPPROTO_TCP}),
    (("127.0.0.1", 80), {"type": socket.SOCK_STREAM, "flags": socket.AI_PASSIVE}),
    (("::1", 80), {"type": socket.SOCK_STREAM}),
    (("::1", 80), {"family": socket.AF_INET6, "type": socket.SOCK_STREAM}),
    (("fe80::1%lo", 80), {"type": socket.SOCK_STREAM}),
    (("fe80::1%1", 80), {"type": socket.SOCK_STREAM}),
    (("::ffff:127.0.0.1", 80), {"type": socket.SOCK_STREAM}),
    (("127.0.0.1", None), {"type": socket.SOCK_STREAM}),
    (("127.0.0.1", 0), {}),
    (("127.1", 80), {"type": socket.SOCK_STREAM}),
    (("localhost", 80), {"family": socket.AF_INET, "type": socket.SOCK_STREAM}),
    (("localhost", "80"), {}),
    (("LocalHost", None), {"type": socket.SOCK_DGRAM}),
    (("localhost", 80), {"flags": socket.AI_CANONNAME}),
    ((b"localhost", b"80"), {"type": socket.SOCK_STREAM}),
    ((None, 80), {"type": socket.SOCK_STREAM, "flags": socket.AI_PASSIVE}),
    ((None, 80), {"type": socket.SOCK_STREAM}),
]


@pytest.mark.parametrize(("arguments", "options"), CASES)
async def test_getaddrinfo_is_the_sockets(
    loop: asyncio.AbstractEventLoop, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    expected = socket.getaddrinfo(*arguments, **options)
    found = await loop.getaddrinfo(*arguments, **options)
    assert found == expected
    assert list(map(repr, found)) == list(map(repr, expected)), "the numbers have names"


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (("127.0.0.1", 80), {"family": socket.AF_INET6, "type": socket.SOCK_STREAM}),
        (("::1", 80), {"family": socket.AF_INET, "type": socket.SOCK_STREAM}),
        (("127.0.0.1.5", 80), {"flags": socket.AI_NUMERICHOST}),
        (("name.invalid", 80), {"flags": socket.AI_NUMERICHOST}),
        (("127.0.0.1", "no-such-service"), {}),
        (("localhost", "no-such-service"), {}),
        (("localhost", 80), {"family": 12345}),
        (("localhost", 80), {"flags": 1 << 20}),
        (("fe80::1%no-such-interface", 80), {"flags": socket.AI_NUMERICHOST}),
    ],
)
async def test_getaddrinfo_fails_as_the_sockets_does(
    loop: asyncio.AbstractEventLoop, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    with pytest.raises(socket.gaierror) as expected:
        socket.getaddrinfo(*arguments, **options)
    with pytest.raises(socket.gaierror) as got:
        await loop.getaddrinfo(*arguments, **options)
    assert got.value.args == expected.value.args


@pytest.mark.parametrize("host", ["a..b", "a" * 64, ".".join(["a" * 60] * 5), "\u00fc" * 300, "nul\0", "", "\ud800"])
async def test_what_python_refuses_to_encode(loop: asyncio.AbstractEventLoop, host: str) -> None:
    with pytest.raises((ValueError, OSError)) as expected:
        socket.getaddrinfo(host, 80, flags=socket.AI_NUMERICHOST)
    with pytest.raises(expected.type):
        await loop.getaddrinfo(host, 80, flags=socket.AI_NUMERICHOST)


@pytest.mark.parametrize("port", [-1, 1 << 16, 1 << 70, 1.5, True, "", b"", " 80", "+80", "h" * 33, "\u00fc", "8\0"])
async def test_ports_that_are_none(loop: asyncio.AbstractEventLoop, port: Any) -> None:
    results = []
    for ask in (socket.getaddrinfo, loop.getaddrinfo):
        try:
            found: Any = ask("localhost", port, type=socket.SOCK_STREAM)
            results.append(await found if asyncio.iscoroutine(found) else found)
        except (OSError, OverflowError, TypeError, ValueError) as error:
            results.append(type(error))
    assert results[0] == results[1]


async def test_a_replaced_getaddrinfo_is_called(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *_rest: [host])
    found: Any = await loop.getaddrinfo("localhost", 80)
    assert found == ["localhost"]


async def test_a_replaced_native_getaddrinfo_is_called(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 80))
    monkeypatch.setattr(_socket, "getaddrinfo", lambda *_arguments: [found])
    assert await loop.getaddrinfo("localhost", 80) == [found]


async def test_debug_mode_logs(loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture) -> None:
    loop.set_debug(True)
    with caplog.at_level(logging.DEBUG, logger="asyncio"):
        assert await loop.getaddrinfo("localhost", 80)
    assert "Getting address info localhost:80" in caplog.text


async def test_services_are_looked_up_on_a_thread(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, threads = socket.getaddrinfo, []

    def noting(*arguments: Any) -> Any:
        threads.append(threading.get_ident())
        return real(*arguments)

    monkeypatch.setattr(socket, "getaddrinfo", noting)
    assert await loop.getaddrinfo("127.0.0.1", "80")
    assert threads != [threading.get_ident()]


async def test_negative_flags(loop: asyncio.AbstractEventLoop) -> None:
    """They have AI_NUMERICHOST already, and others that no C library knows."""
    for flags in (-1, -2):
        with pytest.raises(socket.gaierror) as expected:
            socket.getaddrinfo("127.0.0.1", 80, flags=flags)
        with pytest.raises(socket.gaierror) as got:
            await loop.getaddrinfo("127.0.0.1", 80, flags=flags)
        assert got.value.args == expected.value.args


@pytest.mark.parametrize("of", [names._address_family, names._socket_kind])
def test_a_number_without_a_name_is_a_number(of: Callable[[int], int]) -> None:
    assert (of(9999), type(of(9999))) == (9999, int)
    assert isinstance(of(2), enum.IntEnum)


async def test_the_programs_executor_is_used(loop: asyncio.AbstractEventLoop) -> None:
    with ThreadPoolExecutor(1, thread_name_prefix="mine") as executor:
        loop.set_default_executor(executor)
        assert await loop.getaddrinfo("localhost", 80)
        assert [thread.name for thread in threading.enumerate() if thread.name.startswith("mine")]


async def test_the_programs_run_in_executor_is_used(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def run(_executor: object, function: Any, *args: Any) -> asyncio.Future[Any]:
        asked.append(args)
        future = loop.create_future()
        future.set_result(function(*args))
        return future

    monkeypatch.setattr(loop, "run_in_executor", run)
    assert await loop.getaddrinfo("localhost", 80)
    assert asked[0][:2] == ("localhost", 80)


async def test_no_name_is_resolved_after_the_executors_shutdown(loop: asyncio.AbstractEventLoop) -> None:
    await loop.shutdown_default_executor()
    with pytest.raises(RuntimeError):
        await loop.getaddrinfo("localhost", 80)


@pytest.mark.oneloop_only("asyncio: a look-up in the executor may be over before it is abandoned")
async def test_a_look_up_can_be_abandoned(loop: asyncio.AbstractEventLoop) -> None:
    task = loop.create_task(loop.getaddrinfo("localhost", 80))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await loop.getaddrinfo("localhost", 80)


async def test_more_look_ups_than_threads(loop: asyncio.AbstractEventLoop) -> None:
    expected = socket.getaddrinfo("localhost", 80)
    found = await asyncio.gather(*(loop.getaddrinfo("localhost", 80) for _ in range(200)))
    assert found == [expected] * 200


@pytest.mark.oneloop_only("asyncio: a look-up in the executor may be over before the loop is closed")
def test_closing_a_loop_ends_what_waits(loop: asyncio.AbstractEventLoop) -> None:
    async def begin() -> asyncio.Task[Any]:
        task = loop.create_task(loop.getaddrinfo("localhost", 80))
        await asyncio.sleep(0)
        return task

    task = loop.run_until_complete(begin())
    loop.close()
    assert not task.done()
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def test_the_audit_event() -> None:
    program = (
        "import asyncio, oneloop, sys\n"
        "seen = []\n"
        "sys.addaudithook(lambda name, args: seen.append(args) if name == 'socket.getaddrinfo' else None)\n"
        "async def main():\n"
        "    await asyncio.get_running_loop().getaddrinfo('localhost', 80, type=1)\n"
        "asyncio.run(main()) if sys.argv[1:] else oneloop.run(main())\n"
        "print(seen)\n"
    )
    run = [sys.executable, "-c", program]
    ours, stock = (subprocess.run(run + more, capture_output=True, text=True, check=True) for more in ([], ["stock"]))
    assert ours.stdout == stock.stdout == "[('localhost', 80, 0, 1, 0)]\n"


@pytest.mark.parametrize("host", [1, 1.5, object(), ["127.0.0.1"]])
async def test_what_is_not_a_host(loop: asyncio.AbstractEventLoop, host: Any) -> None:
    with pytest.raises(TypeError):
        await loop.getaddrinfo(host, 80)


@pytest.mark.oneloop_only("stock asyncio asks a thread about numeric addresses too")
async def test_numeric_addresses_need_no_thread(loop: asyncio.AbstractEventLoop) -> None:
    before = threading.active_count()
    for host in ("127.0.0.1", "::1"):
        await loop.getaddrinfo(host, 80, type=socket.SOCK_STREAM)
    reader, writer = await open_connection_to_a_listener(loop)
    writer.close()
    await writer.wait_closed()
    reader.close()
    assert threading.active_count() == before


async def open_connection_to_a_listener(
    loop: asyncio.AbstractEventLoop,
) -> tuple[socket.socket, asyncio.StreamWriter]:
    listener = socket.create_server(("127.0.0.1", 0))
    _, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
    return listener, writer


@pytest.mark.parametrize(
    ("address", "flags"),
    [
        (("127.0.0.1", 80), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV),
        (("::1", 80, 0, 0), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV),
        (("127.0.0.1", 80), socket.NI_NUMERICHOST),
        (("fe80::1%lo", 80), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV),
        (("fe80::1", 80, 0, 1), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV),
        (("127.0.0.1", 53), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV | socket.NI_DGRAM),
    ],
)
async def test_getnameinfo_is_the_sockets(loop: asyncio.AbstractEventLoop, address: Any, flags: int) -> None:
    assert await loop.getnameinfo(address, flags) == socket.getnameinfo(address, flags)


async def test_getnameinfo_refuses_what_the_sockets_refuses(loop: asyncio.AbstractEventLoop) -> None:
    for address in ("127.0.0.1", ("127.0.0.1", "x"), None):
        with pytest.raises((TypeError, OSError)) as expected:
            socket.getnameinfo(address, 0)  # type: ignore[arg-type]
        with pytest.raises(expected.type):
            await loop.getnameinfo(address, 0)  # type: ignore[arg-type]
