"""The HTTP clients: the command that starts each of them, for coroutines, green threads and plain code.

`aiohttp on uvloop` is a program on a loop. `oneloop` is its client in the row's style; in the rows of httpx and
requests it is that package on oneloop's transport or adapter. `coroutines on oneloop` is oneloop's client for
coroutines in the rows of the other styles.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from bench.catalogue import FLOOR, SUBJECT, has_module, missing_reason
from bench.model import RivalMissingError
from bench.process import NATIVE, ROOT, native
from bench.timed import python_module

GO = "go"
COROUTINES, GREEN, PLAIN = "coroutines", "green", "plain"
OF_COROUTINES = f"{COROUTINES} on {SUBJECT}"
FACADE = f"{SUBJECT}-facade"
#: Brings another urllib3 under the same name, and must not be where requests finds it.
NIQUESTS_FOLDER = NATIVE.parent / "niquests"
#: Program -> the modules that it needs, if that is not the one of its name.
_NEEDS = {
    SUBJECT: ("oneloop.http",),
    "httpx-transport": ("httpx", "oneloop.http.client.httpx_transports"),
    "httpx2-transport": ("httpx2", "oneloop.http.client.httpx_transports"),
    "httpx-mock": ("httpx",),
    "httpx2-mock": ("httpx2",),
    "requests-adapter": ("requests", "oneloop.http.client.requests_adapter"),
    "niquests": (),
}
_MODULES = {COROUTINES: "client_coroutines", GREEN: "client_plain", PLAIN: "client_plain"}


@dataclass(frozen=True)
class Load:
    """The requests.

    Args:
        size: length of each answer's body.
        upload: length of each request's body; 0: a GET.
        mode: how the body is read: `whole` or `streamed`.
        closes: the server closes each connection after its answer.
        tls: https, with sessions that can be resumed.
        delay_ms: between a request and its answer.
        fresh: each request has a URL of its own.
        burst: each of those at once is one request, and there are no others.
    """

    size: int = 1024
    at_once: int = 20
    upload: int = 0
    mode: str = "whole"
    closes: bool = False
    tls: bool = False
    delay_ms: int = 0
    fresh: bool = False
    burst: bool = False


@dataclass(frozen=True)
class Start:
    """The command that starts a client, without the options of the load, and what its environment needs."""

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()


def _require(*modules: str) -> None:
    for module in modules:
        if not has_module(module):
            raise RivalMissingError(f"{module} is not installed")


def _python(module: str, program: str, loop: str) -> Start:
    _require(*_NEEDS.get(program, (program,)))
    options = ("--rival", program, "--loop", loop)
    if program == "niquests":
        if not NIQUESTS_FOLDER.exists():
            raise RivalMissingError("niquests is not installed: run python -m bench.install")
        return Start((*python_module(module), *options), (("PYTHONPATH", f"{ROOT}:{NIQUESTS_FOLDER}"),))
    if loop == "gevent":
        _require("gevent")
        # The patches must come before all other imports.
        return Start((sys.executable, "-m", "gevent.monkey", "--module", f"bench.rivals.{module}", *options))
    return Start((*python_module(module), *options))


def _native(rival: str, load: Load) -> Start:
    """The floor and Go."""
    reason = missing_reason(FLOOR) if rival == FLOOR else ""
    if reason or (rival == GO and not (NATIVE / "go_client").exists()):
        raise RivalMissingError(reason or "not built: bench.install found no go")
    if rival == GO:
        return Start((native("go_client"),), (("GOMAXPROCS", "1"),))
    if load.tls:
        raise RivalMissingError("the floor has no TLS")
    return Start((native("floor"), "ask"))


def client_start(rival: str, style: str, load: Load, package: str = "") -> Start:
    """The command. In a row of a package, `oneloop` is the package on oneloop's core.

    Raises:
        RivalMissingError: it is not installed.
    """
    if rival in (FLOOR, GO):
        return _native(rival, load)
    if rival == OF_COROUTINES:
        return _python(_MODULES[COROUTINES], SUBJECT, SUBJECT)
    if rival == FACADE:
        return _facade(style, package)
    program, _, loop = rival.partition(" on ")
    if program == SUBJECT and package:
        program = f"{package}-{'adapter' if package == 'requests' else 'transport'}"
    if style == GREEN:
        return _python(_MODULES[style], program, loop or GREEN)
    if style == PLAIN:
        return _python(_MODULES[style], program, "")
    loop = loop or SUBJECT
    reason = missing_reason(loop)
    if reason:
        raise RivalMissingError(reason)
    return _python(_MODULES[style], program, loop)


def _facade(style: str, package: str) -> Start:
    """The unchanged package on oneloop's facade of the package below it."""
    below = {"httpx": "httpcore", "httpx2": "httpcore2"}[package]
    _require(package, f"oneloop.compat.{below}")
    run = (sys.executable, "-m", "oneloop", "run", "--replace", below, "-m", f"bench.rivals.{_MODULES[style]}")
    return Start((*run, "--rival", package, "--loop", SUBJECT if style == COROUTINES else ""))


def mock_start(rival: str, style: str, package: str) -> Start:
    """The same package without a network, on the same loop."""
    loop = rival.partition(" on ")[2] or SUBJECT
    return _python(_MODULES[style], f"{package}-mock", loop if style == COROUTINES else "")
