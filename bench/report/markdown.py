"""The results of a run as Markdown: `python -m bench.report.markdown RUN.json` prints them.

All rivals of every case are listed in the order of their cost, including those that failed or were missing.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench.report import figures
from bench.report.columns import HEADINGS, columns, ratio_cells, ratio_heads
from bench.report.document import CaseData, Document, RowData, load

#: The most important metrics; the page of --html has all of them.
SHOWN = ("server_user_ns", "server_system_ns", "ns_per_op", "wall_ns", "throughput", "p50_ns", "p99_ns")
MEMORY = ("rss_bytes", "vss_bytes", "threads", "switches", "cpu_share", "lag_p99_ns", "lag_max_ns")


def _cost(case: CaseData, row: RowData) -> float:
    found = row["summary"].get(case["metric"])
    return found["median"] if found and row["status"] == "ok" else float("inf")


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def case_lines(case: CaseData) -> list[str]:
    """The table of a case, with a heading and its remark."""
    names = [name for name in columns(case)[1:] if name in SHOWN + MEMORY]
    heads = ["rival", HEADINGS.get(case["metric"], case["metric"]), *ratio_heads(case)]
    heads += [HEADINGS.get(name, name) for name in names]
    lines = ["", f"**{case['suite']}: {case['name']}** ({case['rounds']} rounds)", ""]
    lines += [_line(heads), _line(["---", *["---:"] * (len(heads) - 1)])]
    for row in sorted(case["rows"], key=lambda row: _cost(case, row)):
        if row["status"] != "ok":
            lines.append(_line([row["rival"], f"{row['status']}: {row['reason']}", *[""] * (len(heads) - 2)]))
            continue
        note = " †" if any("generator" in text for text in row["notes"]) else ""
        name = f"**{row['rival']}**" if "oneloop" in row["rival"] else row["rival"]
        figure = figures.median(row, case["metric"]) + note
        lines.append(_line([name, figure, *ratio_cells(case, row), *(figures.median(row, metric) for metric in names)]))
    if case["remark"]:
        lines += ["", f"*{case['remark']}*"]
    return lines


def results(doc: Document) -> str:
    """The results section."""
    machine = doc["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in doc["versions"].items())
    lines = [
        f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['kernel']}, CPU governor {machine['governor']};",
        f"{machine['date']}, load {machine['load_average']} at the end.",
        f"{versions}.",
        f"Command: `{doc['command']}`.",
        "",
        "† the generator was the bottleneck: the CPU time stands, the throughput could have been higher.",
    ]
    lines += [f"\n**Warning: {warning}.**" for warning in doc["warnings"]]
    for case in doc["cases"]:
        lines += case_lines(case)
    return "\n".join(lines) + "\n"


def main(args: list[str]) -> int:
    """Args: the document of a run."""
    if len(args) != 1:
        print("usage: python -m bench.report.markdown RUN.json", file=sys.stderr)
        return 2
    print(results(load(Path(args[0]))), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
