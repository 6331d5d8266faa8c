"""The list of suites. Each is one file with a function that returns the cases for given options."""

from __future__ import annotations

from collections.abc import Callable

from bench.model import Case
from bench.suites import (
    accept,
    answers,
    check,
    client,
    files,
    green,
    http,
    http2,
    idle,
    pipeline,
    primitives,
    reading,
    scale,
    sock,
    streams,
    tcp,
    tls,
    udp,
    unix,
    urls,
    writing,
)
from bench.suites.options import Options

SUITES: dict[str, Callable[[Options], list[Case]]] = {
    "tcp": tcp.cases,
    "unix": unix.cases,
    "udp": udp.cases,
    "tls": tls.cases,
    "streams": streams.cases,
    "sock": sock.cases,
    "pipeline": pipeline.cases,
    "accept": accept.cases,
    "answers": answers.cases,
    "primitives": primitives.cases,
    "http": http.cases,
    "http2": http2.cases,
    "files": files.cases,
    "reading": reading.cases,
    "writing": writing.cases,
    "green": green.cases,
    "idle": idle.cases,
    "scale": scale.cases,
    "urls": urls.cases,
    "client": client.cases,
    "check": check.cases,
}
