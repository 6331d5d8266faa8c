"""`make record`: measures every suite and writes bench/record/record.json; `make record SUITES=http,tls` some of them.

A suite whose code has not changed since it was recorded is not measured again, unless it is named or `--fresh` is
given. Interrupted with Ctrl-C, the run goes on where it was when the same command is started again.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from bench import machine
from bench.catalogue import missing_reason
from bench.cli import check_names
from bench.model import Settings
from bench.process import ROOT, NativeMissingError, native
from bench.record import plan, source, store
from bench.record.store import Record
from bench.record.suite_run import run_suite


def parser() -> argparse.ArgumentParser:
    """The options, as `--help` shows them."""
    made = argparse.ArgumentParser(prog="python -m bench.record", description=__doc__)
    made.add_argument("--suites", default="", help=f"of: {', '.join(plan.RECORDED)}")
    made.add_argument("--rounds", type=int, default=plan.LEAST_ROUNDS, help=f"at least {plan.LEAST_ROUNDS}")
    made.add_argument("--duration", type=float, default=plan.LEAST_DURATION_S, help="seconds, at least 0.5")
    made.add_argument("--fresh", action="store_true", help="also the suites whose code has not changed")
    made.add_argument("--dirty", action="store_true", help="even with uncommitted changes; the record says so")
    made.add_argument(
        "--trial", action="store_true", help="tiny windows, to try the path to the documents; needs --file"
    )
    made.add_argument("--file", type=Path, default=store.FILE, help="the record, if it is another than the tree's")
    made.add_argument("--plan", action="store_true", help="print what would be measured and how long it takes")
    return made


def settings_from(options: argparse.Namespace) -> Settings:
    """The settings of the run. Raises SystemExit for a window or a number of rounds that is too small."""
    if options.rounds < plan.LEAST_ROUNDS or options.duration < plan.LEAST_DURATION_S:
        raise SystemExit(f"record: at least {plan.LEAST_ROUNDS} rounds of {plan.LEAST_DURATION_S} s")
    chosen = replace(plan.SETTINGS, rounds=options.rounds, duration_s=options.duration)
    server_cpu, generator_cpu = machine.choose_cpus()
    return replace(plan.TRIAL_SETTINGS if options.trial else chosen, server_cpu=server_cpu, generator_cpu=generator_cpu)


def is_current(record: Record, suite: str, settings: Settings) -> bool:
    """Whether a suite was recorded from this code with these settings, and without uncommitted changes."""
    part = record["suites"].get(suite)
    if part is None or part["dirty"] or part["trial"]:
        return False
    same = part["sources"] == source.digests(ROOT, plan.folders(suite))
    return (
        same
        and part["settings"] == asdict(settings)
        and {case["name"] for case in part["cases"]} == {case.name for case in plan.cases(suite)}
    )


def to_measure(options: argparse.Namespace, record: Record, settings: Settings) -> list[str]:
    """The suites that are measured. Raises SystemExit for an unknown name."""
    named = [name for name in options.suites.split(",") if name]
    check_names("suite", named, plan.RECORDED)
    if named or options.fresh:
        return named or list(plan.RECORDED)
    return [suite for suite in plan.RECORDED if not is_current(record, suite, settings)]


def missing() -> list[str]:
    """Rivals that cannot take part."""
    rivals = {
        rival.partition(" on ")[0] for suite in plan.RECORDED for case in plan.cases(suite) for rival in case.rivals
    }
    known = ("asyncio", "uvloop", "rloop", "gevent", "tornado", "twisted", "curio", "trio", "node", "go")
    return [f"{rival}: {reason}" for rival in known if rival in rivals and (reason := missing_reason(rival))]


def show_plan(suites: Sequence[str], record: Record, settings: Settings) -> None:
    """Prints what will be measured and how long it takes."""
    total = 0.0
    for suite in suites:
        part = record["suites"].get(suite)
        took_s = float(part["took_s"]) if part and part["settings"] == asdict(settings) else None
        seconds = plan.estimate_s(suite, settings, took_s)
        total += seconds
        print(f"{suite:<11} {len(plan.cases(suite)):>3} rows  {seconds / 60:5.1f} min")
    print(f"about {total / 60:.0f} minutes in all")


def refusal(options: argparse.Namespace) -> str:
    """The reason why nothing may be measured; empty if there is none."""
    if options.trial and options.file.resolve() == store.FILE:
        return "a trial is no record: give it another --file"
    try:
        changed = source.changed(ROOT)
        native("loadgen")
    except (source.GitError, NativeMissingError) as error:
        return str(error)
    if changed and not (options.dirty or options.trial):
        return "uncommitted changes, which no commit would name (or DIRTY=1):\n  " + "\n  ".join(changed)
    return ""


def main(args: list[str]) -> int:
    """Returns the exit status: 0, 2 if it refuses, 130 if interrupted."""
    options = parser().parse_args(args)
    settings = settings_from(options)
    record = store.load(options.file) or store.empty()
    suites = to_measure(options, record, settings)
    show_plan(suites, record, settings)
    for line in missing():
        print(f"missing: {line}")
    if options.plan:
        return 0
    reason = refusal(options)
    if reason:
        print(f"record: {reason}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for suite in suites:
        print(f"{suite}:", flush=True)
        try:
            part = run_suite(suite, settings, lambda line: print(line, flush=True), options.trial)
        except KeyboardInterrupt:
            print("interrupted: the same command goes on from here", file=sys.stderr)
            return 130
        record["suites"] = {name: part if name == suite else record["suites"][name]
                            for name in plan.RECORDED if name == suite or name in record["suites"]}  # fmt: skip
        store.save(record, options.file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
