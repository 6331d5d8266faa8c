"""What the run of record measures: the suites, how long each takes, and the code on which its figures depend.

The options are those of `--core`: the sizes and numbers of connections that programs have, and all rivals. `check` is
left out, because every row of the record has a rival that is measured twice.
"""

from __future__ import annotations

from bench.model import Case, Settings
from bench.runner import EACH_BASELINE, count_measurements
from bench.suites import SUITES
from bench.suites.options import Options

#: At least this much, whatever the command line says, unless it is a trial.
LEAST_ROUNDS = 5
LEAST_DURATION_S = 0.5
SETTINGS = Settings(duration_s=LEAST_DURATION_S, warmup_s=0.25, rounds=LEAST_ROUNDS, scale=0.5, again=EACH_BASELINE)
TRIAL_SETTINGS = Settings(duration_s=0.1, warmup_s=0.02, rounds=2, scale=0.01, again=EACH_BASELINE)
OPTIONS = Options(core=True)

#: Seconds that one measurement of one rival takes with SETTINGS on two CPUs, for the estimate. A suite that has been
#: recorded is estimated by the time that it took.
SECONDS = {
    "tcp": 0.95, "unix": 0.95, "udp": 0.95, "tls": 1.2, "streams": 0.95, "sock": 0.95, "pipeline": 1.0, "accept": 1.05,
    "answers": 1.2, "primitives": 1.15, "http": 1.15, "http2": 2.0, "files": 1.0, "reading": 1.0, "writing": 0.8,
    "green": 1.0, "idle": 2.3, "scale": 0.5, "urls": 2.2, "client": 1.15,
}  # fmt: skip

_LOOP_FILES = (
    "addresses", "connecting", "copy_protocol", "debug", "endpoints", "executors", "factories", "internals",
    "interrupts", "loop", "names", "policy", "registry", "runner", "sendfile", "serving", "signals", "sockets",
    "statistics", "stock_streams", "stream_servers", "subprocess", "tls", "transports", "unix", "waiting",
)  # fmt: skip
#: The loop itself, how it is built, and how long a window is: every suite depends on it.
_LOOP = (
    "Cargo.lock",
    "Cargo.toml",
    "bench/measure.py",
    "bench/timed.py",
    "bench/rivals/loops.py",
    "crates/engine/src/*.rs",
    "crates/engine/src/sys",
    "crates/engine/src/timers",
    "crates/native/src/*.rs",
    "crates/native/src/event_loop",
    "crates/native/src/ffi",
    *(f"python/oneloop/{name}.py" for name in _LOOP_FILES),
)
#: Servers, with the programs that measure them.
_SERVED = (
    "crates/native/src/transport",
    "bench/native/src",
    "bench/served.py",
    "bench/suites/echo.py",
    "bench/rivals/*server*",
    "bench/rivals/endpoint.py",
    "bench/rivals/styles.py",
)
#: How programs that measure themselves repeat their work.
_REPEATED = ("bench/rivals/repeating.py", "bench/rivals/stopwatch.py")
_FILES = (
    *_REPEATED,
    "crates/engine/src/files",
    "crates/native/src/file",
    "python/oneloop/files",
    "bench/rivals/file*",
    "bench/suites/fio.py",
    "bench/suites/file_call.py",
)
_GREEN = ("crates/native/src/green", "crates/native/src/sockets", "python/oneloop/green")
_HTTP = (
    "crates/http1/src",
    "crates/websocket/src",
    "crates/native/src/http",
    "crates/native/src/httptools",
    "python/oneloop/http/*.py",
    "python/oneloop/cli/serve.py",
    "bench/http_servers.py",
    "bench/rivals/*http*",
    "bench/rivals/*app.py",
    "bench/rivals/cpu_work.py",
    "bench/rivals/uvicorn_workers.py",
)
_CLIENT = (
    "crates/http1/src",
    "crates/native/src/client",
    "crates/native/src/transport",
    "crates/native/src/tls",
    "python/oneloop/http/client",
)
_MEASURED: dict[str, tuple[str, ...]] = {
    "tcp": _SERVED,
    "unix": _SERVED,
    "udp": _SERVED,
    "tls": (*_SERVED, "crates/native/src/tls"),
    "streams": _SERVED,
    "sock": (*_SERVED, "crates/native/src/sockets"),
    "pipeline": _SERVED,
    "accept": _SERVED,
    "answers": (*_SERVED, "bench/rivals/*answer.py"),
    "primitives": ("bench/rivals/*primitives*", "bench/rivals/stopwatch.py"),
    "http": (*_SERVED, *_HTTP, *_GREEN, *_FILES),
    "http2": (*_SERVED, *_HTTP, "crates/http2/src", "crates/native/src/tls", "bench/h2load.py"),
    "files": _FILES,
    "reading": _FILES,
    "writing": _FILES,
    "green": (*_SERVED, *_GREEN, *_REPEATED, "bench/rivals/green_primitives.py"),
    "idle": _SERVED,
    "scale": (
        *_REPEATED,
        "bench/rivals/*spawn*",
        "bench/native/src/floor/names.rs",
        "bench/native/src/floor/spawn.rs",
    ),
    "client": (
        *_CLIENT,
        "python/oneloop/cli/run.py",
        "python/oneloop/compat/httpcore*/*.py",
        "python/oneloop/running",
        "bench/client_runs.py",
        "bench/native/src/floor",
        "bench/rivals/client_*",
        "bench/rivals/go_client.go",
    ),
    "urls": (*_CLIENT, "python/oneloop/check", "python/oneloop/cli/check.py", "bench/rivals/url*"),
}
RECORDED = tuple(name for name in SUITES if name in _MEASURED)


def folders(suite: str) -> tuple[str, ...]:
    """The folders and patterns of files on which the suite's figures depend, relative to the root of the repository.

    Of bench, these are the suite and the programs of the rivals; how results are run and shown does not count.
    """
    return (*_LOOP, *_MEASURED[suite], f"bench/suites/{suite}*.py")


def cases(suite: str) -> list[Case]:
    """The cases of a suite in the record."""
    return [case for case in SUITES[suite](OPTIONS) if case.rivals]


def estimate_s(suite: str, settings: Settings, took_s: float | None = None) -> float:
    """How long a suite will take: as long as last time, or computed from the number of measurements."""
    if took_s is not None:
        return took_s
    return count_measurements(cases(suite), settings) * SECONDS[suite]
