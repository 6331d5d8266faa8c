"""What a server listens on: paths, descriptors, systemd's sockets; and what it tells systemd."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import stat
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oneloop.http.listeners import ListenError, all_of, open_listeners
from oneloop.http.options import Options
from tests.http.service import APPS, Service, read_all
from tests.ports import free_port

pytestmark = pytest.mark.time_limit(180)

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
WORKERS = pytest.mark.parametrize("workers", [(), ("--workers", "2")], ids=["alone", "workers"])


def ask_path(path: Path) -> bytes:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(30)
    sock.connect(str(path))
    sock.sendall(REQUEST)
    return read_all(sock)


@WORKERS
def test_a_unix_socket(tmp_path: Path, workers: tuple[str, ...]) -> None:
    path = tmp_path / "s"
    with Service(tmp_path, "--uds", "s", *workers, port=None) as service:
        assert service.shown == "unix socket s"
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        assert ask_path(path).startswith(b"HTTP/1.1 200 OK")
        # The path is taken, while somebody listens.
        with Service(tmp_path, "--uds", "s", port=None, is_ready=False) as second:
            assert second.wait() == 3
        assert "cannot listen on the unix socket s: another program already listens there" in second.log.text
        assert ask_path(path).startswith(b"HTTP/1.1 200 OK")
        assert service.end() == 0
    assert not path.exists()


def test_a_unix_socket_that_was_left_is_replaced_and_its_mode_kept(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as left:
        left.bind(str(path))
    path.chmod(0o600)
    with Service(tmp_path, "--uds", "s", port=None) as service:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert ask_path(path).startswith(b"HTTP/1.1 200 OK")
        assert service.end() == 0


def test_the_mode_of_a_unix_socket(tmp_path: Path) -> None:
    with Service(tmp_path, "--uds", "s", "--uds-mode", "660", port=None) as service:
        assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o660
        assert service.end() == 0


def test_a_file_in_its_place_is_left(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("mine")
    with Service(tmp_path, "--uds", "s", port=None, is_ready=False) as service:
        assert service.wait() == 3
    assert "s exists and is not a socket: remove it, or choose another path for --uds" in service.log.text
    assert (tmp_path / "s").read_text() == "mine"


@WORKERS
def test_a_socket_of_a_successor_is_not_removed(tmp_path: Path, workers: tuple[str, ...]) -> None:
    path = tmp_path / "s"
    with Service(tmp_path, "--uds", "s", *workers, port=None) as service:
        path.unlink()
        with Service(tmp_path, "--uds", "s", port=None) as second:
            assert service.end() == 0
            assert ask_path(path).startswith(b"HTTP/1.1 200 OK")
            assert second.end() == 0


@WORKERS
def test_a_descriptor(tmp_path: Path, workers: tuple[str, ...]) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listening:
        fd = listening.fileno()
        with Service(tmp_path, "--fd", str(fd), *workers, port=None, pass_fds=(fd,)) as service:
            assert service.port == listening.getsockname()[1]
            assert service.get("/")
            assert service.end() == 0


# exec keeps the pid, which LISTEN_PID has to be.
ACTIVATED = """
import os, sys
for number, fd in enumerate(map(int, sys.argv[1].split(","))):
    os.dup2(fd, 3 + number)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(number + 1), LISTEN_FDNAMES="one:two")
os.execv(sys.executable, [sys.executable, "-m", "oneloop", "serve", *sys.argv[2:]])
"""


@WORKERS
def test_sockets_of_systemd(tmp_path: Path, workers: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.socket(socket.AF_UNIX) as two:
        two.bind(str(tmp_path / "two"))
        two.listen()
        # Above those that it becomes.
        fds = [os.dup2(made.fileno(), 100 + number) for number, made in enumerate((one, two))]
        try:
            command = ("-c", ACTIVATED, ",".join(map(str, fds)))
            with Service(tmp_path, *workers, port=None, pass_fds=tuple(fds), command=command) as service:
                assert service.port == one.getsockname()[1]
                service.log.wait_for(r"oneloop running on unix socket .*two")
                assert service.get("/")
                assert ask_path(tmp_path / "two").startswith(b"HTTP/1.1 200 OK")
                assert service.end() == 0
        finally:
            for fd in fds:
                os.close(fd)
    # systemd's own.
    assert (tmp_path / "two").exists()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket that the service manager hears."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(tmp_path / "notify"))
        made.settimeout(30)
        yield made


def told(manager: socket.socket) -> dict[str, str]:
    """The next thing that the manager is told, but for the watchdog."""
    while True:
        said = dict(line.split("=", 1) for line in manager.recv(4096).decode().split("\n"))
        if "WATCHDOG" not in said:
            return said


@WORKERS
def test_systemd_is_told(tmp_path: Path, manager: socket.socket, workers: tuple[str, ...]) -> None:
    env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
    with Service(tmp_path, *workers, env=env) as service:
        ready = told(manager)
        assert (ready["READY"], ready["MAINPID"]) == ("1", str(service.process.pid))
        while b"WATCHDOG=1" not in manager.recv(4096):
            pass
        service.send(signal.SIGHUP)
        reloading = told(manager)
        assert reloading["RELOADING"] == "1"
        assert re.fullmatch(r"\d+", reloading["MONOTONIC_USEC"])
        assert told(manager)["READY"] == "1"
        assert service.end() == 0
        assert told(manager)["STOPPING"] == "1"


def test_systemd_is_told_though_the_last_successor_is_not_needed_any_more(
    tmp_path: Path, manager: socket.socket
) -> None:
    source = """
    import os, time

    # The second worker of those that replace two.
    if os.path.exists("roll"):
        with open("starts", "a") as file:
            file.write("x")
            is_second = file.tell() == 2
        while is_second:
            open("waits", "w").close()
            time.sleep(0.01)
    """
    source = textwrap.dedent(source) + APPS
    env = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    with Service(tmp_path, "--workers", "2", source=source, env=env) as service:
        assert told(manager)["READY"] == "1"
        (tmp_path / "roll").touch()
        service.send(signal.SIGHUP)
        assert told(manager)["RELOADING"] == "1"
        service.wait_for_file("waits")
        service.send(signal.SIGTTOU)
        assert told(manager)["READY"] == "1"
        assert service.end() == 0


def test_an_abstract_socket_of_systemd(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        name = f"oneloop-test-{os.getpid()}"
        made.bind("\0" + name)
        made.settimeout(30)
        with Service(tmp_path, env={"NOTIFY_SOCKET": "@" + name}) as service:
            assert told(made)["READY"] == "1"
            assert service.end() == 0


def test_several_addresses_have_one_port() -> None:
    [listeners] = open_listeners(Options(host="localhost", port=0))
    try:
        assert len({listener.socket.getsockname()[1] for listener in listeners}) == 1
        assert len({listener.shown for listener in listeners}) == len(listeners)
    finally:
        for listener in listeners:
            listener.close()


@pytest.mark.parametrize("reuse_port", [False, True])
def test_an_address_of_a_name_that_this_machine_does_not_have(
    monkeypatch: pytest.MonkeyPatch, reuse_port: bool
) -> None:
    """As `::1` of `localhost` where IPv6 is disabled. The others do; if there are none, that is told."""
    hosts = ["192.0.2.1", "127.0.0.1"]

    def found(_: object, port: int, **options: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in hosts]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    options = Options(host="both", port=0, reuse_port=reuse_port, workers=2)
    groups = open_listeners(options, 2)
    assert len(groups) == (2 if reuse_port else 1)
    for [listener] in groups:
        assert listener.socket.getsockname()[0] == "127.0.0.1"
        listener.close()
    hosts.pop()
    with pytest.raises(ListenError, match="cannot listen on both port 0: Cannot assign requested address"):
        open_listeners(options, 2)


def test_each_group_has_its_own_sockets() -> None:
    groups = open_listeners(Options(port=0, reuse_port=True), 3)
    try:
        assert len(groups) == 3
        assert len({listener.socket.getsockname() for listener in all_of(groups)}) == 1
    finally:
        for listener in all_of(groups):
            listener.close()


def test_a_descriptor_that_is_no_socket(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        with pytest.raises(ListenError, match="is not an open socket: Socket operation on non-socket"):
            open_listeners(Options(fd=file.fileno()))


def test_a_unix_socket_is_removed_by_the_process_that_made_it(tmp_path: Path) -> None:
    [[listener]] = open_listeners(Options(uds=str(tmp_path / "s")))
    listener._owner_pid += 1
    listener.close()
    assert (tmp_path / "s").exists()


def test_a_unix_socket_whose_queue_is_full_is_left(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with contextlib.ExitStack() as sockets:
        owner = sockets.enter_context(socket.socket(socket.AF_UNIX))
        owner.bind(str(path))
        owner.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                waiting = sockets.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect(str(path))
        with pytest.raises(ListenError, match="another program already listens there"):
            open_listeners(Options(uds=str(path)))
        assert path.exists()


def test_a_port_that_another_program_shares_is_left() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(ListenError, match="another program already listens there"):
            open_listeners(Options(port=other.getsockname()[1], reuse_port=True))


def test_an_address_of_ipv6_is_none_of_ipv4() -> None:
    try:
        [[listener]] = open_listeners(Options(host="::", port=0))
    except ListenError:
        pytest.skip("no IPv6")
    try:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", listener.socket.getsockname()[1]), 5).close()
    finally:
        listener.close()


assert sys.platform == "linux"


def test_a_descriptor_that_is_a_connection() -> None:
    for one, other in (socket.socketpair(), connected()):
        with one, other, pytest.raises(ListenError, match=f"^--fd {one.fileno()} is a connection: pass a bound socket"):
            open_listeners(Options(fd=one.fileno()))


def connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        return one, server.accept()[0]


def test_a_path_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(ListenError, match=r"cannot listen on the unix socket .*: AF_UNIX path too long"):
        open_listeners(Options(uds=str(tmp_path / ("s" * 120))))


# -- clients are refused until the application is ready --

SLOW = """
    import os, time
    from oneloop_apps import *

    open("importing", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.01)
"""
LIFESPAN = """
    import asyncio, os
    import oneloop_apps
    from oneloop_apps import *

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            open("importing", "w").close()
            while not os.path.exists("go"):
                await asyncio.sleep(0.01)
        await oneloop_apps.app(scope, receive, send)
"""


def slow_service(folder: Path, *arguments: str, source: str = SLOW, **options: Any) -> Service:
    """A service whose application is not ready before the file `go` exists."""
    (folder / "oneloop_apps.py").write_text(APPS)
    service = Service(folder, *arguments, source=source, is_ready=False, **options)
    service.wait_for_file("importing")
    return service


@pytest.mark.parametrize("source", [SLOW, LIFESPAN], ids=["import", "lifespan"])
@pytest.mark.parametrize("options", [(), ("--workers", "2"), ("--workers", "2", "--reuse-port"), ("--reload",)])
def test_a_port_is_closed_until_the_application_is_ready(tmp_path: Path, options: tuple[str, ...], source: str) -> None:
    port = free_port()
    with slow_service(tmp_path, *options, source=source, port=port) as service:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5)
        # The address is taken nevertheless.
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        (tmp_path / "go").touch()
        service.log.wait_for(r"oneloop running on (\S.*) \(Press")
        service.port = port
        assert service.get("/")
        assert service.end() == 0


def test_a_unix_socket_refuses_until_the_application_is_ready(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with slow_service(tmp_path, "--uds", "s", port=None) as service:
        with socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionRefusedError):
            client.connect(str(path))
        # Another one does not take it for a socket that was left.
        with Service(tmp_path, "--uds", str(path), port=None, is_ready=False) as second:
            assert second.wait() == 3
        assert f"cannot listen on the unix socket {path}: another program already listens there" in second.log.text
        (tmp_path / "go").touch()
        service.log.wait_for(r"oneloop running on unix socket s")
        assert ask_path(path).startswith(b"HTTP/1.1 200 OK")
        assert service.end() == 0
    assert not path.exists()


@WORKERS
def test_a_path_is_free_again_while_requests_are_finished(tmp_path: Path, workers: tuple[str, ...]) -> None:
    path = tmp_path / "s"
    with Service(tmp_path, "--uds", "s", *workers, port=None) as service:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
            service.wait_for_file("waiting")
            service.send(signal.SIGTERM)
            service.log.wait_for("Shutting down|Received SIGTERM")
            service.log.wait_for("Waiting for 1 request")
            with Service(tmp_path, "--uds", "s", port=None) as second:
                assert ask_path(path).startswith(b"HTTP/1.1 200 OK")
                (tmp_path / "go").touch()
                assert service.wait() == 0
                assert second.end() == 0


def test_sockets_that_already_listen_are_served(tmp_path: Path) -> None:
    """Connections that came before the application was ready wait for it: nobody is refused."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listening:
        fd = listening.fileno()
        with slow_service(tmp_path, "--fd", str(fd), port=None, pass_fds=(fd,)) as service:
            with socket.create_connection(listening.getsockname(), 30) as client:
                client.sendall(REQUEST)
                (tmp_path / "go").touch()
                assert read_all(client).startswith(b"HTTP/1.1 200 OK")
            service.log.wait_for("oneloop running on")
            assert service.end() == 0


@WORKERS
def test_an_address_that_was_taken_meanwhile(tmp_path: Path, workers: tuple[str, ...]) -> None:
    """Two that start at the same time can both bind it."""
    port = free_port()
    with slow_service(tmp_path, *workers, source=LIFESPAN, port=port) as service:
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", port))
            other.listen()
            (tmp_path / "go").touch()
            assert service.wait() == 3
    text = f"Cannot start the server: cannot listen on http://127.0.0.1:{port}: another program already listens there"
    assert text in service.log.text
    # The application has started, so it ends in order.
    assert "lifespan ended" in service.out.text
