"""urls: the cost of checking a list of URLs: `oneloop check`, bare aiohttp on three loops, other programs.

Both sides: request each URL of a list, read the whole body and count the status. `check` and bare aiohttp are
measured inside the program, after their imports; the commands as whole processes with their start.
Kept: the counts, and connections to each host.
Thrown away: bodies.
Window: the list, from the first to the last URL; the server runs on the generator's CPU.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from bench.catalogue import SUBJECT, has_module, missing_reason
from bench.model import Case, RivalFailedError, RivalMissingError, Sample, Settings
from bench.process import NATIVE, START_PATIENCE_S, Program
from bench.suites.options import Options
from bench.timed import measure_program, python_module

OURS = f"check on {SUBJECT}"
BASELINE = "aiohttp on uvloop"
COMMAND = "oneloop check"
LIBRARIES = (OURS, f"aiohttp on {SUBJECT}", BASELINE, "aiohttp on asyncio")
CHECKERS = ("muffet", "lychee", "linkchecker")
SLOW = {"linkchecker": 20}
"""The number of URLs for these slow programs is divided by this."""
PATIENCE_S = 3600.0
#: From here on a run has all URLs.
WHOLE_SCALE = 0.5


def find_checker(name: str) -> str | None:
    """The path of a command: where bench.install put it, or on PATH."""
    beside = Path(sys.executable).with_name(name)
    for path in (NATIVE / name, beside):
        if path.exists():
            return str(path)
    return shutil.which(name)


def _program(rival: str) -> list[str]:
    """The options that name the program. Raises RivalMissingError."""
    if rival == COMMAND:
        program, loop = "command", SUBJECT
    elif rival in CHECKERS:
        path = find_checker(rival)
        if path is None:
            raise RivalMissingError(f"{rival} is not installed: run python -m bench.install, which prints the reason")
        return ["--program", rival, "--path", path]
    else:
        program, _, loop = rival.partition(" on ")
    reason = missing_reason(loop)
    if not reason and program == "aiohttp" and not has_module("aiohttp"):
        reason = "aiohttp is not installed"
    if not reason and program != "aiohttp" and not has_module("oneloop.check"):
        reason = "oneloop.check is not installed"
    if reason:
        raise RivalMissingError(reason)
    return ["--program", program, "--loop", loop]


def measured(
    rival: str, settings: Settings, hosts: int, count: int, concurrency: int, latency_s: float = 0.0
) -> Sample:
    """One run of one program against a fresh server. Raises RivalMissingError, RivalFailedError."""
    options = _program(rival)
    count = max(concurrency, count // SLOW.get(rival, 1))
    with Program(
        python_module("url_server", "--hosts", str(hosts), "--latency", str(latency_s)), settings.generator_cpu
    ) as server:
        word, _, port = server.read_line(START_PATIENCE_S).partition(" ")
        if word != "ready":
            raise RivalFailedError(f"printed {word!r} instead of `ready`")
        options += ["--port", port, "--hosts", str(hosts), "--count", str(count), "--concurrency", str(concurrency)]
        return measure_program(python_module("url_checkers", *options), settings, PATIENCE_S)


def _case(
    options: Options,
    name: str,
    hosts: int,
    count: int,
    concurrency: int,
    rivals: tuple[str, ...],
    *,
    latency_s: float = 0.0,
    metric: str = "cpu_ns_per_op",
    unit: str = "CPU per URL",
    remark: str = "",
) -> Case:
    def measure(rival: str, settings: Settings) -> Sample:
        # A row is named after its number of URLs, and the start of a command is spread over them. A trial has fewer.
        number = count if settings.scale >= WHOLE_SCALE else settings.scaled(count)
        return measured(rival, settings, hosts, number, concurrency, latency_s)

    return Case(
        suite="urls",
        name=name,
        params={"hosts": hosts, "urls": count, "concurrency": concurrency},
        metric=metric,
        unit=unit,
        rivals=options.pick_rivals(rivals),
        measure=measure,
        remark=remark,
        baseline=BASELINE,
        beside=(f"aiohttp on {SUBJECT}",),
    )


def cases(options: Options) -> list[Case]:
    everyone = (*LIBRARIES, COMMAND, *CHECKERS)
    found = [
        _case(
            options, "10,000 URLs, 10 hosts", 10, 10_000, 100, everyone,
            remark="keep-alive, 100 at a time; commands include their start; linkchecker: a twentieth of the URLs",
        ),
        _case(
            options, "10,000 URLs, 1,000 hosts", 1000, 10_000, 100, (*LIBRARIES, COMMAND, "lychee"),
            remark="ten URLs per host, loopback addresses",
        ),
        _case(
            options, "10,000 URLs, 100 ms of latency", 10, 10_000, 1000, (*LIBRARIES, COMMAND, "muffet", "lychee"),
            latency_s=0.1, metric="wall_ns", unit="time in all",
            remark="1000 at a time: the ideal is 1.00 s",
        ),
    ]  # fmt: skip
    if options.long:
        found.append(
            _case(
                options,
                "1,000,000 URLs, 100 hosts",
                100,
                1_000_000,
                100,
                (COMMAND, OURS),
                metric="rss_bytes",
                unit="most memory (RSS)",
            )
        )
    return found
