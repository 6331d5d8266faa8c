"""Blocking clients, many at once in threads that are green threads, on real servers.

The programs of `clients` are ordinary ones with threads, which run without patching as well. That calls are made at
once is seen by their servers: each is answered when all have come.
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


def run_program(name: str, *arguments: object) -> None:
    """Every part of the program passes, patched, and it ends without a word on stderr."""
    patched = ["-W", "error", "-m", "oneloop", "run", "--patch"]
    done = subprocess.run(
        [sys.executable, *patched, "-m", f"tests.ecosystem.clients.{name}", *map(str, arguments)],
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


def test_http() -> None:
    together = Barriers()
    with serving(False, together) as plain, serving(True, together) as secure:
        run_program("over_http", plain, secure, cpython.ONLYCERT)


def test_redis() -> None:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("needs redis-server (Debian package redis-server)")
    run_program("on_redis", program, cpython.ONLYCERT, cpython.ONLYKEY)


def test_mariadb(mariadb_port: int) -> None:
    run_program("on_mariadb", mariadb_port, cpython.ONLYCERT)


def test_postgres(postgres: dict[str, Any]) -> None:
    run_program("on_postgres", postgres["port"], cpython.ONLYCERT)


def test_sqlalchemy_on_mariadb(mariadb_port: int) -> None:
    run_program("on_sqlalchemy", mariadb_port, 0)


def test_sqlalchemy_on_postgres(postgres: dict[str, Any]) -> None:
    run_program("on_sqlalchemy", 0, postgres["port"])


def test_django(postgres: dict[str, Any]) -> None:
    run_program("on_django", postgres["port"])


def test_mail_and_files() -> None:
    run_program("mail_and_files")


def test_what_programs_do_beside() -> None:
    run_program("whole_program")
