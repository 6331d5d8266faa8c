"""The conditions of a run: machine, kernel, governor, versions, date, command."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import ssl
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from bench.rivals.endpoint import find_nginx

PACKAGES = (
    "oneloop",
    "uvloop",
    "rloop",
    "blazio",
    "zloop",
    "zuvloop",
    "gevent",
    "greenlet",
    "tornado",
    "twisted",
    "curio",
    "trio",
    "aiohttp",
    "httpx",
    "httpx2",
    "requests",
    "urllib3",
    "pycurl",
    "pyreqwest",
    "wreq",
    "rqx",
    "httptools",
    "uvicorn",
    "granian",
    "gunicorn",
    "hypercorn",
    "websockets",
    "wsproto",
    "fastapi",
    "starlette",
    "pydantic",
    "flask",
    "aiofiles",
    "aiofile",
    "libaio",
)


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def governor() -> str:
    """The frequency governor of the first CPU, or a text if the kernel does not report it."""
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return path.read_text().strip() if path.exists() else "not reported by the kernel"


def _tool_version(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return "missing"
    return (done.stdout or done.stderr).strip().splitlines()[0]


def versions() -> dict[str, str]:
    """The version of every program and package that takes part, or `missing`."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "missing"
    found["node"] = _tool_version("node", "--version")
    found["go"] = _tool_version("go", "version").removeprefix("go version go")
    found["nginx"] = _tool_version(find_nginx() or "nginx", "-v").rpartition("/")[2]
    found["openssl"] = ssl.OPENSSL_VERSION.split()[1]
    found["fio"] = _tool_version("fio", "--version")
    return found


def describe() -> dict[str, str | int]:
    """A description of the machine for a page's footer."""
    return {
        "cpu": _cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": _memory_bytes(),
        "kernel": f"{platform.system()} {platform.release()}",
        "governor": governor(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_average": f"{os.getloadavg()[0]:.2f}",
    }


def command(args: list[str]) -> str:
    """The exact command, so that it can be run again."""
    return shlex.join([Path(sys.executable).name, "-m", "bench", *args])


def choose_cpus() -> tuple[int | None, int | None]:
    """(server, generator): the last and the first available CPU. Nothing is pinned if there is only one."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        return None, None
    return allowed[-1], allowed[0]
