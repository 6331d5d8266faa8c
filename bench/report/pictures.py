"""The charts of the documents, as SVG: the ratio of every row, the costs of all rivals in some rows, the README's.

Cases in, text out. `bench.report.record` draws them from the run of record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from bench.report import figures, page
from bench.report.charts import WIDTH, Bar, bar_group, tag
from bench.report.document import CaseData, SummaryData
from bench.report.html import kind
from bench.report.page import Line, lines
from bench.runner import AGAIN
from bench.story import STORY, Chapter

_STYLE = Path(__file__).with_name("chart.css")
#: What the files need beside the style of the page's charts: a background, for a reader with another colour scheme.
_MORE_STYLE = """.paper { fill: var(--paper); } svg .heading { font-weight: 600; } svg .end { text-anchor: end; }
.even { stroke: var(--soft); } .span { stroke-width: 3; }
.same { fill: var(--soft); }
.less { fill: var(--uvloop); stroke: var(--uvloop); } .more { fill: var(--ours); stroke: var(--ours); }
"""

#: The rows that the chart of CPU times shows: a few of each kind, including two where oneloop has often not led.
SHOWN = (
    "primitives: call_soon chain",
    "primitives: create_task and await",
    "primitives: call_soon_threadsafe flood",
    "tcp: 1 KiB, 10 connections",
    "tcp: 100 KiB, 10 connections",
    "streams: 1 KiB, 10 connections",
    "pipeline: 16 × 64 B, 10 connections",
    "http: ASGI, requests of a browser, 1 KiB, 10 connections",
    "files: cached files of 4 KiB",
)
_MARGIN = 16


def bars(case: CaseData) -> list[Bar]:
    """A bar for each rival of a case, the cheapest first."""
    metric = case["metric"]
    found = []
    for row in case["rows"]:
        if row["status"] != "ok" or row["rival"].endswith(AGAIN) or metric not in row["summary"]:
            continue
        summary = row["summary"][metric]
        ratio = f" (×{row['ratio']['median']:.2f})" if "ratio" in row else ""
        text = figures.value(metric, summary["median"]) + ratio
        found.append(
            Bar(row["rival"], summary["median"], 0.0, summary["low"], summary["high"], text, kind(row["rival"]))
        )
    return sorted(found, key=lambda bar: bar.value)


def _picture(body: str, height: float, title: str, description: str) -> str:
    """A whole file. It has a background, because the page around it might have another colour scheme."""
    width = WIDTH + 2 * _MARGIN
    total = height + 2 * _MARGIN
    paper = tag("rect", width=float(width), height=float(total), rx=8.0, class_="paper")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {total:.0f}" width="{width}" '
        f'height="{total:.0f}" role="img" aria-labelledby="title description">\n'
        f'<title id="title">{escape(title)}</title>\n<desc id="description">{escape(description)}</desc>\n'
        f"<style>\n{_STYLE.read_text()}{_MORE_STYLE}</style>\n{paper}\n"
        f'<g transform="translate({_MARGIN} {_MARGIN})">\n{body}</g>\n</svg>\n'
    )


def cost_picture(cases: Iterable[CaseData]) -> str:
    """The costs of the rivals in the shown rows, as far as they were measured."""
    by_name = {f"{case['suite']}: {case['name']}": case for case in cases}
    drawn = []
    y = 0.0
    for name in SHOWN:
        drawn_bars = bars(by_name[name]) if name in by_name else []
        if not drawn_bars:
            continue
        floors = [bar.value for bar in drawn_bars if bar.kind == "floor"]
        body, height = bar_group(drawn_bars, floors[0] if floors else None)
        drawn.append(tag("text", escape(name), x=0.0, y=y + 8, class_="heading"))
        drawn.append(f'<g transform="translate(0 {y + 20:.0f})">{body}</g>\n')
        y += height + 34
    title = "CPU time of oneloop and other programs in some rows of the benchmark"
    description = (
        "Horizontal bars, one for each rival; shorter is better. The time is CPU time per message, request or "
        "operation, for files elapsed time. In brackets: multiple of the time of the row's baseline. The dashed line "
        "is the floor. The thin line in a bar is the range of the rounds. An arrow marks a bar that is cut."
    )
    return _picture("".join(drawn), max(0.0, y - 14), title, description)


_LABELS, _PITCH, _TOP = 330, 16, 34
_TICKS = (0.1, 0.2, 0.5, 1.0, 2.0)


def ratio_picture(lines: Iterable[Line]) -> str:
    """The ratio of every row to the best rival, with its range over the rounds, on a logarithmic axis."""
    rows = [(line, line.ratio) for line in lines if line.ratio]
    ends = [end for _, ratio in rows for end in (ratio["low"], ratio["high"]) if end > 0]
    low, high = math.log(min(*ends, _TICKS[0]) * 0.95), math.log(max(*ends, _TICKS[-1]) * 1.1)

    def across(value: float) -> float:
        return _LABELS + (WIDTH - 90 - _LABELS) * (math.log(value) - low) / (high - low)

    bottom = float(_TOP + len(rows) * _PITCH)
    drawn = []
    for value in _TICKS:
        x = across(value)
        drawn.append(tag("line", x1=x, x2=x, y1=float(_TOP - 10), y2=bottom, class_="even" if value == 1 else "grid"))
        drawn.append(tag("text", f"{value:g}", x=x, y=float(_TOP - 18), class_="axis"))
    drawn.append(tag("text", "← oneloop needs less", x=across(0.96), y=4.0, class_="label"))
    drawn.append(tag("text", "more →", x=across(1.04), y=4.0))
    for number, (line, ratio) in enumerate(rows):
        drawn.append(_ratio_row(line, ratio, _TOP + (number + 0.5) * _PITCH, across) + "\n")
    title = "oneloop's figure divided by the best rival's, for every row of the benchmark"
    description = (
        "One line for each row of the table All rows, on a logarithmic axis. A mark left of 1 means that oneloop needs "
        "less CPU time, time or memory than the best rival, a mark right of 1 that it needs more. The mark is the "
        "median of the ratios within the rounds, the bar their range."
    )
    return _picture("".join(drawn), bottom, title, description)


def _ratio_row(line: Line, ratio: SummaryData, y: float, across: Callable[[float], float]) -> str:
    label = f"{line.suite}: {line.row}"
    if len(label) > 52:
        label = label[:51] + "…"
    side = "less" if line.leads else "more"
    parts = [tag("text", escape(label), x=float(_LABELS - 12), y=y, class_="label")]
    if 0 < ratio["low"] < ratio["high"]:
        parts.append(tag("line", x1=across(ratio["low"]), x2=across(ratio["high"]), y1=y, y2=y, class_=f"span {side}"))
    if ratio["median"] > 0:
        parts.append(tag("circle", cx=across(ratio["median"]), cy=y, r=3.5, class_=side))
    parts.append(tag("text", escape(figures.ratio(ratio)), x=float(WIDTH), y=y, class_="end"))
    return "".join(parts)


@dataclass(frozen=True)
class Told:
    """One of the six rows, measured."""

    chapter: Chapter
    ours: str
    theirs: str
    ratio: SummaryData


def told(cases: Iterable[CaseData]) -> list[Told]:
    """The six rows of the README that the cases have."""
    by_name = {f"{case['suite']}: {case['name']}": case for case in cases}
    found = []
    for chapter in STORY:
        case = by_name.get(chapter.name)
        rows = {row["rival"]: row for row in case["rows"] if row["status"] == "ok"} if case else {}
        if case is None or not {chapter.ours, chapter.theirs} <= set(rows):
            continue
        metric = case["metric"]
        ratio = page.ratio(rows[chapter.ours], rows[chapter.theirs], metric)
        if ratio is not None:
            texts = [figures.median(rows[name], metric) for name in (chapter.ours, chapter.theirs)]
            found.append(Told(chapter, texts[0], texts[1], ratio))
    return found


_ROW, _LEFT = 68, 150


def story_picture(rows: Sequence[Told]) -> str:
    """The six rows: what is used today is a bar of full length, oneloop's is as long as its ratio.

    Behind oneloop's bar stands the ratio alone. It is the median of those within the rounds, and so not the quotient of
    the two figures' own medians.
    """
    scale = (WIDTH - _LEFT - 130) / max(1.0, *(row.ratio["median"] for row in rows))
    drawn = []
    for number, row in enumerate(rows):
        y = float(number * _ROW)
        drawn.append(tag("text", escape(row.chapter.title), x=0.0, y=y + 8, class_="heading"))
        drawn.append(_story_bar(row.chapter.label, row.theirs, 1.0, "floor", y + 18, scale))
        drawn.append(_story_bar("oneloop", _times(row), row.ratio["median"], "ours", y + 38, scale) + "\n")
    title = "What oneloop needs for six kinds of work, beside what is mostly used for it today"
    description = (
        "Two bars for each kind of work, shorter is better: CPU time or time for each request, file or message. "
        + (
            ". ".join(f"{row.chapter.title}: {row.chapter.label} {row.theirs}, oneloop {_times(row)}" for row in rows)
            + "."
        )
    )
    return _picture("".join(drawn), len(rows) * _ROW - 12.0, title, description)


def _times(row: Told) -> str:
    return f"× {figures.ratio(row.ratio)}"


def _story_bar(label: str, text: str, ratio: float, color: str, y: float, scale: float) -> str:
    width = ratio * scale
    return (
        tag("text", escape(label), x=float(_LEFT - 8), y=y + 8, class_="label")
        + tag("rect", x=float(_LEFT), y=y, width=width, height=16.0, rx=2.0, class_=f"bar {color}")
        + tag("text", escape(text), x=_LEFT + width + 8, y=y + 8, class_="value")
    )


def pictures(cases: Sequence[CaseData]) -> dict[str, str]:
    """The files by name."""
    every = [line for case in cases for line in lines(case)]
    if not any(line.ratio for line in every):
        return {}
    found = {"benchmarks-ratios.svg": ratio_picture(every), "benchmarks-costs.svg": cost_picture(cases)}
    rows = told(cases)
    return found | ({"six-rows.svg": story_picture(rows)} if rows else {})
