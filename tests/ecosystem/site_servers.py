"""`SERVERS`: how each server of `tests.ecosystem.sites` is started, on ports of 127.0.0.1."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.ecosystem.conftest import accepts, running
from tests.ecosystem.sites.app import BIG, TEXT, ZIPPED
from tests.ports import free_port
from tests.programs import ROOT
from tests.tls import authority

SITES = Path(__file__).parent / "sites"
KEPT_S = 0.5
"""How long a server keeps a connection."""


@dataclass(frozen=True)
class Site:
    """A server that runs.

    Attributes:
        name: its key in `SERVERS`.
        url: of its HTTP.
        tls_url: of its HTTPS; "" without.
        authority: the file of the certificate authority.
    """

    name: str
    url: str
    tls_url: str
    authority: Path


@dataclass(frozen=True)
class Place:
    """What a server needs to start."""

    folder: Path
    port: int
    tls_port: int
    certificate: Path


Start = Callable[[Place, ExitStack], list[str]]


def _python(module: str, *words: str) -> list[str]:
    return [sys.executable, "-m", f"tests.ecosystem.sites.{module}", *words]


def _uvicorn(protocol: str) -> Start:
    return lambda place, _: _python("by_uvicorn", str(place.port), protocol, str(KEPT_S))


def _oneloop(*options: str) -> Start:
    def command(place: Place, _: ExitStack) -> list[str]:
        secured = ["--ssl-certfile", str(place.certificate), *options] if options else []
        port = place.tls_port if options else place.port
        serve = [sys.executable, "-m", "oneloop", "serve", "--port", str(port), "--lifespan", "off"]
        serve += ["--timeout-keep-alive", str(KEPT_S), "--no-access-log", *secured]
        return [*serve, "tests.ecosystem.sites.app:app"]

    return command


def _h11(place: Place, _: ExitStack) -> list[str]:
    return _python("by_h11", str(place.port), str(KEPT_S))


def _http_server(place: Place, _: ExitStack) -> list[str]:
    return _python("by_http_server", str(place.port), str(KEPT_S))


def _program(name: str, package: str) -> str:
    found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip(f"needs {name} ({package})")
    return found


def _files(folder: Path) -> tuple[Path, Path]:
    big, zipped = folder / "big", folder / "text.gz"
    big.write_bytes(BIG)
    zipped.write_bytes(ZIPPED)
    return big, zipped


def _node(place: Place, _: ExitStack) -> list[str]:
    big, zipped = _files(place.folder)
    words = [place.port, place.tls_port, place.certificate, int(KEPT_S * 1000), big, zipped]
    return [_program("node", "Debian package nodejs"), str(SITES / "site.js"), *map(str, words)]


def _go(place: Place, _: ExitStack) -> list[str]:
    program = ROOT / ".build" / "go-site" / "site"
    if not program.exists():
        pytest.skip("needs go (Debian package golang-go): scripts/go-site.sh compiles the server with it")
    big, zipped = _files(place.folder)
    words = [place.port, place.tls_port, place.certificate, f"{KEPT_S}s", big, zipped]
    return [str(program), *map(str, words)]


def _nginx(place: Place, stack: ExitStack) -> list[str]:
    nginx = _program("nginx", "Debian package nginx-light")
    files = place.folder / "files"
    files.mkdir()
    (files / "big").write_bytes(BIG)
    (files / "text").write_bytes(TEXT)
    behind = free_port()
    log = place.folder / "behind.log"
    command = _python("by_http_server", str(behind))
    stack.enter_context(running(command, log, lambda: accepts(("127.0.0.1", behind)), cwd=ROOT))
    text = (SITES / "nginx.conf").read_text()
    parts = {"folder": place.folder, "port": place.port, "tls_port": place.tls_port, "behind": behind}
    made = text.format(**parts, certificate=place.certificate, kept=f"{int(KEPT_S * 1000)}ms")
    (place.folder / "nginx.conf").write_text(made)
    return [nginx, "-p", str(place.folder), "-c", str(place.folder / "nginx.conf"), "-e", "stderr"]


SERVERS: dict[str, Start] = {
    "nginx": _nginx,
    "go": _go,
    "node": _node,
    "uvicorn-h11": _uvicorn("h11"),
    "uvicorn-httptools": _uvicorn("httptools"),
    "oneloop": _oneloop(),
    "oneloop-rustls": _oneloop("--ssl-version", "17"),
    "oneloop-openssl": _oneloop("--ssl-ciphers", "ECDHE+AESGCM"),
    "h11": _h11,
    "http.server": _http_server,
}
SECURED = ("nginx", "go", "node", "oneloop-rustls", "oneloop-openssl")


@contextmanager
def started(name: str, folder: Path) -> Iterator[Site]:
    """Run a server; it is ended by its process id."""
    issued = authority.make(folder)
    port, tls_port = free_port(), free_port()
    tls_url = f"https://localhost:{tls_port}" if name in SECURED else ""
    url = tls_url if name.startswith("oneloop-") else f"http://127.0.0.1:{port}"
    with ExitStack() as stack:
        command = SERVERS[name](Place(folder, port, tls_port, issued.server), stack)
        wanted = [int(one.rpartition(":")[2]) for one in {url, tls_url} if one]
        stack.enter_context(
            running(command, folder / "log", lambda: all(accepts(("127.0.0.1", one)) for one in wanted), cwd=ROOT)
        )
        yield Site(name, url, tls_url, issued.authority)
