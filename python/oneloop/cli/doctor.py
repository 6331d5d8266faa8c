"""`oneloop doctor`: says what this machine offers to oneloop, and what to do about what is missing."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import textwrap
from itertools import groupby
from typing import NoReturn

from oneloop.cli import companions, machine
from oneloop.cli.machine import Finding

__all__ = ["FORMAT", "findings", "main", "parser"]

FORMAT = 1
"""The version of the JSON document."""
_COLORS = {"ok": "32", "advice": "33", "problem": "31"}


def parser() -> argparse.ArgumentParser:
    """Return the parser."""
    made = argparse.ArgumentParser(
        prog="oneloop doctor",
        description="Say what this machine offers to oneloop (kernel, io_uring, limits, TLS, packages beside it), and"
        " what to do about what is missing. Nothing is changed, and nothing is sent.",
        epilog="Exit status: 0; 1 if there is a problem: something of oneloop does not work here. Advice is no problem."
        " All details: oneloop docs reference/command-line",
        allow_abbrev=False,
    )
    made.add_argument("--json", action="store_true", help="print one JSON object")
    return made


def findings() -> list[Finding]:
    """Return everything that is found, in the order in which it is shown."""
    return [*machine.findings(), *companions.findings()]


def main(arguments: list[str]) -> NoReturn:
    """Run `oneloop doctor`.

    Args:
        arguments: the command line after `oneloop doctor`.

    Raises:
        SystemExit: 0; 1 if there is a problem, or stdout cannot be written; 2 if the command line is wrong.
    """
    given = parser().parse_args(arguments)
    found = findings()
    is_well = not any(one.status == "problem" for one in found)
    if given.json:
        rows = [one._asdict() for one in found]
        text = json.dumps({"format": FORMAT, "ok": is_well, "findings": rows}, indent=2) + "\n"
    else:
        has_colors = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
        text = _report(found, min(shutil.get_terminal_size().columns, 120), has_colors=has_colors)
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        print(f"oneloop doctor: {error}", file=sys.stderr)
        # The interpreter would write again at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise SystemExit(1) from None
    raise SystemExit(0 if is_well else 1)


def _report(found: list[Finding], width: int, *, has_colors: bool) -> str:
    lines = []
    widest = max(len(one.name) for one in found)
    for section, rows in groupby(found, key=lambda one: one.section):
        lines.append(f"\n{section}")
        for one in rows:
            mark = f"\x1b[{_COLORS[one.status]}m{one.status:7}\x1b[0m" if has_colors else f"{one.status:7}"
            lines.append(f"  {mark}  {one.name:{widest}}  {one.value}")
            lines += textwrap.wrap(one.advice, width, initial_indent=" " * 11, subsequent_indent=" " * 11)
    counts = {status: sum(1 for one in found if one.status == status) for status in ("problem", "advice")}
    if counts["problem"]:
        lines.append("\nWhat is marked as a problem does not work here.")
    elif counts["advice"]:
        lines.append(f"\nEverything works; {counts['advice']} marked with advice could work better.")
    else:
        lines.append("\nEverything works.")
    return "\n".join(lines).lstrip("\n") + "\n"
