"""Blocking clients, many at once in threads that are green threads, on real servers.

The programs of `clients` are ordinary ones with threads, which run without patching as well. That calls are made at
once is seen by their servers: each is answered when all have come.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test.test_asyncio import utils as cpython

from tests import programs
from tests.ecosystem import brokers, mariadb
from tests.ecosystem.green_server import Barriers, serving

pytestmark = pytest.mark.time_limit(180)

ROOT = Path(__file__).resolve().parents[2]


WAYS = {"patch": ["--patch", "-m"], "gevent": ["--replace", "gevent", "-m", "gevent.monkey", "--module"]}


def run_program(name: str, *arguments: object, way: str = "patch", warnings: str = "error") -> None:
    """Every part of the program passes, patched, and it ends without a word on stderr."""
    patched = ["-W", warnings, "-m", "oneloop", "run", *WAYS[way]]
    command = [sys.executable, *patched, f"tests.ecosystem.clients.{name}", *map(str, arguments)]
    done = programs.run_command(*command, limit_s=170)
    assert done.returncode == 0, f"exit status {done.returncode}; passed: {done.stdout.split()}\n{done.stderr}"
    assert done.stderr == "", done.stderr


@pytest.fixture(scope="module")
def mariadb_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    program = mariadb.server_program()
    if program is None:
        pytest.skip("needs MariaDB (Debian package mariadb-server-core)")
    with mariadb.server(program, tmp_path_factory.mktemp("mariadb")) as port:
        yield port


@pytest.fixture(scope="module")
def rabbitmq_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with brokers.rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as port:
        yield port


@pytest.fixture(scope="module")
def mosquitto_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with brokers.mosquitto(tmp_path_factory.mktemp("mosquitto")) as port:
        yield port


@pytest.mark.parametrize("way", WAYS)
def test_rabbitmq(way: str, rabbitmq_port: int) -> None:
    pytest.importorskip("pika")
    run_program("on_rabbitmq", rabbitmq_port, way=way)


@pytest.mark.parametrize("way", WAYS)
def test_mosquitto(way: str, mosquitto_port: int) -> None:
    pytest.importorskip("paho.mqtt.client")
    run_program("on_mosquitto", mosquitto_port, way=way)


@pytest.mark.parametrize("way", WAYS)
def test_ssh(way: str, tmp_path: Path) -> None:
    pytest.importorskip("paramiko")
    with brokers.sshd(tmp_path) as server:
        folder = tmp_path / "files"
        folder.mkdir()
        run_program("over_ssh", server.port, server.key, folder, way=way)


@pytest.mark.parametrize("way", WAYS)
def test_s3(way: str) -> None:
    pytest.importorskip("boto3")
    with serving(False, Barriers()) as port:
        run_program("on_s3", port, way=way)


def test_psycopg2(postgres: dict[str, Any]) -> None:
    """With psycogreen, which is for gevent."""
    pytest.importorskip("psycogreen")
    run_program("on_psycopg2", postgres["port"], way="gevent")


def test_psycopg_under_the_name_of_gevent(postgres: dict[str, Any]) -> None:
    run_program("on_postgres", postgres["port"], cpython.ONLYCERT, way="gevent")


def test_mariadb_under_the_name_of_gevent(mariadb_port: int) -> None:
    run_program("on_mariadb", mariadb_port, cpython.ONLYCERT, way="gevent")


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
