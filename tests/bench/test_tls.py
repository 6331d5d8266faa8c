"""The rows of the tls suite: echo, handshakes, idle connections; what the generator accepts and what it refuses."""

from __future__ import annotations

import socket
import ssl
import sys
import threading
import types
from collections.abc import Sequence
from pathlib import Path

import pytest
import trustme

from bench import catalogue, certificates
from bench.catalogue import FLOOR, FLOOR_OPENSSL, SUBJECT_TLS, TLS_SERVERS, Serve, missing_reason, server_argv
from bench.model import RivalFailedError, RivalMissingError, Settings
from bench.process import Program, native
from bench.rivals import endpoint
from bench.rivals.endpoint import Endpoint
from bench.served import Load, measure_server, read_event
from bench.suites import SUITES, tls
from bench.suites.idle import measure_idle
from bench.suites.options import Options

PROTOCOL = Serve("protocol", tls="yes")
HANDSHAKE = Load("accept", size=64, connections=2, closer="client")
RESUMED = Load("accept", size=64, connections=2, closer="client", resumes=True)
ABRUPT = "ends connections without close_notify"

needs_openssl_floor = pytest.mark.skipif(
    bool(missing_reason(FLOOR_OPENSSL)), reason=f"floor-openssl: {missing_reason(FLOOR_OPENSSL)}"
)
servers = pytest.mark.parametrize("rival", [FLOOR, pytest.param(FLOOR_OPENSSL, marks=needs_openssl_floor), "asyncio"])


def start_bad(kind: str, serve: Serve) -> tuple[Sequence[str], dict[str, str]]:
    return [sys.executable, "-m", "tests.bench.servers", kind, serve.tls], {}


@servers
@pytest.mark.parametrize("size", [1, 1024, 300_000])
def test_echo_over_tls(rival: str, size: int, short: Settings) -> None:
    assert measure_server(rival, PROTOCOL, Load(size=size, connections=3), short).metrics["throughput"] > 0


def test_streams_over_tls(short: Settings) -> None:
    serve = Serve("streams", tls="yes")
    assert measure_server("asyncio", serve, Load(connections=3), short).metrics["throughput"] > 0


@servers
@pytest.mark.parametrize("closer", ["client", "server"])
def test_every_handshake_is_full_and_every_end_is_announced(rival: str, closer: str, short: Settings) -> None:
    serve = Serve("accept" if closer == "server" else "protocol", tls="yes")
    sample = measure_server(rival, serve, Load("accept", size=64, connections=2, closer=closer), short)
    assert sample.metrics["throughput"] > 0
    assert ABRUPT not in sample.notes
    assert "resumed_share" not in sample.metrics


@servers
def test_every_connection_resumes_a_session(rival: str, short: Settings) -> None:
    sample = measure_server(rival, PROTOCOL, RESUMED, short)
    assert sample.metrics["resumed_share"] == 1
    assert "not every session was resumed" not in sample.notes


def test_a_server_that_ends_tls_abruptly_has_a_note(short: Settings) -> None:
    assert ABRUPT in measure_server("ends_tls_abruptly", PROTOCOL, HANDSHAKE, short, start_bad).notes


def test_a_server_that_resumes_nothing_is_missing(short: Settings) -> None:
    with pytest.raises(RivalMissingError, match="sends_no_tickets does not resume TLS sessions"):
        measure_server("sends_no_tickets", PROTOCOL, RESUMED, short, start_bad)


def test_a_server_without_tls_1_3_is_refused(short: Settings) -> None:
    with pytest.raises(RivalFailedError, match=r"UNSUPPORTED_PROTOCOL|ProtocolVersion"):
        measure_server("speaks_old_tls", PROTOCOL, HANDSHAKE, short, start_bad)


@pytest.mark.parametrize("load", [Load(size=4096, connections=3), HANDSHAKE], ids=["echo", "handshake"])
def test_a_corrupted_answer_is_detected_over_tls(load: Load, short: Settings) -> None:
    def corrupting(rival: str, serve: Serve) -> tuple[Sequence[str], dict[str, str]]:
        return [native("floor"), "corrupt", "--tls", serve.tls], {}

    with pytest.raises(RivalFailedError, match=r"wrong answer: connection \d differs at byte"):
        measure_server("corrupting", PROTOCOL, load, short, corrupting)


def test_the_generator_trusts_one_authority_only(tmp_path: Path) -> None:
    stranger = tmp_path / "stranger.pem"
    trustme.CA().cert_pem.write_to_path(str(stranger))
    server = [native("floor"), "echo", "--tls", str(certificates.server_file())]
    with Program(server, None) as floor:
        port = floor.read_line(10).removeprefix("ready ")
        for mode in ("echo", "accept"):
            options = ["--port", port, "--ca", str(stranger), "--mode", mode]
            with Program([native("loadgen"), *options], None) as generator:
                with pytest.raises(RivalFailedError, match="UnknownIssuer"):
                    read_event(generator, 10)


def test_the_parameters_are_those_that_the_rows_name() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server_file())
    found: list[object] = []

    def serve(listener: socket.socket) -> None:
        with context.wrap_socket(listener.accept()[0], server_side=True) as client:
            client.sendall(client.recv(1024))
            found.extend([client.cipher(), client.shared_ciphers(), client.version()])
            client.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        port = str(listener.getsockname()[1])
        options = ["--port", port, "--ca", str(certificates.authority_file()), "--hold", "answered"]
        with Program([native("loadgen"), *options], None) as generator:
            assert read_event(generator, 10)["event"] == "ready"
            generator.tell("go")
            thread.join(60)
    only = (tls.CIPHER, "TLSv1.3", 256)
    assert found == [only, [only], "TLSv1.3"]


def test_the_certificate_has_the_key_that_the_rows_name() -> None:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509 import load_pem_x509_certificate

    pem = certificates.server_file().read_bytes()
    key = load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERTIFICATE") :]).public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert (key.curve.name, tls.KEY) == ("secp256r1", "ECDSA P-256")


@servers
def test_idle_tls_connections_cost_memory(rival: str, short: Settings) -> None:
    metrics = measure_idle(rival, 20, short, serve=tls.IDLE).metrics
    assert metrics["rss_bytes"] > 0
    assert metrics["bytes_per_item"] >= 0


def test_the_suite_has_every_kind_of_row() -> None:
    names = [case.name for case in tls.cases(Options())]
    for size in ("1 KiB", "10 KiB", "100 KiB"):
        for count in (10, 100):
            assert f"{size}, {count} connections" in names
    assert {"streams, 1 KiB, 10 connections", "handshake, 10 at a time", "resumed handshake, 10 at a time"} <= {*names}
    assert "2,000 idle connections" in names
    assert all(tls.PARAMETERS in case.remark for case in tls.cases(Options()))


def test_the_tls_servers_are_in_no_other_suite() -> None:
    for name, make in SUITES.items():
        measured = {rival for case in make(Options()) for rival in case.rivals}
        assert bool(measured & {*TLS_SERVERS}) == (name == "tls"), name
    only = {case.rivals for case in tls.cases(Options(only=(SUBJECT_TLS,)))}
    assert only == {(SUBJECT_TLS,)}
    for rival in TLS_SERVERS:
        with pytest.raises(RivalMissingError, match=r"TLS only|not built|no oneloop\.tls|not installed"):
            server_argv(rival, Serve("protocol"))


def test_oneloop_without_contexts_of_its_own_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "has_module", lambda name: True)
    monkeypatch.setattr(catalogue, "_offers", lambda module, name: name != "server_context")
    assert missing_reason("oneloop") == ""
    with pytest.raises(RivalMissingError, match=r"oneloop has no oneloop\.tls yet"):
        server_argv(SUBJECT_TLS, PROTOCOL)
    monkeypatch.setattr(catalogue, "_offers", lambda module, name: True)
    argv = server_argv(SUBJECT_TLS, PROTOCOL)
    assert argv[argv.index("--loop") + 1] == "oneloop"
    assert argv[argv.index("--contexts") + 1] == "oneloop.tls"


def test_the_contexts_of_oneloop_are_made_from_the_same_file(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    module = types.ModuleType(endpoint.ONELOOP_TLS)
    module.__dict__["server_context"] = lambda certfile, *, alpn: asked.append((certfile, alpn))
    monkeypatch.setitem(sys.modules, endpoint.ONELOOP_TLS, module)
    where = Endpoint("oneloop", "protocol", "tcp", "", "server.pem", 1024, endpoint.ONELOOP_TLS)
    endpoint.tls_context(where)
    assert asked == [("server.pem", ())]


def test_the_openssl_floor_says_when_it_is_not_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(catalogue, "NATIVE", tmp_path)
    with pytest.raises(RivalMissingError, match="no OpenSSL to build it with"):
        server_argv(FLOOR_OPENSSL, PROTOCOL)
