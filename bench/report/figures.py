"""Formats stored figures as text: µs, MiB, thousands. Independent of the layout."""

from __future__ import annotations

from bench.report.document import RowData, SummaryData


def duration(ns: float) -> str:
    """Three significant digits in a suitable unit."""
    for factor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if ns >= factor:
            return f"{_three(ns / factor)} {unit}"
    return f"{_three(ns)} ns"


def size(count_bytes: float) -> str:
    """Binary multiples."""
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count_bytes >= factor:
            return f"{_three(count_bytes / factor)} {unit}"
    return f"{_three(count_bytes)} B"


def count(number: float) -> str:
    """A number with separators for thousands."""
    return f"{number:,.0f}" if number >= 100 else _three(number)


def _three(number: float) -> str:
    if number >= 99.95:
        return f"{number:.0f}"
    return f"{number:.1f}" if number >= 9.995 else f"{number:.2f}"


def value(metric: str, number: float) -> str:
    """A figure, formatted according to the name of its metric."""
    if metric.endswith("_ns") or metric.startswith("ns_") or "_ns_" in metric:
        return duration(number)
    if metric.endswith("_bytes") or metric.startswith("bytes_") or "_bytes_" in metric:
        return size(number)
    if metric.endswith("_share"):
        return f"{number * 100:.0f} %"
    return count(number)


def ratio(summary: SummaryData) -> str:
    """The median ratio and half the range of the rounds' ratios."""
    half = (summary["high"] - summary["low"]) / 2
    return f"{summary['median']:.2f} ±{half:.2f}"


def median(row: RowData, metric: str) -> str:
    """A rival's median, or a dash."""
    found = row["summary"].get(metric)
    return value(metric, found["median"]) if found else "–"


def spread_percent(row: RowData, metric: str) -> str:
    """Half the range over the rounds, as a share of the median."""
    found = row["summary"].get(metric)
    if not found or not found["median"] or found["count"] < 2:
        return "–"
    return f"±{(found['high'] - found['low']) / 2 / found['median'] * 100:.0f} %"
