"""The command line: parses options, checks names, runs the suites and passes the document to the reports."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bench import machine
from bench.catalogue import missing_reason
from bench.model import Case, Result, Row, Settings
from bench.process import NativeMissingError, native
from bench.report import document as documents
from bench.report import terminal
from bench.report.document import Document
from bench.runner import EACH_BASELINE, count_measurements, run_cases
from bench.suites import SUITES
from bench.suites.options import ALIASES, ALL_RIVALS, SERVER_RIVALS, Options

QUICK = {"duration_s": 0.2, "warmup_s": 0.05, "rounds": 2, "scale": 0.05}


def _numbers(text: str) -> tuple[int, ...]:
    """1024,10k -> (1024, 10240)."""
    found = []
    for part in text.lower().split(","):
        factor = {"k": 1024, "m": 1 << 20}.get(part[-1:], 1)
        digits = part[:-1] if factor > 1 else part
        if not digits.isdigit() or int(digits) == 0:
            raise argparse.ArgumentTypeError(f"{part!r} is not a number such as 1024 or 10k")
        found.append(int(digits) * factor)
    return tuple(found)


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def parser() -> argparse.ArgumentParser:
    """The options, as `--help` shows them."""
    made = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    made.add_argument("--suite", type=_names, default=(), help=f"of: {', '.join(SUITES)}")
    made.add_argument("--only", type=_names, default=(), help="rivals, separated by commas")
    made.add_argument("--sizes", type=_numbers, default=(), help="bytes, such as 1k,10k,100k")
    made.add_argument("--connections", type=_numbers, default=(), help="such as 1,10,100")
    made.add_argument("--duration", type=float, help="length of each measured window in seconds (1)")
    made.add_argument("--rounds", type=int, help="measurements per rival (5)")
    made.add_argument(
        "--again",
        metavar="RIVAL",
        default="",
        help="measure this rival twice: the noise of each row; `baseline`: that of each row's ratios",
    )
    made.add_argument("--rate", type=float, help="fixed rate in messages per second (open loop)")
    made.add_argument("--quick", action="store_true", help="a run of one minute, for a first look")
    made.add_argument("--core", action="store_true", help="only the most important rows: more than an hour")
    made.add_argument("--long", action="store_true", help="also cases that take many minutes: a million URLs")
    made.add_argument("--json", type=Path, metavar="FILE", help="save the whole run")
    made.add_argument("--html", type=Path, metavar="FILE", help="save a page with charts")
    made.add_argument("--compare", type=Path, metavar="FILE", help="an older --json to compare with")
    made.add_argument("--demo", action="store_true", help="the six rows of the README; see bench.demo")
    made.add_argument("--list", action="store_true", help="list the suites, cases and rivals, and exit")
    return made


def check_names(kind: str, asked: Sequence[str], known: Sequence[str]) -> None:
    """Check the names. Raises SystemExit with the list of known names."""
    unknown = [name for name in asked if name not in known]
    if unknown:
        names = ", ".join(unknown)
        raise SystemExit(f"bench: unknown {kind}: {names}\nknown: {', '.join(known)}")


def settings_from(options: argparse.Namespace) -> Settings:
    """The settings from the options. Raises SystemExit for invalid values."""
    chosen: dict[str, float] = dict(QUICK) if options.quick else {}
    if options.duration is not None:
        chosen["duration_s"] = options.duration
    if options.rounds is not None:
        chosen["rounds"] = options.rounds
    if chosen.get("duration_s", 1) <= 0 or chosen.get("rounds", 1) < 1:
        raise SystemExit("bench: --duration and --rounds must be positive")
    if options.rate is not None and options.rate <= 0:
        raise SystemExit("bench: --rate must be positive")
    duration_s = chosen.get("duration_s", Settings.duration_s)
    server_cpu, generator_cpu = machine.choose_cpus()
    return Settings(
        duration_s=duration_s,
        warmup_s=min(chosen.get("warmup_s", Settings.warmup_s), duration_s / 2),
        rounds=int(chosen.get("rounds", Settings.rounds)),
        scale=chosen.get("scale", Settings.scale),
        rate=options.rate,
        again=options.again,
        server_cpu=server_cpu,
        generator_cpu=generator_cpu,
    )


def choose_cases(options: argparse.Namespace) -> list[Case]:
    """The cases of the selected suites. Raises SystemExit for unknown names."""
    check_names("suite", options.suite, list(SUITES))
    check_names("rival", options.only, ALL_RIVALS)
    check_names("rival", [options.again] if options.again else [], [*ALL_RIVALS, EACH_BASELINE])
    narrowed = Options(options.sizes, options.connections, options.only, options.quick, options.core, options.long)
    suites = options.suite or tuple(SUITES)
    cases = [case for name in suites for case in SUITES[name](narrowed)]
    return [case for case in cases if case.rivals]


def failed_checks(results: Sequence[Result]) -> list[str]:
    """A/A cases whose range of ratios does not include 1.00."""
    found = []
    for result in results:
        for row in documents.case_data(result)["rows"]:
            ratio = row.get("ratio")
            if row["rival"] in ALIASES and ratio is not None and not ratio["low"] <= 1.0 <= ratio["high"]:
                text = f"{result.case.suite}: {result.case.name}: {ratio['low']:.3f} to {ratio['high']:.3f}"
                found.append(f"the machine is not quiet: two runs of the same program differ: {text}")
    return found


def warnings_for(settings: Settings, cases: Sequence[Case], results: Sequence[Result]) -> list[str]:
    """Warnings about the reliability of the figures."""
    found = failed_checks(results)
    if settings.server_cpu is None:
        found.append("only one CPU: server and generator share it, so their costs cannot be separated")
    named = {rival for case in cases for rival in case.rivals if rival in SERVER_RIVALS}
    for rival in SERVER_RIVALS:
        reason = missing_reason(rival) if rival in named else ""
        if reason:
            found.append(f"{rival} is missing: {reason}")
    return found


def check_files(options: argparse.Namespace) -> None:
    """Checks before the run that files can be read and written. Raises SystemExit."""
    try:
        if options.compare:
            documents.load(options.compare)
    except (OSError, ValueError) as error:
        raise SystemExit(f"bench: --compare: {error}") from error
    for file in (options.json, options.html):
        if file is not None and not file.parent.is_dir():
            raise SystemExit(f"bench: cannot write {file.name}: the folder {file.parent} does not exist")


class _Watcher:
    """Updates the progress bar and prints every finished case."""

    def __init__(self, console: Console, total: int) -> None:
        self.console = console
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.progress.add_task("starting", total=total)

    def measured(self, case: Case, number: int, rival: str, row: Row) -> None:
        text = f"{case.suite}: {case.name}"
        room = max(16, self.console.width - 64)
        text = f"{text if len(text) <= room else text[: room - 1] + '…'} #{number + 1} {rival}"
        self.progress.update(self.task, advance=1, description=text)

    def finished(self, result: Result) -> None:
        terminal.show_case(self.console, documents.case_data(result))


def write_reports(options: argparse.Namespace, doc: Document, console: Console) -> int:
    """Saves and compares according to the options; returns the exit status."""
    from bench.report import compare, html

    if options.json:
        documents.save(doc, options.json)
        console.print(f"saved {options.json}", highlight=False)
    if options.html:
        options.html.write_text(html.page(doc))
        console.print(f"saved {options.html}", highlight=False)
    if options.compare:
        return compare.show(console, documents.load(options.compare), doc)
    return 0


def main(args: list[str]) -> int:
    """Runs the benchmarks. Returns the exit status: 0, 1 for a regression, 130 if interrupted."""
    options = parser().parse_args(args)
    console = Console()
    if not console.is_terminal:
        console = Console(width=220)
    if options.demo:
        from bench.demo import main as demo

        return demo(console, machine.command(args), options.html)
    cases = choose_cases(options)
    settings = settings_from(options)
    if options.list:
        for case in cases:
            console.print(f"{case.suite}: {case.name}: {', '.join(case.rivals)}", highlight=False)
        return 0
    check_files(options)
    try:
        native("loadgen")
    except NativeMissingError as missing:
        print(f"bench: {missing}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    watcher = _Watcher(console, count_measurements(cases, settings))
    with watcher.progress:
        results, interrupted = run_cases(cases, settings, watcher.measured, watcher.finished)
    doc = documents.document(
        results,
        settings,
        machine.command(args),
        machine.describe(),
        machine.versions(),
        warnings_for(settings, cases, results),
        interrupted,
    )
    terminal.show_footer(console, doc)
    status = write_reports(options, doc, console)
    return 130 if interrupted else status
