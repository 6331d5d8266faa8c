"""The row of a server's start: from its command to the first response, and its memory then."""

from __future__ import annotations

import re
import sys

import pytest

from bench.model import RivalFailedError, RivalMissingError, Settings
from bench.process import Program
from bench.rivals.endpoint import free_port
from bench.suites import http_start
from bench.suites.options import Options


@pytest.mark.parametrize("rival", http_start.COMMANDS)
def test_every_server_starts_and_answers(rival: str, short: Settings) -> None:
    try:
        found = http_start.measure_start(rival, short).metrics
    except RivalMissingError as missing:
        pytest.skip(str(missing))
    # An interpreter alone needs more than a millisecond and a MiB.
    assert found["first_ns"] > 1e6
    assert found["cpu_ns_per_op"] > 1e6
    assert found["bytes_per_item"] > 1 << 20


def test_a_server_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(http_start.COMMANDS, "other", (("no_such_server",), ["no_such_server"]))
    with pytest.raises(RivalMissingError, match="no_such_server is not installed"):
        http_start.command("other", 1)


def test_a_server_that_ends_fails() -> None:
    with Program([sys.executable, "-c", "raise SystemExit('no luck')"], None) as server:
        with pytest.raises(RivalFailedError, match=re.escape("died: exit status 1 (no luck)")):
            http_start.first_response(server, free_port())


def test_another_response_is_a_wrong_answer() -> None:
    port = free_port()
    code = (
        "import socket; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); c = s.accept()[0]; "
        "c.recv(100); c.send(b'HTTP/1.1 500 No'); c.close()"
    )
    with Program([sys.executable, "-c", f"import sys; {code}", str(port)], None) as server:
        with pytest.raises(RivalFailedError, match="wrong answer"):
            http_start.first_response(server, port)


def test_the_row_is_part_of_the_suite() -> None:
    (case,) = http_start.cases(Options())
    assert case.metric == "first_ns"
    assert case.also == ("bytes_per_item",)
