"""Real servers and programs for the ecosystem tests; the loops include uvloop where it is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from test.test_asyncio import utils as cpython

from tests.harness.control import pytest_runtest_makereport as pytest_runtest_makereport
from tests.ports import free_port


def wait_until(is_ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, limit_s: float = 60) -> None:
    """Wait for a server that tells nobody when it is ready."""
    deadline = time.monotonic() + limit_s
    while not is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{process.args!r} did not start:\n{log.read_text()[-2000:]}")
        time.sleep(0.02)


def accepts(address: str | tuple[str, int]) -> bool:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as probe:
        return probe.connect_ex(address) == 0


@contextmanager
def running(
    command: list[str], log: Path, is_ready: Callable[[], bool], **options: object
) -> Iterator[subprocess.Popen[bytes]]:
    """A server for the time of a `with` block, ended by its process id."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **options)  # type: ignore[call-overload]
        try:
            wait_until(is_ready, process, log)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="session")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A redis-server of our own, without persistence."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("needs redis-server (Debian package redis-server)")
    directory = tmp_path_factory.mktemp("redis")
    port = free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    command += ["--dir", str(directory), "--unixsocket", str(directory / "socket")]
    with running(command, directory / "log", lambda: accepts(("127.0.0.1", port))):
        yield port


@pytest.fixture(scope="session")
def redis_tls_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The same over TLS alone, with CPython's test certificate."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("needs redis-server (Debian package redis-server)")
    directory = tmp_path_factory.mktemp("redis-tls")
    port = free_port()
    command = [program, "--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly"]
    command += ["no", "--dir", str(directory), "--tls-cert-file", cpython.ONLYCERT, "--tls-key-file", cpython.ONLYKEY]
    command += ["--tls-ca-cert-file", cpython.ONLYCERT, "--tls-auth-clients", "no"]
    with running(command, directory / "log", lambda: accepts(("127.0.0.1", port))):
        yield port


def postgres_program(name: str) -> str | None:
    """A program of PostgreSQL; Debian keeps the server's outside of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


@pytest.fixture(scope="session")
def postgres_directory() -> Iterator[Path]:
    """The folder of the cluster and its Unix socket.

    Not pytest's own: the cluster runs as another user than root, and each pytest that starts, such as that of another
    project's suite, closes the folder of all its temporary files to others. PostgreSQL looks after its files once a
    minute and ends when it cannot reach them.
    """
    with tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture(scope="session")
def postgres(postgres_directory: Path) -> Iterator[dict[str, object]]:
    """A throw-away PostgreSQL cluster; gives connection arguments. PostgreSQL refuses root: then as user postgres."""
    initdb, server = postgres_program("initdb"), postgres_program("postgres")
    if initdb is None or server is None:
        pytest.skip("needs PostgreSQL (Debian package postgresql)")
    directory = postgres_directory
    options: dict[str, object] = {}
    if os.getuid() == 0:
        user = pwd.getpwnam("postgres")
        options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        os.chown(directory, user.pw_uid, user.pw_gid)
    data = directory / "data"
    subprocess.run(
        [initdb, "-D", str(data), "-U", "tester", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"],
        check=True,
        capture_output=True,
        cwd=directory,
        **options,  # type: ignore[call-overload]
    )
    for name, source in {"server.crt": cpython.ONLYCERT, "server.key": cpython.ONLYKEY}.items():
        shutil.copyfile(source, data / name)
        (data / name).chmod(0o600)
        if os.getuid() == 0:
            os.chown(data / name, user.pw_uid, user.pw_gid)
    port = free_port()
    command = [server, "-D", str(data), "-p", str(port), "-c", "listen_addresses=127.0.0.1"]
    command += ["-c", f"unix_socket_directories={directory}", "-F", "-c", "ssl=on"]
    with running(command, directory / "log", lambda: accepts(("127.0.0.1", port)), cwd=directory, **options):
        wait_until_queries(port)
        yield {"host": "127.0.0.1", "port": port, "user": "tester", "database": "postgres", "ssl": False}


def wait_until_queries(port: int, limit_s: float = 60) -> None:
    """It accepts before it has started up; then it answers "the database system is starting up"."""
    import asyncio

    import asyncpg

    async def ask() -> None:
        deadline = time.monotonic() + limit_s
        while True:
            try:
                connection = await asyncpg.connect(
                    host="127.0.0.1", port=port, user="tester", database="postgres", ssl=False
                )
            except asyncpg.CannotConnectNowError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.05)
            else:
                await connection.close()
                return

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(ask())
