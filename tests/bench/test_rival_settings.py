"""The rivals run at their best, as the page says of them: seen in what they answer, not in their options."""

from __future__ import annotations

import os
import socket
from http.client import HTTPConnection
from pathlib import Path

import pytest

from bench.catalogue import Serve
from bench.http_servers import NGINX, NGINX_CACHED, start
from bench.model import RivalMissingError, Settings
from bench.process import ROOT
from bench.served import running_server

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"
"""How a client begins HTTP/2: the preface and an empty SETTINGS frame (RFC 9113, section 3.4)."""
SETTINGS_FRAME = 4


def port_of(address: list[str]) -> int:
    return int(address[address.index("--port") + 1])


@pytest.mark.parametrize(("rival", "second"), [(NGINX, b"new"), (NGINX_CACHED, b"old")])
def test_nginx_keeps_files_open_only_where_the_row_says_so(
    rival: str, second: bytes, short: Settings, tmp_path: Path
) -> None:
    page, other = tmp_path / "page", tmp_path / "other"
    page.write_bytes(b"old")
    other.write_bytes(b"new")
    try:
        with running_server(rival, Serve("static", path=str(tmp_path)), short, start) as (_, address):
            client = HTTPConnection("127.0.0.1", port_of(address), timeout=60)
            answers = []
            for _ in range(2):
                client.request("GET", "/page")
                answers.append(client.getresponse().read())
                if other.exists():
                    os.replace(other, page)
            client.close()
    except RivalMissingError as missing:
        pytest.skip(str(missing))
    assert answers == [b"old", second]


def test_granian_looks_for_no_other_version_of_http(short: Settings) -> None:
    try:
        with running_server("granian", Serve("http"), short, start) as (_, address):
            client = socket.create_connection(("127.0.0.1", port_of(address)), timeout=60)
            with client, client.makefile("rb") as reader:
                client.sendall(PREFACE)
                # A server of both versions would answer with a SETTINGS frame and wait for requests.
                try:
                    first = reader.read(9)
                except ConnectionResetError:
                    first = b""
    except RivalMissingError as missing:
        pytest.skip(str(missing))
    assert len(first) < 9 or first[3] != SETTINGS_FRAME


@pytest.mark.parametrize("program", ["go_server.go", "go_client.go"])
def test_go_reads_a_body_of_known_length_into_one_buffer(program: str) -> None:
    source = (ROOT / "bench/rivals" / program).read_text()
    assert "io.ReadAll(" not in source
    assert "io.ReadFull(" in source
