"""`PROXIES`: how each proxy is started, on a port of 127.0.0.1, with and without a login."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.ecosystem.conftest import accepts, running
from tests.ports import free_port

USER, PASSWORD = "user", "secret"


@dataclass(frozen=True)
class Running:
    """A proxy that runs.

    Attributes:
        name: its key in `PROXIES`.
        scheme: of its URL.
        port: where it listens.
        pid: its process.
    """

    name: str
    scheme: str
    port: int
    pid: int

    def url(self, login: str = "") -> str:
        """Its URL."""
        return f"{self.scheme}://{login and login + '@'}127.0.0.1:{self.port}"


def _program(name: str, package: str) -> str:
    found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip(f"needs {name} (Debian package {package})")
    return found


def _tinyproxy(folder: Path, port: int, has_login: bool) -> list[str]:
    lines = [
        f"Port {port}",
        "Listen 127.0.0.1",
        "Timeout 60",
        "MaxClients 100",
        "LogLevel Error",
        "DisableViaHeader Yes",
    ]
    if has_login:
        lines.append(f"BasicAuth {USER} {PASSWORD}")
    (folder / "tinyproxy.conf").write_text("\n".join(lines) + "\n")
    return [_program("tinyproxy", "tinyproxy-bin"), "-d", "-c", str(folder / "tinyproxy.conf")]


def _squid(folder: Path, port: int, has_login: bool) -> list[str]:
    squid = _program("squid", "squid")
    helper = "/usr/lib/squid/basic_fake_auth"
    # The helper that takes any login: whether there is one is what the client is about.
    login = [f"auth_param basic program {helper}", "acl known proxy_auth REQUIRED", "http_access allow known"]
    lines = [
        f"http_port 127.0.0.1:{port}",
        "cache deny all",
        *(login if has_login else ["http_access allow all"]),
        "http_access deny all",
        "access_log none",
        "cache_log stdio:/dev/stderr",
        "cache_store_log none",
        "pinger_enable off",
        "via off",
        "forwarded_for delete",
        f"pid_filename {folder}/squid.pid",
        f"coredump_dir {folder}",
        "shutdown_lifetime 0 seconds",
        "max_filedescriptors 1024",
    ]
    (folder / "squid.conf").write_text("\n".join(lines) + "\n")
    return [squid, "-N", "-f", str(folder / "squid.conf"), "-n", f"test{port}"]


def _microsocks(folder: Path, port: int, has_login: bool) -> list[str]:
    login = ["-u", USER, "-P", PASSWORD] if has_login else []
    return [_program("microsocks", "microsocks"), "-i", "127.0.0.1", "-p", str(port), *login]


PROXIES: dict[str, tuple[str, Callable[[Path, int, bool], list[str]]]] = {
    "tinyproxy": ("http", _tinyproxy),
    "squid": ("http", _squid),
    "microsocks": ("socks5", _microsocks),
}


@contextmanager
def proxying(name: str, folder: Path, *, has_login: bool) -> Iterator[Running]:
    """Run a proxy; it is ended by its process id."""
    scheme, make = PROXIES[name]
    port = free_port()
    folder.mkdir(exist_ok=True)
    # Not pytest's folder, which is closed to others: squid does not run as root.
    with tempfile.TemporaryDirectory(prefix="proxy-", ignore_cleanup_errors=True) as place:
        options: dict[str, object] = {}
        command = make(Path(place), port, has_login)
        if os.getuid() == 0:
            user = pwd.getpwnam("proxy")
            options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(place, user.pw_uid, user.pw_gid)
        log = folder / f"{name}.log"
        with running(command, log, lambda: accepts(("127.0.0.1", port)), cwd=place, **options) as process:
            yield Running(name, scheme, port, process.pid)
