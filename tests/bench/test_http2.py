"""The rows of the http2 suite: what h2load says, and every server in a short run."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from bench.h2load import Outcome, Streams, measure_streams, outcome_of
from bench.http_servers import start
from bench.model import RivalFailedError, RivalMissingError, Settings
from bench.suites import http2

SAID = """\
starting benchmark...
Application protocol: h2
progress: 100% done

finished in 12.50ms, 8000.00 req/s, 8.20MB/s
requests: 100 total, 100 started, 100 done, 100 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 100 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 102.93KB (105400) total, 1.29KB (1320) headers (space savings 92.00%), 100.00KB (102400) data
                     min         max         mean         sd        +/- sd
time for request:      101us      2.10ms       415us       212us    71.00%
""".splitlines()
STREAMS = Streams(10, 10, 1024)


def test_what_h2load_says() -> None:
    assert outcome_of(SAID, STREAMS, 100) == Outcome(8000.0, 415e3)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("protocol: h2", "protocol: http/1.1", "does not speak HTTP/2"),
        ("100 succeeded, 0 failed", "99 succeeded, 1 failed", "99 of 100 requests succeeded"),
        ("(102400) data", "(102399) data", "102399 bytes instead of 102400"),
        ("time for request:", "time for all:", "h2load said"),
    ],
)
def test_what_is_no_result(old: str, new: str, reason: str) -> None:
    lines = [line.replace(old, new) for line in SAID]
    with pytest.raises(RivalFailedError, match=reason):
        outcome_of(lines, STREAMS, 100)


@pytest.mark.parametrize("rival", http2.RIVALS)
def test_every_server_answers(rival: str) -> None:
    if shutil.which("h2load") is None:
        pytest.skip("h2load is not installed")
    settings = replace(Settings(), duration_s=0.02, scale=0.1)
    try:
        sample = measure_streams(rival, Streams(2, 5, 1024), settings, start)
    except RivalMissingError as error:
        pytest.skip(str(error))
    assert sample.metrics["server_cpu_ns"] > 0
    assert sample.metrics["throughput"] > 0
