"""Blocking clients, many at once in threads that are green threads, on real servers.

Each program of `clients` runs as it is, in the interpreter's threads, and patched. That calls are made at once is seen
by their servers: each is answered when all have come.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test.test_asyncio import utils as cpython

from tests.ecosystem import mariadb
from tests.ecosystem.green_server import Barriers, serving

pytestmark = pytest.mark.time_limit(70)

ROOT = Path(__file__).resolve().parents[2]
WAYS = {"threads": [], "patched": ["-m", "oneloop", "run", "--patch"]}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> list[str]:
    return WAYS[request.param]


def run_program(way: list[str], name: str, *arguments: object) -> None:
    """Every part of the program passes, and it ends without a word on stderr."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *way, "-m", f"tests.ecosystem.clients.{name}", *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"exit status {done.returncode}; passed: {done.stdout.split()}\n{done.stderr}"
    assert done.stderr == "", done.stderr


@pytest.fixture(scope="module")
def mariadb_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    program = mariadb.server_program()
    if program is None:
        pytest.skip("needs MariaDB (Debian package mariadb-server-core)")
    with mariadb.server(program, tmp_path_factory.mktemp("mariadb")) as port:
        yield port


def test_http(way: list[str]) -> None:
    together = Barriers()
    with serving(False, together) as plain, serving(True, together) as secure:
        run_program(way, "over_http", plain, secure, cpython.ONLYCERT)


def test_redis(way: list[str]) -> None:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("needs redis-server (Debian package redis-server)")
    run_program(way, "on_redis", program, cpython.ONLYCERT, cpython.ONLYKEY)


def test_mariadb(way: list[str], mariadb_port: int) -> None:
    run_program(way, "on_mariadb", mariadb_port, cpython.ONLYCERT)


def test_postgres(way: list[str], postgres: dict[str, Any]) -> None:
    run_program(way, "on_postgres", postgres["port"], cpython.ONLYCERT)
