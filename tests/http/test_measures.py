"""Metrics: what is counted, and its form."""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path

import pytest

from oneloop.http.measures import Board, Measures, read_cpu_s, read_memory_bytes
from oneloop.loop import Loop


@pytest.fixture
def board() -> Board:
    return Board(4)


def value(text: str, line: str) -> float:
    [found] = re.findall(rf"^{re.escape(line)} (\S+)$", text, re.MULTILINE)
    return float(found)


def add(measures: Measures, status: int, body_bytes: int, duration_s: float) -> None:
    measures.add(None, "GET", b"/", "1.1", status, body_bytes, duration_s, [])


def test_counts(board: Board) -> None:
    measures = Measures(board, 1)
    add(measures, 200, 10, 0.0005)
    add(measures, 204, 0, 0.02)
    add(measures, 503, 5, 60.0)
    text = measures.text()
    assert value(text, 'oneloop_http_requests_total{worker="1",status="2xx"}') == 2
    assert value(text, 'oneloop_http_requests_total{worker="1",status="5xx"}') == 1
    assert value(text, 'oneloop_http_requests_total{worker="1",status="4xx"}') == 0
    assert value(text, 'oneloop_http_response_body_bytes_total{worker="1"}') == 15
    name = "oneloop_http_request_duration_seconds"
    assert value(text, f'{name}_bucket{{worker="1",le="0.001"}}') == 1
    assert value(text, f'{name}_bucket{{worker="1",le="0.025"}}') == 2
    assert value(text, f'{name}_bucket{{worker="1",le="10.0"}}') == 2
    assert value(text, f'{name}_bucket{{worker="1",le="+Inf"}}') == 3
    assert value(text, f'{name}_count{{worker="1"}}') == 3
    assert value(text, f'{name}_sum{{worker="1"}}') == pytest.approx(60.0205)
    assert value(text, 'process_resident_memory_bytes{worker="1"}') > 1 << 20


def test_each_family_is_declared_once_and_every_line_is_well_formed(board: Board) -> None:
    Measures(board, 0)
    text = Measures(board, 3).text()
    declared = re.findall(r"^# TYPE (\S+) (?:counter|gauge|histogram)$", text, re.MULTILINE)
    assert len(set(declared)) == len(declared)
    for line in text.splitlines():
        if not line.startswith("#"):
            assert re.fullmatch(r'[a-z_]+\{worker="[03]"(,(status|le)="[^"]+")?\} [0-9.e+-]+', line), line
            name = line.partition("{")[0]
            assert name in declared or name.rpartition("_")[0] in declared


def test_statistics_of_the_loop(board: Board) -> None:
    measures = Measures(board)
    loop = Loop()
    try:
        loop.run_until_complete(asyncio.sleep(0))
        measures.publish(loop, 7, 9)
    finally:
        loop.close()
    text = measures.text()
    assert value(text, 'oneloop_http_requests_in_flight{worker="0"}') == 7
    assert value(text, 'oneloop_http_connections{worker="0"}') == 9
    assert value(text, 'oneloop_loop_ticks_total{worker="0"}') >= 1


def test_a_row_that_is_cleared_is_gone(board: Board) -> None:
    measures = Measures(board, 2)
    add(measures, 200, 1, 1.0)
    board.clear(2)
    assert "worker=" not in measures.text()


def test_a_process_that_has_ended_has_no_figures(board: Board) -> None:
    measures = Measures(board)
    board.values[0] = 4_194_305.0  # more than a pid can be
    text = measures.text()
    assert "process_cpu_seconds_total{" not in text
    assert "oneloop_http_connections{" in text


def test_figures_of_this_process() -> None:
    import os

    assert read_memory_bytes() > 1 << 20
    assert read_cpu_s(os.getpid()) > 0


def test_a_bound_is_part_of_its_bucket(board: Board) -> None:
    measures = Measures(board, 0)
    add(measures, 200, 0, 0.001)
    name = "oneloop_http_request_duration_seconds"
    assert value(measures.text(), f'{name}_bucket{{worker="0",le="0.001"}}') == 1


def test_a_new_worker_begins_at_zero(board: Board) -> None:
    add(Measures(board, 2), 200, 100, 1.0)
    text = Measures(board, 2).text()
    assert value(text, 'oneloop_http_requests_total{worker="2",status="2xx"}') == 0
    assert value(text, 'oneloop_http_response_body_bytes_total{worker="2"}') == 0


def test_the_name_of_a_program_may_hold_brackets() -> None:
    name = Path("/proc/self/comm")
    before = name.read_text()
    name.write_text("a) b 1 2 3 (")
    try:
        assert 0 <= read_cpu_s(os.getpid()) <= time.process_time() + 1
    finally:
        name.write_text(before.strip())
