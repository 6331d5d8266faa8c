"""The rivals: what each can serve, and the command that starts it.

A rival is searched in the running interpreter's environment, or on the machine (node, go). Missing rivals are listed,
never silently left out.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sys
from dataclasses import dataclass

from bench.model import RivalMissingError
from bench.process import NATIVE, ROOT, native
from bench.rivals.endpoint import ONELOOP_TLS
from bench.rivals.loops import MODULES as LOOPS

FLOOR = "floor"
URING = "floor-uring"
FLOOR_OPENSSL = "floor-openssl"
SUBJECT = "oneloop"
#: oneloop with the contexts of oneloop.tls; all other rows of oneloop use those of the ssl module.
SUBJECT_TLS = "oneloop-tls"
BASELINE = "uvloop"

#: Rivals with a separate event loop or runtime: module (or program) -> the forms that they support.
_STREAM_FORMS = frozenset({"protocol", "accept", "pipeline", "idle"})
_OTHERS: dict[str, tuple[str, frozenset[str]]] = {
    "gevent": ("gevent_server", _STREAM_FORMS | {"udp", "tls", "sock", "unix", "work"}),
    "tornado": ("tornado_server", _STREAM_FORMS | {"tls", "unix", "streams", "http", "work"}),
    "twisted": ("twisted_server", _STREAM_FORMS | {"udp", "tls", "unix"}),
    "curio": ("curio_server", _STREAM_FORMS | {"udp", "unix", "streams", "sock"}),
    "trio": ("trio_server", _STREAM_FORMS | {"udp", "tls", "unix", "streams", "sock"}),
    "node": ("node_server.js", _STREAM_FORMS | {"udp", "tls", "unix", "http"}),
    "go": ("go_server", _STREAM_FORMS | {"udp", "tls", "unix", "http"}),
}
_FLOORS: dict[str, dict[str, str]] = {
    FLOOR: {"accept": "accept", "udp": "udp", "http": "http"},
    URING: {},
}
#: The forms that every asyncio loop supports.
_LOOP_PROGRAM = (sys.executable, "-m", "bench.rivals.asyncio_server")
#: Modules that a rival needs in addition to its own.
_ALSO_NEEDS = {("twisted", "tls"): "OpenSSL"}

SERVERS = (FLOOR, URING, *LOOPS, *_OTHERS)
#: Rivals for TLS only.
TLS_SERVERS = (FLOOR_OPENSSL, SUBJECT_TLS)


@dataclass(frozen=True)
class Serve:
    """What a server must do: the form, the transport and the address; and how many processes and CPUs it has."""

    form: str
    family: str = "tcp"
    path: str = ""
    tls: str = ""
    size: int = 1024
    workers: int = 1
    cpus: int = 1

    @property
    def needs(self) -> frozenset[str]:
        """The forms that a rival must support."""
        wanted = {self.form}
        if self.family == "unix":
            wanted.add("unix")
        if self.tls:
            wanted.add("tls")
        return frozenset(wanted)

    def options(self) -> list[str]:
        """The arguments that every rival accepts."""
        given = ["--form", self.form, "--family", self.family, "--size", str(self.size)]
        if self.path:
            given += ["--path", self.path]
        if self.tls:
            given += ["--tls", self.tls]
        if self.workers > 1:
            given += ["--workers", str(self.workers)]
        return given


def has_module(name: str) -> bool:
    """Whether the running interpreter could import it."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def missing_reason(rival: str) -> str:
    """The reason why a rival cannot run here; empty if it can."""
    if rival in (FLOOR, URING):
        return "" if (NATIVE / "floor").exists() else "not built: run python -m bench.install"
    if rival == FLOOR_OPENSSL:
        return "" if (NATIVE / rival).exists() else "not built: bench.install found no OpenSSL to build it with"
    if rival == "node":
        return "" if shutil.which("node") else "node is not on PATH"
    if rival == "go":
        return "" if (NATIVE / "go_server").exists() else "not built: bench.install found no go"
    loop = SUBJECT if rival == SUBJECT_TLS else rival
    module = LOOPS.get(loop, loop)
    if not has_module(module):
        return f"{module} is not installed"
    if loop == SUBJECT and not _offers(module, "new_event_loop"):
        return "oneloop has no event loop yet"
    if rival == SUBJECT_TLS and not _offers(ONELOOP_TLS, "server_context"):
        return f"oneloop has no {ONELOOP_TLS} yet"
    return ""


def _offers(module: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(module), name)
    except ImportError:
        return False


def server_argv(rival: str, serve: Serve) -> list[str]:
    """The command that starts the server. Raises RivalMissingError if the rival is not installed or lacks the form."""
    reason = missing_reason(rival)
    if reason:
        raise RivalMissingError(reason)
    if rival in TLS_SERVERS:
        return _tls_argv(rival, serve)
    if rival in _FLOORS:
        return _floor_argv(rival, serve)
    if rival in LOOPS:
        return [*_LOOP_PROGRAM, "--loop", rival, *serve.options()]
    return _other_argv(rival, serve)


def _other_argv(rival: str, serve: Serve) -> list[str]:
    """A rival with a separate loop or runtime."""
    source, forms = _OTHERS[rival]
    lacking = serve.needs - forms
    if lacking:
        raise RivalMissingError(f"{rival} has no {', '.join(sorted(lacking))} form")
    also = _ALSO_NEEDS.get((rival, "tls")) if serve.tls else None
    if also and not has_module(also):
        raise RivalMissingError(f"{rival} needs {also}, which is not installed")
    if rival == "node":
        return ["node", str(ROOT / "bench" / "rivals" / source), *serve.options()]
    if rival == "go":
        return [native("go_server"), *serve.options()]
    return [sys.executable, "-m", f"bench.rivals.{source}", *serve.options()]


def _tls_argv(rival: str, serve: Serve) -> list[str]:
    if not serve.tls:
        raise RivalMissingError(f"{rival} serves TLS only")
    if rival == SUBJECT_TLS:
        return [*_LOOP_PROGRAM, "--loop", SUBJECT, "--contexts", ONELOOP_TLS, *serve.options()]
    once = ["--once"] if serve.form == "accept" else []
    return [native(rival), "--tls", serve.tls, *once]


def _floor_argv(rival: str, serve: Serve) -> list[str]:
    argv = [native("floor")]
    if rival == URING:
        if serve.tls or serve.form in ("udp", "http", "accept"):
            raise RivalMissingError(f"the io_uring floor has no {serve.form} form")
        argv.append("uring")
    else:
        argv.append(_FLOORS[FLOOR].get(serve.form, "echo"))
    if serve.path:
        argv += ["--path", serve.path]
    if serve.tls:
        argv += ["--tls", serve.tls]
    return argv


def server_env(rival: str, cpus: int = 1) -> dict[str, str]:
    """The environment; Go runs on as many threads as the others have CPUs, which is one in most rows."""
    return {"GOMAXPROCS": str(cpus)} if rival == "go" else {}
