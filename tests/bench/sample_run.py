"""A run with every kind of row, made of known numbers, for the tests of the reports."""

from __future__ import annotations

from bench.model import Case, Result, Row, Sample, Settings
from bench.report.document import Document, document


def sample(cpu_ns: float) -> Sample:
    curve = [(0.0, cpu_ns), (0.5, cpu_ns * 2), (0.99, cpu_ns * 5), (0.9999, cpu_ns * 90), (1.0, cpu_ns * 99)]
    metrics = {
        "server_cpu_ns": cpu_ns,
        "server_user_ns": cpu_ns / 4,
        "server_system_ns": cpu_ns * 3 / 4,
        "throughput": 1e9 / cpu_ns,
        "p50_ns": cpu_ns * 2,
        "rss_bytes": 20e6,
    }
    return Sample(metrics, curve, ["generator was the bottleneck"] if cpu_ns < 4000 else [])


def unmeasured(rival: str, settings: Settings) -> Sample:
    raise NotImplementedError


def make_document(oneloop_ns: tuple[float, ...] = (4400, 4600, 4500)) -> Document:
    rows = [
        Row("floor", samples=[sample(ns) for ns in (3500, 3600, 3550)]),
        Row("uvloop", samples=[sample(ns) for ns in (5000, 5200, 5100)]),
        Row("oneloop", samples=[sample(ns) for ns in oneloop_ns]),
        Row("rloop", "failed", "died: signal SIGSEGV", [sample(4900), None]),
        Row("curio", "missing", "curio is not installed", [None]),
        Row("<b>&", samples=[sample(9000)]),
    ]
    case = Case(
        "tcp", "1 KiB, 10 connections", {"size": 1024}, "server_cpu_ns", "CPU per message",
        [row.rival for row in rows], unmeasured, remark="a <remark>",
    )  # fmt: skip
    machine: dict[str, str | int] = {
        "cpu": "some CPU", "cpus": 2, "memory_bytes": 1 << 34, "kernel": "Linux 6", "governor": "none",
        "date": "2026-11-20T00:00:00+00:00", "load_average": "0.1",
    }  # fmt: skip
    return document([Result(case, rows, 3)], Settings(), "python -m bench", machine, {"python": "3.13.0"}, ["careful"])
