"""The rows of the client suite: every program in every row, and what a wrong answer does."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from bench import client_runs
from bench.catalogue import FLOOR, SUBJECT
from bench.client_runs import running_server
from bench.clients import COROUTINES, FACADE, GREEN, PLAIN, Load, client_start
from bench.model import Case, RivalFailedError, RivalMissingError, Sample, Settings
from bench.process import Program
from bench.record import plan
from bench.suites import client
from bench.suites.options import Options

CASES = {case.name: case for case in client.cases(Options())}
#: Where the work of a program differs. Each program in all of them would take minutes: rivals have only the first.
ROWS = [name for name in CASES if not name.startswith(("1 KiB, 1 at once", "1 KiB, 200"))]
TRIED = [
    (name, rival) for name in ROWS for rival in CASES[name].rivals if rival in (SUBJECT, FLOOR, "go") or name == ROWS[0]
]


def measured(case: Case, rival: str, settings: Settings) -> Sample:
    """A sample, or a skip that names what is missing."""
    try:
        return case.measure(rival, settings)
    except RivalMissingError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def tiny(short: Settings) -> Settings:
    return replace(short, duration_s=0.02, scale=0.002)


@pytest.mark.parametrize(("name", "rival"), TRIED)
def test_every_client_does_the_work_of_every_row(name: str, rival: str, tiny: Settings) -> None:
    case = CASES[name]
    found = measured(case, rival, tiny).metrics
    assert found["cpu_ns_per_op"] > 0
    assert case.metric in found
    for metric in case.also:
        assert metric in found


@pytest.mark.parametrize("rival", [SUBJECT, FLOOR, "go"])
@pytest.mark.parametrize("name", ["1 KiB, 1 at once", "1 KiB, 200 at once"])
def test_other_numbers_at_once(name: str, rival: str, tiny: Settings) -> None:
    assert measured(CASES[name], rival, tiny).metrics["throughput"] > 0


def test_the_suite_is_in_the_record() -> None:
    names = {case.name for case in plan.cases("client")}
    assert {"1 KiB, 20 at once", "10 MiB, streamed", "requests", "httpx2, 20 at once"} <= names
    assert FACADE in CASES["httpx, 20 at once"].rivals


def serve(answer: bytes) -> tuple[int, Callable[[], None]]:
    """A server that gives the same answer to everything, in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    connections: list[socket.socket] = []

    def answer_all(connection: socket.socket) -> None:
        try:
            while connection.recv(65_536):
                connection.sendall(answer)
        except OSError:
            pass

    def accept() -> None:
        while True:
            try:
                connections.append(listener.accept()[0])
            except OSError:
                return
            threading.Thread(target=answer_all, args=(connections[-1],), daemon=True).start()

    def stop() -> None:
        listener.shutdown(socket.SHUT_RDWR)
        for sock in (listener, *connections):
            sock.close()

    threading.Thread(target=accept, daemon=True).start()
    return int(listener.getsockname()[1]), stop


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n" + b"x" * 64
BAD = {
    "status": OK.replace(b"200 OK", b"500 No"),
    "length": OK.replace(b"64", b"63").removesuffix(b"x"),
    "byte": OK.removesuffix(b"x") + b"y",
}
STYLES = [(FLOOR, COROUTINES), ("go", COROUTINES), (SUBJECT, COROUTINES), (SUBJECT, GREEN), (SUBJECT, PLAIN)]


@pytest.mark.parametrize(("rival", "style"), STYLES)
@pytest.mark.parametrize("fault", BAD)
def test_a_wrong_answer_is_a_failure(
    rival: str, style: str, fault: str, tiny: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    if (rival, fault) in ((FLOOR, "byte"), (FLOOR, "length")):
        pytest.skip("the floor looks at the status, and at the lengths of later answers")
    load = Load(size=64, at_once=1)
    try:
        start = client_start(rival, style, load)
    except RivalMissingError as missing:
        pytest.skip(str(missing))
    port, stop = serve(BAD[fault])

    @contextlib.contextmanager
    def bad_server(load: Load, settings: Settings) -> Iterator[tuple[Program, list[str]]]:
        with running_server(load, settings) as (server, _):
            yield server, ["--port", str(port)]

    monkeypatch.setattr(client_runs, "running_server", bad_server)
    try:
        with pytest.raises(RivalFailedError, match="wrong answer"):
            client_runs.measure_client(start, load, tiny)
    finally:
        stop()


def test_a_client_that_counts_wrongly_is_a_failure(tiny: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = iter(({"requests": 0, "connections": 0, "resumed": 0}, {"requests": 7, "connections": 1, "resumed": 0}))
    monkeypatch.setattr(client_runs, "counts", lambda server: next(seen))
    load = Load(size=64, at_once=1)
    with pytest.raises(RivalFailedError, match="wrong count"):
        client_runs.measure_client(client_start(FLOOR, COROUTINES, load), load, tiny)


def test_a_missing_client_has_a_reason() -> None:
    with pytest.raises(RivalMissingError, match="is not installed"):
        client_start("no_such_client on asyncio", COROUTINES, Load())
    with pytest.raises(RivalMissingError, match="no TLS"):
        client_start(FLOOR, COROUTINES, Load(tls=True))
