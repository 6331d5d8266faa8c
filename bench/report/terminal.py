"""Tables and a progress bar for the terminal, through rich."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.report import figures
from bench.report.columns import HEADINGS, columns, ratio_cells, ratio_heads
from bench.report.document import CaseData, Document, RowData

#: Widths: of a column of figures with its frame; of rival, main figure, spread, ratio and notes together.
COLUMN_WIDTH = 11
RESERVED_WIDTH = 76


def _notes(row: RowData) -> Text:
    if row["status"] != "ok":
        style = "red" if row["status"] == "failed" else "dim"
        return Text(f"{row['status']}: {row['reason']}", style=style)
    return Text("; ".join(row["notes"]), style="yellow")


def _main_table(case: CaseData, names: list[str]) -> Table:
    title = f"{case['suite']}: {case['name']} ({case['rounds']} rounds)"
    table = Table(title=title, title_justify="left", caption=case["remark"] or None)
    table.add_column("rival", no_wrap=True)
    table.add_column(HEADINGS.get(case["metric"], case["metric"]), justify="right", no_wrap=True)
    table.add_column("spread", justify="right", no_wrap=True)
    for head in ratio_heads(case):
        table.add_column(head, justify="right", no_wrap=True)
    for name in names:
        table.add_column(HEADINGS.get(name, name), justify="right", no_wrap=True)
    table.add_column("notes", overflow="fold")
    for row in case["rows"]:
        table.add_row(
            row["rival"],
            figures.median(row, case["metric"]),
            figures.spread_percent(row, case["metric"]),
            *ratio_cells(case, row),
            *(figures.median(row, name) for name in names),
            _notes(row),
            style=_style(row),
        )
    return table


def _rest_table(case: CaseData, names: list[str]) -> Table:
    table = Table()
    table.add_column("rival", no_wrap=True)
    for name in names:
        table.add_column(HEADINGS.get(name, name), justify="right", no_wrap=True)
    for row in case["rows"]:
        if row["status"] == "ok":
            table.add_row(row["rival"], *(figures.median(row, name) for name in names), style=_style(row))
    return table


def _style(row: RowData) -> str:
    return "bold" if "oneloop" in row["rival"] else ""


def case_tables(case: CaseData, width: int) -> list[Table]:
    """One case: a row for each rival, medians, the ratio to the baseline with its spread.

    Columns that do not fit into the width are shown in a second table; none is omitted.
    """
    names = columns(case)[1:]
    room = max(0, (width - RESERVED_WIDTH) // COLUMN_WIDTH - len(case.get("beside", [])))
    tables = [_main_table(case, names[:room])]
    if names[room:]:
        tables.append(_rest_table(case, names[room:]))
    return tables


def show_case(console: Console, case: CaseData) -> None:
    """Prints one finished case."""
    for table in case_tables(case, console.width):
        console.print(table)


def show_footer(console: Console, doc: Document) -> None:
    """Prints the conditions of the run."""
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
