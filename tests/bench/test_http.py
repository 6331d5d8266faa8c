"""The rows of the http suite: every server in every form, and what the generator refuses."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from bench import http_servers, install
from bench.catalogue import FLOOR, Serve, server_argv
from bench.http_servers import HTTP_SERVERS, NGINX, start
from bench.model import Case, Result, RivalFailedError, RivalMissingError, Row, Sample, Settings
from bench.process import ROOT, Program
from bench.report import terminal
from bench.report.columns import ratio_cells, ratio_heads
from bench.report.document import case_data
from bench.rivals import worker
from bench.rivals.cpu_work import AFTER_ANSWER_S
from bench.rivals.http_apps import APPS
from bench.served import Load, measure_server
from bench.suites import http, http_first_byte, http_patience
from bench.suites.idle import measure_idle
from bench.suites.options import Options
from tests.bench.sample_run import sample, unmeasured

LOADS = {
    "http": (
        Load("http", 1024, 3),
        Load("http", 1024, 2, pipeline=16),
        Load("http", 300_000, 2),
        Load("once", 64, 2),
    ),
    "post": (Load("post", 10_240, 3), Load("post", 300_000, 2)),
    "websocket": (Load("websocket", 125, 3), Load("websocket", 10_240, 2), Load("websocket", 70_000, 1)),
    "wsgi": (Load("http", 1024, 3),),
    "fastapi": (Load("http", 17, 2, target="/hello", expect='{"hello":"world"}'),),
    "flask": (Load("http", 12, 2, target="/hello", expect="hello, world"),),
}
#: Every server on one loop is enough: loops have tests of their own.
SERVERS = tuple(f"{name} on asyncio" if name in http_servers.ON_LOOPS else name for name in HTTP_SERVERS)


def launcher_of(rival: str) -> http_servers.Launcher:
    program = rival.removesuffix(" on asyncio")
    return http_servers.ON_LOOPS.get(program) or http_servers.OTHERS[rival]


def measured(rival: str, serve: Serve, load: Load, settings: Settings) -> Sample:
    """A sample, or a skip that names what is missing."""
    try:
        return measure_server(rival, serve, load, settings, start)
    except RivalMissingError as missing:
        pytest.skip(str(missing))


def start_bad(kind: str, serve: Serve) -> tuple[Sequence[str], dict[str, str]]:
    return [sys.executable, "-m", "tests.bench.servers", kind], {}


@pytest.mark.parametrize("load", LOADS["http"], ids=str)
def test_the_floor_answers_every_kind_of_request(load: Load, short: Settings) -> None:
    found = measure_server(FLOOR, Serve("http"), load, short).metrics
    assert found["server_cpu_ns"] > 0
    assert found["throughput"] > 0


@pytest.mark.parametrize(
    ("rival", "form"), [(rival, form) for rival in SERVERS for form in sorted(launcher_of(rival).forms - {"static"})]
)
def test_every_server_answers_in_every_form(rival: str, form: str, short: Settings) -> None:
    load = LOADS[form][0]
    if rival == "gunicorn-sync":
        # Which keeps no connection.
        load = replace(load, mode="once")
    assert measured(rival, Serve(form), load, short).metrics["throughput"] > 0


@pytest.mark.parametrize("load", [*LOADS["http"][1:], *LOADS["post"]], ids=str)
@pytest.mark.parametrize("rival", ["oneloop", "uvicorn on asyncio", "go"])
def test_pipelines_closed_connections_and_uploads(rival: str, load: Load, short: Settings) -> None:
    assert measured(rival, Serve("http"), load, short).metrics["throughput"] > 0


@pytest.mark.parametrize("load", LOADS["websocket"], ids=str)
@pytest.mark.parametrize("rival", ["oneloop", "websockets on asyncio", "uvicorn-wsproto on asyncio"])
def test_messages_of_every_length(rival: str, load: Load, short: Settings) -> None:
    assert measured(rival, Serve("websocket"), load, short).metrics["throughput"] > 0


@pytest.mark.parametrize("rival", [NGINX, "granian", "oneloop"])
def test_static_files(rival: str, short: Settings) -> None:
    if rival == NGINX and not shutil.which("nginx", path="/usr/sbin:/usr/bin"):
        pytest.skip("nginx is not installed")
    (case,) = (case for case in http.cases(Options(only=(rival,))) if case.params.get("form") == "static")
    try:
        assert case.measure(rival, short).metrics["throughput"] > 0
    except RivalMissingError as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize(
    ("kind", "load", "words"),
    [
        ("answers_with_a_changed_byte", Load("http", 64, 1), "a byte of the body"),
        ("answers_with_an_error", Load("http", 64, 1), "status 500"),
        ("answers_with_too_much", Load("http", 64, 1), "got more than it sent"),
        ("answers_without_a_length", Load("http", 64, 1), "content-length None"),
        ("answers_and_closes", Load("http", 64, 1), "server closed connection 0"),
        ("answers_with_a_changed_byte", Load("post", 64, 1), "a byte of the body"),
        ("answers_and_never_closes", Load("once", 64, 1, patience_s=0.3), "no answer on 1 connection"),
        ("refuses_the_upgrade", Load("websocket", 64, 1), "upgrade refused with status 403"),
        ("sends_another_message", Load("websocket", 64, 1), "differs at byte 0"),
        ("sends_a_masked_frame", Load("websocket", 64, 1), "a frame begins with 0x82 0xc0"),
        ("sends_a_short_message", Load("websocket", 64, 1), "a message of 0 bytes"),
        ("closes_the_websocket", Load("websocket", 64, 1), "a frame with opcode 0x8"),
    ],
)
def test_a_wrong_answer_fails_its_rival(kind: str, load: Load, words: str, short: Settings) -> None:
    with pytest.raises(RivalFailedError, match=words):
        measure_server(kind, Serve("http"), load, short, start_bad)


@pytest.mark.parametrize("hold", ["answered", "unread"])
def test_memory_of_connections_that_stand_still(hold: str, short: Settings) -> None:
    load = Load("http", 1024, hold=hold)
    found = measure_idle(FLOOR, 50, short, start, Serve("http"), load).metrics
    assert 0 <= found["bytes_per_item"] < 1_000_000


def test_a_case_of_patience_measures_what_it_names(short: Settings) -> None:
    cases = {case.name: case for case in http_patience.cases(Options(connections=(20,)))}
    assert cases["20 idle connections"].measure(FLOOR, short).metrics["bytes_per_item"] >= 0


@pytest.mark.parametrize("name", ["ASGI", "WSGI"])
def test_an_answer_before_a_computation_is_seen_in_time(name: str) -> None:
    (case,) = (case for case in http_patience.cases(Options()) if case.name.startswith(f"{name}, answered"))
    rival = "uvicorn on asyncio" if name == "ASGI" else "pywsgi"
    try:
        found = case.measure(rival, Settings(duration_s=0.5, warmup_s=0.02)).metrics
    except RivalMissingError as missing:
        pytest.skip(str(missing))
    assert 0 < found["first_ns"] <= found["p50_ns"]


@pytest.mark.parametrize("rival", ["oneloop", "uvicorn on asyncio"])
def test_the_first_byte_of_an_answer_is_timed(rival: str) -> None:
    (case,) = http_first_byte.cases(Options())
    try:
        found = case.measure(rival, Settings(duration_s=0.1, warmup_s=0.02)).metrics
    except RivalMissingError as missing:
        pytest.skip(str(missing))
    assert 0 < found["first_ns"] <= found["p50_ns"]
    assert found["p50_ns"] > AFTER_ANSWER_S * 1e9


def test_every_row_of_oneloop_has_a_baseline_beside_it() -> None:
    for case in http.cases(Options()):
        assert case.baseline in case.rivals
        assert set(case.beside) <= set(case.rivals)
        assert any("oneloop" in rival for rival in case.rivals)


def test_ratios_to_more_than_one_rival() -> None:
    rows = [
        Row("go", samples=[sample(8_000)]),
        Row("granian", samples=[sample(16_000)]),
        Row("oneloop", samples=[sample(4_000)]),
        Row("node", "missing", "node is not on the path", [None]),
    ]
    names = [row.rival for row in rows]
    case = Case("http", "x", {}, "server_cpu_ns", "CPU", names, unmeasured, baseline="go", beside=("granian", "node"))
    data = case_data(Result(case, rows, 1))
    assert ratio_heads(data) == ["× go", "× granian"]
    assert ratio_cells(data, data["rows"][2]) == ["0.50 ±0.00", "0.25 ±0.00"]
    assert ratio_cells(data, data["rows"][3]) == ["–", "–"]
    assert terminal.case_tables(data, 200)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_servers, "has_module", lambda name: False)
    monkeypatch.setattr(http_servers, "find_nginx", lambda: None)
    for rival, words in (("granian", "granian is not installed"), ("nginx", "nginx is not")):
        with pytest.raises(RivalMissingError, match=words):
            start(rival, Serve("static" if rival == "nginx" else "http"))
    with pytest.raises(RivalMissingError, match="pywsgi has no websocket form"):
        start("pywsgi", Serve("websocket"))


@pytest.mark.parametrize(
    ("program", "form", "options"),
    [
        ("asgi", "static", ["--static", "/static=/files/static"]),
        ("threads", "wsgi", ["--threads", "8"]),
        ("green", "flask", ["--green"]),
    ],
)
def test_the_command_of_oneloop_takes_over_a_listening_socket(
    program: str, form: str, options: list[str], tmp_path: Path
) -> None:
    command = tmp_path / "oneloop" / "__main__.py"
    command.parent.mkdir()
    (command.parent / "__init__.py").touch()
    command.write_text(
        "import json, socket, sys\n"
        "arguments = sys.argv[1:]\n"
        "listener = socket.socket(fileno=int(arguments[arguments.index('--fd') + 1]))\n"
        "print(json.dumps([listener.getsockname()[1], arguments]), flush=True)\n"
        "listener.accept()[0].sendall(b'served')\n"
    )
    argv = [sys.executable, "-m", "bench.rivals.oneloop_http", "--program", program, "--form", form, "--path", "/files"]
    with Program(argv, None, {"PYTHONPATH": f"{tmp_path}:{ROOT}"}) as server:
        word, port = server.read_line(10).split()
        with socket.create_connection(("127.0.0.1", int(port)), 10) as client:
            assert client.recv(16) == b"served"
        number, arguments = json.loads(server.read_line(10))
    assert (word, number) == ("ready", int(port))
    assert arguments[:2] == ["serve", APPS[form].target]
    assert arguments[-len(options) - 2 : -2] == options


def test_servers_of_the_catalogue_are_started_as_there() -> None:
    assert start(FLOOR, Serve("http")) == (server_argv(FLOOR, Serve("http")), {})


@pytest.fixture
def load_app(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Applications as this process may have them: it is no worker, and does not die with its parent."""
    monkeypatch.setattr(worker, "settle", lambda: None)
    return lambda form: APPS[form].load()


def test_the_wsgi_application_keeps_the_rules(load_app: Callable[[str], Any]) -> None:
    app = validator(load_app("wsgi"))
    environ: dict[str, Any] = {}
    setup_testing_defaults(environ)
    for path in ("/64", "/after/64"):
        answers: Any = app({**environ, "PATH_INFO": path, "QUERY_STRING": ""}, lambda *_: print)
        assert b"".join(answers) == b"x" * 64
        answers.close()


def test_the_asgi_application_reads_a_body_in_pieces(load_app: Callable[[str], Any]) -> None:
    sent: list[dict[str, Any]] = []
    pieces: list[dict[str, Any]] = [{"body": b"one ", "more_body": True}, {"body": b"two"}]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", **pieces.pop(0)}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(load_app("http")({"type": "http", "method": "POST", "path": "/"}, receive, send))
    assert sent[-1]["body"] == b"one two"


def test_installing_a_package_starts_no_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tmp_path / "policy-rc.d"
    monkeypatch.setattr(install, "POLICY", policy)
    with install.services_held():
        assert policy.read_text().endswith("exit 101\n")
        with install.services_held():
            pass
        assert policy.exists()
    assert not policy.exists()
