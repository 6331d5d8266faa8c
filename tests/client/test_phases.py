"""Every phase of a request × every way to fail × every caller.

Each cell asserts the class of the exception, that no other limit than the one of the phase ended the wait (all others
are an hour), that the pool has its only place back, and that the next request of the same client works. That no
descriptor and no thread is left is asserted by `tests/conftest.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from oneloop.http import (
    CloseError,
    ConnectError,
    ConnectTimeout,
    Limits,
    ProxyError,
    ReadError,
    ReadTimeout,
    RemoteProtocolError,
    RequestError,
    Timeout,
    TotalTimeout,
    WriteTimeout,
)
from tests.client.callers import Caller
from tests.client.conftest import MakeCaller
from tests.client.http2_phases import HTTP2_PHASES
from tests.client.phases import PHASES as HTTP1_PHASES
from tests.client.phases import Scene

PHASES = {**HTTP1_PHASES, **HTTP2_PHASES}
NEVER = 3600.0
SHORT_S = 0.06
# Longer than any cell takes, and shorter than the time limit of a test.
LATER = Timeout(NEVER, pool=60.0, total=60.0)

Expected = type[RequestError] | int | str
# Phase -> what the request ends with when its peer stalls, ends, or lies: an exception, a status, or why there is no
# such cell. A request that is cancelled, or runs out of its total time, ends with that in every phase.
TABLE: dict[str, tuple[Expected, Expected, Expected]] = {
    "resolve": (ConnectTimeout, ConnectError, ConnectError),
    "connect": (ConnectTimeout, ConnectError, "TCP takes a connection or does not"),
    "CONNECT": (ConnectTimeout, ProxyError, ProxyError),
    "SOCKS": (ConnectTimeout, ProxyError, ProxyError),
    "OpenSSL": (ConnectTimeout, ConnectError, ConnectError),
    "rustls": (ConnectTimeout, ConnectError, ConnectError),
    "send": (WriteTimeout, ReadError, 413),
    "send-parts": (WriteTimeout, ReadError, 413),
    "head": (ReadTimeout, RemoteProtocolError, RemoteProtocolError),
    "body": (ReadTimeout, RemoteProtocolError, RemoteProtocolError),
    # A kept connection that has ended, or on which nobody knows what the server means, is not used.
    "idle": (ReadTimeout, 200, 200),
    "h2-TLS": (ConnectTimeout, ConnectError, ConnectError),
    "h2-greet": (ReadTimeout, RemoteProtocolError, RemoteProtocolError),
    "h2-send": (WriteTimeout, ReadError, 413),
    "h2-send-parts": (WriteTimeout, ReadError, 413),
    "h2-window": (WriteTimeout, RemoteProtocolError, RemoteProtocolError),
    "h2-head": (ReadTimeout, RemoteProtocolError, RemoteProtocolError),
    "h2-body": (ReadTimeout, RemoteProtocolError, RemoteProtocolError),
    "h2-idle": (ReadTimeout, 200, 200),
}
# The limit that ends a stall of the phase.
LIMITS = {
    **dict.fromkeys(("head", "body", "idle", "h2-greet", "h2-head", "h2-body", "h2-idle"), "read"),
    **dict.fromkeys(("send", "send-parts", "h2-send", "h2-send-parts", "h2-window"), "write"),
}
FAULTS = ("stalls", "ends", "lies")


def test_every_phase_has_its_row() -> None:
    assert list(TABLE) == list(PHASES)


class Cell:
    """A client that is about to send the request of a scene."""

    def __init__(self, make_caller: MakeCaller, scene: Scene, timeout: Timeout) -> None:
        settings = {"timeout": timeout, "limits": Limits(max_connections=1, keepalive_expiry=None), "trust_env": False}
        self.caller: Caller = make_caller(**settings, **scene.settings)
        self.scene = scene
        if scene.is_kept:
            assert self.caller.get(scene.url, timeout=LATER).content == b"good"

    @property
    def request(self) -> tuple[tuple[str, str], dict[str, Any]]:
        """The arguments of `client.request`."""
        made = self.scene.sent
        sent = {} if made is None else {"content": made(self.caller.kind == "coroutine")}
        return (self.scene.method, self.scene.url), sent

    def check_the_next_one(self) -> None:
        self.scene.heal()
        content = self.caller.get(self.scene.next_url, timeout=LATER).content
        assert content in (b"good", b"hello")
        counters = self.caller.statistics()
        assert (counters["open"], counters["idle"], counters["waiting"]) == (1, 1, 0), counters
        pools = list(self.caller.client._pools.values())
        self.caller.close()
        assert [pool.counters()["open"] for pool in pools] == [0]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("phase", PHASES)
def test_a_peer_that_fails(phase: str, fault: str, make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = TABLE[phase][FAULTS.index(fault)]
    if isinstance(expected, str):
        pytest.skip(f"no such cell: {expected}")
    with PHASES[phase](fault, monkeypatch) as scene:
        limits = {LIMITS.get(phase, "connect"): SHORT_S if fault == "stalls" else NEVER}
        cell = Cell(make_caller, scene, Timeout(NEVER, **limits))
        if scene.is_kept and fault != "stalls":
            assert scene.reached.wait(60)
        arguments, sent = cell.request
        if isinstance(expected, int):
            # Where nothing may be wrong afterwards.
            if scene.is_kept:
                scene.heal()
            assert cell.caller.request(*arguments, **sent).status_code == expected
        else:
            with pytest.raises(RequestError) as caught:
                cell.caller.request(*arguments, **sent)
            assert type(caught.value) is expected, repr(caught.value)
            assert str(caught.value)
            assert expected is not ConnectTimeout or f"within {SHORT_S} s" in str(caught.value)
            assert str(caught.value.request.url).startswith(scene.url)
        cell.check_the_next_one()


@pytest.mark.parametrize("phase", PHASES)
def test_a_request_that_runs_out_of_time(phase: str, make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    with PHASES[phase]("stalls", monkeypatch) as scene:
        cell = Cell(make_caller, scene, Timeout(NEVER, total=3 * SHORT_S))
        arguments, sent = cell.request
        with pytest.raises(TotalTimeout) as caught:
            cell.caller.request(*arguments, **sent)
        assert str(caught.value.request.url).startswith(scene.url)
        cell.check_the_next_one()


@pytest.mark.parametrize("phase", PHASES)
def test_a_request_that_is_cancelled(phase: str, make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task is cancelled, a green thread killed, and plain code interrupted by the handler of a signal."""
    with PHASES[phase]("stalls", monkeypatch) as scene:
        cell = Cell(make_caller, scene, Timeout(NEVER))
        arguments, sent = cell.request
        cell.caller.cancel_when(scene.reached, "request", *arguments, **sent)
        cell.check_the_next_one()


@pytest.mark.parametrize("phase", PHASES)
def test_a_client_that_is_closed(phase: str, make_caller: MakeCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    """One clear error, whatever the request waits for."""
    with PHASES[phase]("stalls", monkeypatch) as scene:
        cell = Cell(make_caller, scene, Timeout(NEVER))
        arguments, sent = cell.request
        error = cell.caller.close_when(scene.reached, "request", *arguments, **sent)
        assert type(error) is CloseError, repr(error)
        scene.heal()
        with pytest.raises(RuntimeError, match="closed"):
            cell.caller.get(scene.next_url)
