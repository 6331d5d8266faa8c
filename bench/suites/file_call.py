"""A case of file calls: the same call repeated, with blocking open(), an executor, the packages and oneloop.

The calls are defined in bench.rivals.file_writers and file_calls; this file defines their number and the files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.catalogue import SUBJECT, has_module
from bench.model import Case, RivalMissingError, Sample, Settings
from bench.suites.options import Options
from bench.timed import measure_program, python_module

#: oneloop with the engine that it chooses where io_uring is forbidden.
ON_THREADS = f"{SUBJECT} on threads"
#: Rivals that pass each call to a thread: the number of their calls is divided by this.
SLOW = {"executor": 20, "aiofiles": 20, "aiofile": 20}
#: Rivals that are packages of these names.
PACKAGES = ("aiofiles", "aiofile", "libaio", "turbofile", "asyncfiles")
#: The reasons why rivals do not have a work.
CANNOT = {
    ("stat", "turbofile"): "turbofile has no stat",
    ("stat", "asyncfiles"): "asyncfiles has no stat",
    ("readline", "asyncfiles"): "asyncfiles has no readline",
    ("long-line", "asyncfiles"): "asyncfiles has no readline",
    ("lines-as-they-are", "asyncfiles"): "asyncfiles has no newline",
    ("append-flush", "asyncfiles"): "asyncfiles has no flush",
    ("text-append", "asyncfiles"): "asyncfiles has no buffer",
    ("line-append", "asyncfiles"): "asyncfiles has no buffer",
}
ENVIRONMENT = {SUBJECT: {}, ON_THREADS: {"ONELOOP_FILES": "threads"}}


@dataclass(frozen=True)
class FileCall:
    """One row group.

    Args:
        work: its key in the tables of the rivals.
        path: creates the file or folder; creates it again if the work changes it.
        rounds: number of calls; fewer for the slow rivals.
        per_round: operations per call.
        wanted: the target for oneloop.
        reopens: the calls go on in a file, so it is opened anew, at the size that it had, for each repetition.
        cannot: the reasons why rivals do not have this work.
    """

    work: str
    name: str
    path: Callable[[], str]
    rounds: int
    wanted: str
    unit: str = "time per call"
    per_round: int = 1
    descriptors: int = 0
    reopens: bool = False
    rivals: tuple[str, ...] = ("open", "executor", "aiofiles", "aiofile", "turbofile", "asyncfiles", SUBJECT)
    cannot: tuple[tuple[str, str], ...] = ()

    def measured(self, rival: str, settings: Settings) -> Sample:
        """One run of one rival's program. Raises RivalMissingError, RivalFailedError."""
        reason = dict(self.cannot).get(rival) or CANNOT.get((self.work, rival))
        if reason:
            raise RivalMissingError(reason)
        module = rival.partition(" on ")[0]
        if module in (*PACKAGES, SUBJECT) and not has_module(module):
            raise RivalMissingError(f"{module} is not installed")
        rounds = max(1, settings.scaled(self.rounds) // SLOW.get(rival, 1))
        args = ["--rival", module, "--work", self.work, "--rounds", str(rounds), "--per-round", str(self.per_round)]
        args += ["--seconds", str(settings.duration_s), *(["--reopens"] if self.reopens else [])]
        if self.descriptors:
            args += ["--descriptors", str(self.descriptors)]
        argv = python_module("file_calls_program", *args, self.path())
        return measure_program(argv, settings, env=ENVIRONMENT.get(rival))

    def case(self, suite: str, options: Options) -> Case:
        """The case of the suite."""
        return Case(
            suite=suite, name=self.name, params={}, metric="ns_per_op", unit=self.unit,
            rivals=options.pick_rivals(self.rivals), measure=self.measured,
            remark=f"oneloop's target: at most {self.wanted}" if self.wanted else "", baseline="open",
        )  # fmt: skip
