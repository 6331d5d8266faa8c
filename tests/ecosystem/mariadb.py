"""A throw-away MariaDB server."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from test.test_asyncio import utils as cpython

from tests.ecosystem.conftest import accepts, running
from tests.ports import free_port

# As mariadb-install-db does it, which needs programs of another package.
TABLES = ("mysql_system_tables", "mysql_performance_tables", "mysql_system_tables_data")
FIRST = """\
create database mysql;
use mysql;
SET @auth_root_socket=NULL;
SET @current_hostname='localhost';
SET @skip_auth_anonymous=1;
"""


def server_program() -> str | None:
    return shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


@contextmanager
def server(program: str, directory: Path) -> Iterator[int]:
    """Its port, where `root` needs no password, and with TLS the certificate is that of CPython's tests."""
    data = directory / "data"
    data.mkdir()
    command = [program, "--no-defaults", f"--datadir={data}", "--innodb-flush-method=nosync"]
    if os.getuid() == 0:
        command.append("--user=root")
    shared = Path(program).parents[1] / "share/mysql"
    statements = FIRST + "".join((shared / f"{name}.sql").read_text() for name in TABLES)
    subprocess.run([*command, "--bootstrap"], input=statements.encode(), check=True, capture_output=True)
    port = free_port()
    command += [f"--port={port}", "--bind-address=127.0.0.1", f"--socket={directory / 's'}"]
    command += [f"--pid-file={directory / 'pid'}", f"--ssl-cert={cpython.ONLYCERT}", f"--ssl-key={cpython.ONLYKEY}"]
    with running(command, directory / "log", lambda: accepts(("127.0.0.1", port))):
        yield port
