"""The columns of a case's table: one list for the terminal, the page and Markdown."""

from __future__ import annotations

from bench.report import figures
from bench.report.document import CaseData, RowData

#: Metric -> heading, in the order of display; metrics that no row has are omitted.
HEADINGS = {
    "server_cpu_ns": "CPU/msg",
    "ns_per_op": "time/op",
    "cpu_ns_per_op": "CPU/op",
    "mock_ns_per_op": "Mock",
    "above_mock_ns": "above Mock",
    "slowest_ns": "slowest",
    "wall_ns": "total",
    "server_user_ns": "user",
    "server_system_ns": "system",
    "bytes_per_item": "memory/item",
    "rss_bytes_per_item": "RSS/item",
    "resumed_share": "resumed",
    "throughput": "per second",
    "first_ns": "first",
    "p50_ns": "p50",
    "p99_ns": "p99",
    "p999_ns": "p99.9",
    "lag_p99_ns": "lag p99",
    "lag_max_ns": "lag max",
    "cpu_share": "CPU",
    "rss_bytes": "RSS",
    "vss_bytes": "VSS",
    "one_worker_ns": "one worker",
    "parent_cpu_ns": "parent",
    "busiest_share": "busiest worker",
    "idlest_share": "idlest worker",
    "wakeups": "wake-ups/msg",
    "threads": "threads",
    "processes": "procs",
    "switches": "ctx/msg",
}


def columns(case: CaseData) -> list[str]:
    """The metrics to show, the main one first."""
    present = {name for row in case["rows"] for name in row["summary"]}
    if all(_median(case, index, "processes") <= 1 for index in range(len(case["rows"]))):
        present.discard("processes")
    rest = [name for name in HEADINGS if name in present and name != case["metric"]]
    return [case["metric"], *rest]


def ratio_heads(case: CaseData) -> list[str]:
    """The rivals for ratios: the baseline first, then the others."""
    return [f"× {name}" for name in (case["baseline"] or "baseline", *case.get("beside", []))]


def ratio_cells(case: CaseData, row: RowData) -> list[str]:
    """A cell for each of `ratio_heads`."""
    more = row.get("beside", {})
    found = [row.get("ratio"), *(more.get(name) for name in case.get("beside", []))]
    return [figures.ratio(ratio) if ratio else "–" for ratio in found]


def _median(case: CaseData, index: int, metric: str) -> float:
    found = case["rows"][index]["summary"].get(metric)
    return found["median"] if found else 0.0
