"""Tables and a progress bar for the terminal, through rich."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.report import figures
from bench.report.columns import HEADINGS, columns
from bench.report.document import CaseData, Document, RowData


def _notes(row: RowData) -> Text:
    if row["status"] != "ok":
        style = "red" if row["status"] == "failed" else "dim"
        return Text(f"{row['status']}: {row['reason']}", style=style)
    return Text("; ".join(row["notes"]), style="yellow")


def case_table(case: CaseData) -> Table:
    """One case: a row for each rival, the figures' medians, the ratio to the baseline with its spread."""
    names = columns(case)
    title = f"{case['suite']}: {case['name']} ({case['rounds']} rounds)"
    table = Table(title=title, title_justify="left", caption=case["remark"] or None)
    table.add_column("rival", no_wrap=True)
    table.add_column(HEADINGS.get(names[0], names[0]), justify="right", no_wrap=True)
    table.add_column("spread", justify="right", no_wrap=True)
    table.add_column(f"× {case['baseline'] or 'baseline'}", justify="right", no_wrap=True)
    for name in names[1:]:
        table.add_column(HEADINGS.get(name, name), justify="right", no_wrap=True)
    table.add_column("notes", overflow="fold")
    for row in case["rows"]:
        style = "bold" if row["rival"].startswith("oneloop") else ""
        table.add_row(
            row["rival"],
            figures.median(row, names[0]),
            figures.spread_percent(row, names[0]),
            figures.ratio(row["ratio"]) if "ratio" in row else "–",
            *(figures.median(row, name) for name in names[1:]),
            _notes(row),
            style=style,
        )
    return table


def show_case(console: Console, case: CaseData) -> None:
    """Prints one finished case."""
    console.print(case_table(case))


def show_footer(console: Console, doc: Document) -> None:
    """Prints what every figure carries."""
    machine = doc["machine"]
    console.print(
        f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['kernel']}, "
        f"governor {machine['governor']}, {machine['date']}, load {machine['load_average']}",
        highlight=False,
    )
    shown = ", ".join(f"{name} {version}" for name, version in doc["versions"].items())
    console.print(shown, highlight=False, style="dim")
    for warning in doc["warnings"]:
        console.print(f"warning: {warning}", style="yellow", highlight=False)
    console.print(f"command: {doc['command']}", highlight=False)
