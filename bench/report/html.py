"""The page: one self-contained file. Creates text from a document; runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from bench.report import figures
from bench.report.charts import Bar, Line, bars, curves
from bench.report.columns import HEADINGS, columns, ratio_cells, ratio_heads
from bench.report.document import CaseData, Document, RowData

_STYLES = [Path(__file__).with_name(name) for name in ("chart.css", "page.css")]
#: Rivals whose latency curves are drawn; with all rivals the chart would be unreadable.
_CURVES = ("floor", "asyncio", "uvloop", "rloop", "oneloop", "gevent", "node", "go")

_HOW = """
<p>The main figure is the <b>CPU time that the server used per message</b>, user and system, of the whole process tree,
read before and after a measured window, when no request is in progress. Bars: lower is better; the dark part is user
time, the rest system time; the thin line is the range over the rounds; the dashed line is the floor, a server without
Python that does the same work on the same machine. Ratios are computed per round and pair; ± is half their range. A
rival's memory, threads and switches are those of its process tree. The generator is native, runs on a separate CPU and
compares every byte that it receives.</p>
"""


def kind(rival: str) -> str:
    """The colour class of a rival."""
    if "oneloop" in rival:
        return "ours"
    if rival.startswith("floor") or rival in ("fio", "greenlet"):
        return "floor"
    if "uvloop" in rival:
        return "uvloop"
    return "asyncio" if "asyncio" in rival else "other"


def _curve_kind(rival: str) -> str:
    """The colour class of a curve. Curves cross, so each has a different colour."""
    found = kind(rival)
    return rival if found == "other" and rival in _CURVES else found


def _measured(case: CaseData) -> list[RowData]:
    rows = [row for row in case["rows"] if case["metric"] in row["summary"]]
    return sorted(rows, key=lambda row: row["summary"][case["metric"]]["median"])


def _bar_of(case: CaseData, row: RowData) -> Bar:
    metric = case["metric"]
    summary = row["summary"][metric]
    user = row["summary"].get("server_user_ns")
    ratio = f" (×{row['ratio']['median']:.2f})" if "ratio" in row else ""
    text = figures.value(metric, summary["median"]) + ratio
    lower = user["median"] if user and metric == "server_cpu_ns" else 0.0
    return Bar(
        row["rival"], summary["median"], lower, summary["low"], summary["high"], text,
        kind(row["rival"]),
    )  # fmt: skip


def _floor_of(case: CaseData) -> float | None:
    values = [
        row["summary"][case["metric"]]["median"]
        for row in case["rows"]
        if row["rival"] in ("floor", "fio", "greenlet") and case["metric"] in row["summary"]
    ]
    return values[0] if values else None


def _table(case: CaseData) -> str:
    names = columns(case)
    heads = ["rival", HEADINGS.get(names[0], names[0]), "spread", *ratio_heads(case)]
    heads += [HEADINGS.get(name, name) for name in names[1:]] + ["notes"]
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(_table_row(case, row, names) for row in case["rows"])
    return f"<div class=scroll><table><tr>{head}</tr>{body}</table></div>"


def _table_row(case: CaseData, row: RowData, names: Sequence[str]) -> str:
    note = "; ".join(row["notes"])
    if row["status"] != "ok":
        note = f"{row['status']}: {row['reason']}"
    cells = [
        row["rival"],
        figures.median(row, names[0]),
        figures.spread_percent(row, names[0]),
        *ratio_cells(case, row),
        *(figures.median(row, name) for name in names[1:]),
        note,
    ]
    text = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr class="{kind(row["rival"])}-row {row["status"]}">{text}</tr>'


def _absent(case: CaseData) -> str:
    rows = [row for row in case["rows"] if row["status"] != "ok"]
    if not rows:
        return ""
    items = "".join(f"<li><b>{escape(row['rival'])}</b> {row['status']}: {escape(row['reason'])}</li>" for row in rows)
    return f"<ul class=absent>{items}</ul>"


def _case(case: CaseData, anchor: str) -> str:
    drawn = bars([_bar_of(case, row) for row in _measured(case)], _floor_of(case))
    lines = [
        Line(row["rival"], row["curve"], _curve_kind(row["rival"]))
        for row in case["rows"]
        if "curve" in row and row["rival"].rpartition(" on ")[2] in _CURVES
    ]
    distribution = curves(lines, figures.duration)
    if distribution:
        distribution = f"<details open><summary>latency distribution</summary>{distribution}</details>"
    remark = f"<p class=remark>{escape(case['remark'])}</p>" if case["remark"] else ""
    return (
        f'<section class=case id="{anchor}"><h3>{escape(case["name"])}</h3>'
        f"<p class=unit>{escape(case['unit'])}; {case['rounds']} rounds; "
        f"× {escape(case['baseline'] or 'no baseline')}</p>{remark}"
        f"{drawn}{_absent(case)}{distribution}"
        f"<details><summary>all figures</summary>{_table(case)}</details></section>"
    )


def _overview(doc: Document) -> str:
    """Ratios of all cases: one row per case, one column per rival that is in many cases."""
    count: dict[str, int] = {}
    for case in doc["cases"]:
        for row in case["rows"]:
            if "ratio" in row:
                count[row["rival"]] = count.get(row["rival"], 0) + 1
    rivals = [name for name in count if " on " not in name]
    rivals = sorted(rivals, key=lambda name: -count[name])[:24]
    head = "".join(f"<th>{escape(name)}</th>" for name in rivals)
    body = []
    for number, case in enumerate(doc["cases"]):
        ratios = {row["rival"]: row["ratio"]["median"] for row in case["rows"] if "ratio" in row}
        if not set(ratios) & set(rivals):
            continue
        name = f"{case['suite']}: {case['name']}"
        cells = "".join(_overview_cell(ratios.get(rival)) for rival in rivals)
        body.append(f'<tr><th><a href="#case-{number}">{escape(name)}</a></th>{cells}</tr>')
    return (
        "<h2>At a glance</h2><p>Each figure as a multiple of its case's baseline (uvloop, gevent or open()); "
        "below 1 is cheaper.</p><div class=scroll><table class=overview>"
        f"<tr><th></th>{head}</tr>{''.join(body)}</table></div>"
    )


def _overview_cell(ratio: float | None) -> str:
    if ratio is None:
        return "<td class=none>–</td>"
    grade = "better" if ratio < 0.97 else "worse" if ratio > 1.03 else "same"
    return f"<td class={grade}>{ratio:.2f}</td>"


def _facts(doc: Document) -> str:
    machine = doc["machine"]
    rows = {
        "command": doc["command"],
        "date": str(machine["date"]),
        "machine": f"{machine['cpu']}, {machine['cpus']} CPUs, {figures.size(float(machine['memory_bytes']))}",
        "kernel": str(machine["kernel"]),
        "CPU governor": str(machine["governor"]),
        "load when it ended": str(machine["load_average"]),
        "settings": ", ".join(f"{name} {value}" for name, value in doc["settings"].items()),
        "versions": ", ".join(f"{name} {value}" for name, value in doc["versions"].items()),
    }
    cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows.items())
    return f"<table class=facts>{cells}</table>"


def page(doc: Document) -> str:
    """The whole page as HTML."""
    suites = dict.fromkeys(case["suite"] for case in doc["cases"])
    links = " · ".join(f'<a href="#suite-{name}">{name}</a>' for name in suites)
    parts = []
    for suite in suites:
        parts.append(f'<h2 id="suite-{suite}">{escape(suite)}</h2>')
        for number, case in enumerate(doc["cases"]):
            if case["suite"] == suite:
                parts.append(_case(case, f"case-{number}"))
    warnings = "".join(f"<li>{escape(text)}</li>" for text in doc["warnings"])
    if doc["interrupted"]:
        warnings += "<li>the run was interrupted: what follows was finished until then</li>"
    warned = f"<ul class=warnings>{warnings}</ul>" if warnings else ""
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>oneloop bench</title><style>{''.join(style.read_text() for style in _STYLES)}</style>"
        f"<main><h1>oneloop bench</h1>{_HOW}{warned}<p class=links>{links}</p>"
        f"{_overview(doc)}{''.join(parts)}<h2>Where and how</h2>{_facts(doc)}</main></html>\n"
    )
