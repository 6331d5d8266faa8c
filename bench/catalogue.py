"""Which rivals there are, what each can serve, and the command that starts it.

A rival is looked for in the running interpreter's environment, or on the machine (node, go). What is not there is
named, never left out in silence.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sys
from dataclasses import dataclass

from bench.model import RivalMissingError
from bench.process import NATIVE, ROOT, native
from bench.rivals.loops import MODULES as LOOPS

FLOOR = "floor"
URING = "floor-uring"
SUBJECT = "oneloop"
BASELINE = "uvloop"

#: Rivals with an event loop or a runtime of their own: module (or program) -> the forms that are natural to them.
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
#: Modules that a rival needs beside its own name.
_ALSO_NEEDS = {("twisted", "tls"): "OpenSSL"}

SERVERS = (FLOOR, URING, *LOOPS, *_OTHERS)


@dataclass(frozen=True)
class Serve:
    """What is asked of a server: the form, the transport under it, and where."""

    form: str
    family: str = "tcp"
    path: str = ""
    tls: str = ""
    size: int = 1024

    @property
    def needs(self) -> frozenset[str]:
        """What a rival must offer."""
        wanted = {self.form}
        if self.family == "unix":
            wanted.add("unix")
        if self.tls:
            wanted.add("tls")
        return frozenset(wanted)

    def options(self) -> list[str]:
        """The command line that every rival understands."""
        given = ["--form", self.form, "--family", self.family, "--size", str(self.size)]
        if self.path:
            given += ["--path", self.path]
        if self.tls:
            given += ["--tls", self.tls]
        return given


def has_module(name: str) -> bool:
    """Whether the running interpreter could import it."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def missing_reason(rival: str) -> str:
    """Why a rival cannot run here at all; empty when it can."""
    if rival in (FLOOR, URING):
        return "" if (NATIVE / "floor").exists() else "not built: run python -m bench.install"
    if rival == "node":
        return "" if shutil.which("node") else "node is not on the path"
    if rival == "go":
        return "" if (NATIVE / "go_server").exists() else "not built: no go when bench.install ran"
    module = LOOPS.get(rival, rival)
    if not has_module(module):
        return f"{module} is not installed"
    if rival == SUBJECT and not _offers_loop(module):
        return "oneloop has no event loop yet"
    return ""


def _offers_loop(module: str) -> bool:
    try:
        return hasattr(importlib.import_module(module), "new_event_loop")
    except ImportError:
        return False


def server_argv(rival: str, serve: Serve) -> list[str]:
    """The command that serves. Raises RivalMissingError when it is not here or has no such form."""
    reason = missing_reason(rival)
    if reason:
        raise RivalMissingError(reason)
    if rival in _FLOORS:
        return _floor_argv(rival, serve)
    if rival in LOOPS:
        module = "bench.rivals.asyncio_server"
        return [sys.executable, "-m", module, "--loop", rival, *serve.options()]
    program, forms = _OTHERS[rival]
    lacking = serve.needs - forms
    if lacking:
        raise RivalMissingError(f"{rival} has no {', '.join(sorted(lacking))} form")
    also = _ALSO_NEEDS.get((rival, "tls")) if serve.tls else None
    if also and not has_module(also):
        raise RivalMissingError(f"{rival} needs {also}, which is not installed")
    if rival == "node":
        return ["node", str(ROOT / "bench" / "rivals" / program), *serve.options()]
    if rival == "go":
        return [native("go_server"), *serve.options()]
    return [sys.executable, "-m", f"bench.rivals.{program}", *serve.options()]


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


def server_env(rival: str) -> dict[str, str]:
    """Go runs on one thread, as the others do."""
    return {"GOMAXPROCS": "1"} if rival == "go" else {}
