"""Access lines: uvicorn's form, JSON; and nothing that a client sends can add a line or a field."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oneloop.http.access import AccessLog
from oneloop.http.line_writer import LineWriter
from oneloop.http.logs import AccessFormatter

ONE = (("127.0.0.1", 5000), "GET", b"/a?b=c", "1.1", 200, 12, 0.25, [(b"host", b"x"), (b"user-agent", b"curl/8")])


def lines(*responses: Any, **options: Any) -> list[str]:
    """What is written for these responses, in one turn of a loop."""
    reading, writing = os.pipe()
    loop = asyncio.new_event_loop()
    try:
        access = AccessLog(loop, fd=writing, **options)
        for response in responses:
            access(*response)
        loop.run_until_complete(asyncio.sleep(0))
        access.close()
        os.close(writing)
        with os.fdopen(reading, "rb") as file:
            return file.read().decode("ascii").splitlines(keepends=True)
    finally:
        loop.close()


def changed(place: int, value: Any) -> tuple[Any, ...]:
    return (*ONE[:place], value, *ONE[place + 1 :])


def test_text() -> None:
    assert lines(ONE) == ['INFO:     127.0.0.1:5000 - "GET /a?b=c HTTP/1.1" 200 OK\n']


@pytest.mark.parametrize(
    ("client", "shown"),
    [(("::1", 80), "::1:80"), (None, ""), (("x\n", 1), "x\\x0a:1"), (("h", None), "h"), ("/run/x", "/run/x")],
)
def test_clients(client: Any, shown: str) -> None:
    assert lines(changed(0, client)) == [f'INFO:     {shown} - "GET /a?b=c HTTP/1.1" 200 OK\n']


def test_statuses_without_a_phrase() -> None:
    assert lines(changed(4, 299)) == ['INFO:     127.0.0.1:5000 - "GET /a?b=c HTTP/1.1" 299 \n']


def test_colors() -> None:
    request = "\x1b[1mGET /a?b=c HTTP/1.1\x1b[0m"
    line = f'\x1b[32mINFO\x1b[0m:     127.0.0.1:5000 - "{request}" \x1b[31m404 Not Found\x1b[0m\n'
    assert lines(*[changed(4, 404)] * 2, use_colors=True) == [line] * 2


def test_colors_are_those_of_one_log() -> None:
    """Of one status, in two servers."""
    assert "\x1b" in lines(ONE, use_colors=True)[0]
    assert lines(ONE, use_colors=False) == ['INFO:     127.0.0.1:5000 - "GET /a?b=c HTTP/1.1" 200 OK\n']


def test_a_failure_does_not_keep_the_next_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [MemoryError()]
    write = LineWriter.write

    def failing(writer: LineWriter, data: bytes) -> None:
        if failures:
            raise failures.pop()
        write(writer, data)

    monkeypatch.setattr(LineWriter, "write", failing)
    reading, writing = os.pipe()
    loop = asyncio.new_event_loop()
    told: list[Any] = []
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
    access = AccessLog(loop, fd=writing)
    for _ in range(3):
        access(*ONE)
        loop.run_until_complete(asyncio.sleep(0))
    access.close()
    loop.close()
    os.close(writing)
    assert [type(error) for error in told] == [MemoryError]
    with os.fdopen(reading, "rb") as file:
        assert len(file.readlines()) == 2


def test_json() -> None:
    [line] = lines(ONE, form="json")
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    assert found == {
        "client": "127.0.0.1:5000",
        "method": "GET",
        "target": "/a?b=c",
        "http_version": "1.1",
        "status": 200,
        "body_bytes": 12,
        "complete": True,
        "duration_s": 0.25,
        "user_agent": "curl/8",
    }


def test_lines_of_one_turn_leave_in_one_write() -> None:
    # A datagram is a write.
    import socket

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    loop = asyncio.new_event_loop()
    with ours, theirs:
        access = AccessLog(loop, fd=ours.fileno())
        access(*ONE)
        access(*ONE)
        loop.run_until_complete(asyncio.sleep(0))
        assert theirs.recv(4096).count(b"\n") == 2
        access.close()
    loop.close()


@example(target=b"/", agent=b"", client='"')
@given(target=st.binary(min_size=1), agent=st.binary(), client=st.text())
def test_no_request_forges_a_line(target: bytes, agent: bytes, client: str) -> None:
    response = ((client, 1), "GET", target, "1.1", 200, 0, 0.0, [(b"user-agent", agent)])
    [line] = lines(response)
    assert line.endswith('HTTP/1.1" 200 OK\n')
    assert line.count('"') == 2
    assert all(" " <= character <= "~" for character in line[:-1])
    [line] = lines(response, form="json")
    found = json.loads(line)
    assert found["target"].encode("latin-1") == target
    assert found["user_agent"].encode("latin-1") == agent
    assert len(found) == 10


def test_a_log_that_nobody_reads_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    loop = asyncio.new_event_loop()
    access = AccessLog(loop, fd=writing)
    for _ in range(2):
        access(*ONE)
        access.flush()
    loop.run_until_complete(asyncio.sleep(0))
    access.close()
    loop.close()
    os.close(writing)
    assert caplog.text.count("The access log cannot be written: [Errno 32] Broken pipe") == 1


def test_records(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "oneloop.access"):
        assert lines(ONE, through_logging=True) == []
        assert lines(ONE, through_logging=True, form="json") == []
    first, second = caplog.records
    assert first.args == ("127.0.0.1:5000", "GET", "/a?b=c", "1.1", 200)
    shown = AccessFormatter('%(levelprefix)s %(client_addr)s - "%(request_line)s" %(status_code)s', use_colors=False)
    assert shown.format(first) == 'INFO:     127.0.0.1:5000 - "GET /a?b=c HTTP/1.1" 200 OK'
    assert json.loads(second.getMessage())["status"] == 200


def test_quotes_of_the_line_are_the_lines_own() -> None:
    assert lines(changed(2, b'/a\\"b')) == ['INFO:     127.0.0.1:5000 - "GET /a\\x5c\\x22b HTTP/1.1" 200 OK\n']
    assert lines(changed(2, b"/a\\x22")) == ['INFO:     127.0.0.1:5000 - "GET /a\\x5cx22 HTTP/1.1" 200 OK\n']


def test_a_write_that_takes_a_part_is_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
    assert lines(ONE, ONE) == ['INFO:     127.0.0.1:5000 - "GET /a?b=c HTTP/1.1" 200 OK\n'] * 2


def test_the_time_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = iter([1_700_000_000.9, 1_700_000_001.0])
    monkeypatch.setattr("oneloop.http.access.time.time", lambda: next(now_s))
    times = [json.loads(line)["time"] for line in lines(ONE, ONE, form="json")]
    assert times == ["2023-11-14T22:13:20Z", "2023-11-14T22:13:21Z"]


def test_the_first_user_agent_counts() -> None:
    [line] = lines(changed(7, [(b"user-agent", b"first"), (b"user-agent", b"second")]), form="json")
    assert json.loads(line)["user_agent"] == "first"
