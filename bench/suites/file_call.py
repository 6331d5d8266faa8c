"""A case of file calls: the same call again and again, by blocking open(), an executor, the packages and oneloop.

What a call does is in bench.rivals.file_writers and file_calls; this knows how many and with which file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.catalogue import SUBJECT, has_module
from bench.model import Case, RivalMissingError, Sample, Settings
from bench.suites.options import Options
from bench.timed import measure_program, python_module

#: oneloop with the engine that is chosen where io_uring is forbidden.
ON_THREADS = f"{SUBJECT} on threads"
#: Rivals of which a call is a trip to a thread: so many times fewer of them tell what one costs.
SLOW = {"executor": 20, "aiofiles": 20, "aiofile": 20}
ENVIRONMENT = {SUBJECT: {}, ON_THREADS: {"ONELOOP_FILES": "threads"}}


@dataclass(frozen=True)
class FileCall:
    """One row group.

    Args:
        work: its key in the tables of the rivals.
        path: makes the file, or the folder of files, anew where the work changes it.
        rounds: calls; fewer of them for the slow rivals.
        per_round: operations that a call does.
        wanted: how dear oneloop may be.
        cannot: why a rival has no form of it.
    """

    work: str
    name: str
    path: Callable[[], str]
    rounds: int
    wanted: str
    unit: str = "time per call"
    per_round: int = 1
    descriptors: int = 0
    rivals: tuple[str, ...] = ("open", "executor", "aiofiles", "aiofile", SUBJECT)
    cannot: tuple[tuple[str, str], ...] = ()

    def measured(self, rival: str, settings: Settings) -> Sample:
        """One run of one rival's program. Raises RivalMissingError, RivalFailedError."""
        reason = dict(self.cannot).get(rival)
        if reason:
            raise RivalMissingError(reason)
        module = rival.partition(" on ")[0]
        if module in ("aiofiles", "aiofile", "libaio", SUBJECT) and not has_module(module):
            raise RivalMissingError(f"{module} is not installed")
        rounds = max(1, settings.scaled(self.rounds) // SLOW.get(rival, 1))
        args = ["--rival", module, "--work", self.work, "--rounds", str(rounds), "--per-round", str(self.per_round)]
        if self.descriptors:
            args += ["--descriptors", str(self.descriptors)]
        argv = python_module("file_calls_program", *args, self.path())
        return measure_program(argv, settings, env=ENVIRONMENT.get(rival))

    def case(self, suite: str, options: Options) -> Case:
        """The case of the suite."""
        return Case(
            suite=suite, name=self.name, params={}, metric="ns_per_op", unit=self.unit,
            rivals=options.pick_rivals(self.rivals), measure=self.measured,
            remark=f"wanted of oneloop, at most: {self.wanted}" if self.wanted else "", baseline="open",
        )  # fmt: skip
