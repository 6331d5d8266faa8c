"""The charts of the documents, as SVG files: `python -m bench.report.pictures [FOLDER]` draws them again.

The figures are those of the tables in docs/benchmarks.md and docs/benchmarks-raw.md; nothing is measured. A test
compares the files with the tables.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from bench.report.charts import WIDTH, Bar, bar_group, tag
from bench.report.html import kind

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/pictures"
_STYLE = Path(__file__).with_name("chart.css")
#: What the files need beside the style of the page's charts: a background, for a reader with another colour scheme.
_MORE_STYLE = """.paper { fill: var(--paper); } svg .heading { font-weight: 600; } svg .end { text-anchor: end; }
.even { stroke: var(--soft); } .span { stroke-width: 3; }
.same { fill: var(--soft); }
.less { fill: var(--uvloop); stroke: var(--uvloop); } .more { fill: var(--ours); stroke: var(--ours); }
"""

#: The rows of run A that the chart of CPU times shows: a few of each kind, including two where oneloop does not lead.
SHOWN = (
    "primitives: call_soon chain",
    "primitives: create_task and await",
    "primitives: call_soon_threadsafe flood",
    "tcp: 1 KiB, 10 connections",
    "tcp: 100 KiB, 10 connections",
    "streams: 1 KiB, 10 connections",
    "pipeline: 16 × 64 B, 10 connections",
    "accept: 64 B, 10 at a time, the client closes",
    "files: cached files of 4 KiB",
)
_NS = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}
_MARGIN = 16


@dataclass(frozen=True)
class Ratio:
    """One row of the summary: oneloop's figure divided by the best rival's; the low and high end of each ratio."""

    suite: str
    row: str
    text: str
    spans: list[tuple[float, float]]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def ratios(page: str) -> list[Ratio]:
    """The rows of docs/benchmarks.md that have a ratio."""
    table = page.partition("## All rows")[2].partition("\n## ")[0]
    found = []
    for line in table.splitlines():
        cells = _cells(line)
        if len(cells) != 7 or cells[0] in ("suite", "---"):
            continue
        spans = [tuple(float(end) for end in part.split("–")) for part in cells[4].split(";") if part.strip("– ")]
        if spans:
            ends = [(span[0], span[-1]) for span in spans]
            found.append(Ratio(cells[0], cells[1].replace("`", ""), cells[4], ends))
    return found


def cases(page: str) -> dict[str, list[Bar]]:
    """The shown rows of run A in docs/benchmarks-raw.md: a bar for each rival."""
    run = page.partition("## Run A")[2].partition("\n## ")[0]
    found: dict[str, list[Bar]] = {}
    for block in run.split("\n\n**")[1:]:
        name = block.partition("**")[0]
        if name in SHOWN:
            found[name] = [_bar(_cells(line)) for line in block.splitlines() if line.startswith("| ")][2:]
    missing = set(SHOWN) - set(found)
    if missing:
        raise ValueError(f"run A has no rows {sorted(missing)}")
    return {name: [bar for bar in found[name] if not bar.label.endswith("-again")] for name in SHOWN}


def _bar(cells: list[str]) -> Bar:
    name = cells[0].strip("*")
    figure = re.fullmatch(r"([\d.]+) (ns|µs|ms|s)(?: †)?", cells[1])
    value = float(figure[1]) * _NS[figure[2]] if figure else 0.0
    ratio = cells[2].partition(" ")[0]
    text = f"{cells[1].removesuffix(' †')} (×{ratio})" if ratio else cells[1]
    return Bar(name, value, 0.0, value, value, text, kind(name))


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


def cost_picture(page: str) -> str:
    """CPU times of the rivals in a few rows of run A. Takes the text of docs/benchmarks-raw.md."""
    drawn = []
    y = 0.0
    for name, bars in cases(page).items():
        floors = [bar.value for bar in bars if bar.label == "floor"]
        body, height = bar_group(bars, floors[0] if floors else None)
        drawn.append(tag("text", escape(name), x=0.0, y=y + 8, class_="heading"))
        drawn.append(f'<g transform="translate(0 {y + 20:.0f})">{body}</g>\n')
        y += height + 34
    title = "CPU time of oneloop and other event loops in nine rows of run A"
    description = (
        "Horizontal bars, one for each rival; shorter is better. The time is CPU time per message or operation, for "
        "files elapsed time. In brackets: multiple of uvloop's or open()'s time. The dashed line is the floor. An "
        "arrow marks a bar that is cut."
    )
    return _picture("".join(drawn), y - 14, title, description)


_LABELS, _PITCH, _TOP = 330, 16, 34
_TICKS = (0.1, 0.2, 0.5, 1.0, 2.0)


def ratio_picture(page: str) -> str:
    """The ratio of every row, on a logarithmic axis. Takes the text of docs/benchmarks.md."""
    rows = ratios(page)
    every = [end for row in rows for span in row.spans for end in span]
    low, high = math.log(min(*every, _TICKS[0]) * 0.95), math.log(max(*every, _TICKS[-1]) * 1.1)

    def across(value: float) -> float:
        return _LABELS + (WIDTH - 50 - _LABELS) * (math.log(value) - low) / (high - low)

    bottom = float(_TOP + len(rows) * _PITCH)
    drawn = []
    for value in _TICKS:
        x = across(value)
        drawn.append(tag("line", x1=x, x2=x, y1=float(_TOP - 10), y2=bottom, class_="even" if value == 1 else "grid"))
        drawn.append(tag("text", f"{value:g}", x=x, y=float(_TOP - 18), class_="axis"))
    drawn.append(tag("text", "← oneloop needs less", x=across(0.96), y=4.0, class_="label"))
    drawn.append(tag("text", "more →", x=across(1.04), y=4.0))
    for number, row in enumerate(rows):
        drawn.append(_ratio_row(row, _TOP + (number + 0.5) * _PITCH, across) + "\n")
    title = "oneloop's figure divided by the best rival's, for every row of the benchmark"
    description = (
        "One line for each row of the table All rows, on a logarithmic axis. A mark left of 1 means that oneloop needs "
        "less CPU time, time or memory than the best rival, a mark right of 1 that it needs more. A bar is a range. "
        "Where there are two marks, they are the two ratios of the table."
    )
    return _picture("".join(drawn), bottom, title, description)


def _ratio_row(row: Ratio, y: float, across: Callable[[float], float]) -> str:
    label = f"{row.suite}: {row.row}"
    if len(label) > 52:
        label = label[:51] + "…"
    parts = [tag("text", escape(label), x=float(_LABELS - 12), y=y, class_="label")]
    for low, high in row.spans:
        middle = (low + high) / 2
        side = "more" if middle > 1 else "less" if middle < 1 else "same"
        if low != high:
            parts.append(tag("line", x1=across(low), x2=across(high), y1=y, y2=y, class_=f"span {side}"))
        parts.append(tag("circle", cx=across(math.sqrt(low * high)), cy=y, r=3.5, class_=side))
    parts.append(tag("text", escape(row.text), x=float(WIDTH), y=y, class_="end"))
    return "".join(parts)


def pictures() -> dict[str, str]:
    """The files by name."""
    summary = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    raw = (ROOT / "docs/benchmarks-raw.md").read_text(encoding="utf-8")
    return {"benchmarks-ratios.svg": ratio_picture(summary), "benchmarks-costs.svg": cost_picture(raw)}


def main(args: list[str]) -> int:
    """Args: the folder of the files, if it is another than docs/pictures."""
    folder = Path(args[0]) if args else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pictures().items():
        (folder / name).write_text(text, encoding="utf-8")
        print(folder / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
