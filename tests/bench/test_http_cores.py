"""Requests of a browser, and servers with two workers on two CPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.catalogue import SUBJECT, Serve
from bench.http_servers import start
from bench.model import RivalFailedError, RivalMissingError, Sample, Settings
from bench.served import Load, measure_server
from bench.suites import http_cores
from bench.suites.options import Options

CASES = {case.name: case for case in http_cores.cases(Options(core=True))}
BROWSER, ONE_WORKER, TWO_WORKERS = CASES


def measured(name: str, rival: str, settings: Settings) -> Sample:
    try:
        return CASES[name].measure(rival, settings)
    except RivalMissingError as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("rival", http_cores.BROWSER_RIVALS)
def test_servers_answer_requests_of_a_browser(rival: str, short: Settings) -> None:
    assert measured(BROWSER, rival, short).metrics["server_cpu_ns"] > 0


def test_the_cookie_is_looked_for(short: Settings) -> None:
    load = Load("http", 64, 2, target="/session/64", headers=http_cores.BROWSER_HEADERS)
    assert measure_server(SUBJECT, Serve("http"), load, short, start).metrics["throughput"] > 0
    without = replace(load, headers=tuple(line for line in load.headers if not line.startswith("Cookie")))
    with pytest.raises(RivalFailedError, match="status 403"):
        measure_server(SUBJECT, Serve("http"), without, short, start)


def test_a_request_has_ten_headers_with_three_cookies() -> None:
    assert len(http_cores.BROWSER_HEADERS) + 1 == 10
    (cookie,) = (line for line in http_cores.BROWSER_HEADERS if line.startswith("Cookie: "))
    assert len(cookie.split("; ")) == 3


@pytest.mark.parametrize("rival", http_cores.CPUS_RIVALS)
def test_two_workers_serve(rival: str, short: Settings) -> None:
    found = measured(TWO_WORKERS, rival, short).metrics
    assert found["ns_per_op"] == pytest.approx(1e9 / found["throughput"])
    # Go has threads in place of workers.
    assert found["processes"] >= 3 or rival == "go"


def test_one_worker_on_two_cpus_is_one_worker(short: Settings) -> None:
    found = measured(ONE_WORKER, SUBJECT, short).metrics
    assert found["processes"] == 1
    assert CASES[ONE_WORKER].also == ("p99_ns",)


def test_a_server_that_is_measured_with_one_worker_only_says_so() -> None:
    with pytest.raises(RivalMissingError, match="one worker only"):
        start("hypercorn on uvloop", Serve("http", workers=2))
