"""What `oneloop doctor` says about packages: those that parts of oneloop need, and those that oneloop works with."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

from oneloop.cli.machine import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["findings"]

PARTS = {
    "greenlet": ("3.5.4", "green threads, --patch and --replace gevent", "green"),
    "pycares": ("5", "oneloop check", "check"),
}
"""Package → the oldest version, what needs it, and the extra that installs it."""

KNOWN: dict[str, dict[str, str]] = {
    "servers": {
        "uvicorn": "oneloop serve takes its options; or uvicorn --loop oneloop:new_event_loop (from 0.36).",
        "gunicorn": "Its workers here: oneloop.gunicorn.Worker and oneloop.gunicorn.GreenWorker.",
        "hypercorn": "oneloop run -m hypercorn.",
        "granian": "See oneloop docs recipes/granian.",
        "daphne": "oneloop serve can replace it.",
    },
    "loops": {
        "uvloop": "oneloop run gives its programs oneloop's loop; or --replace uvloop.",
        "gevent": "oneloop run --replace gevent. See oneloop docs from-gevent.",
        "eventlet": "No facade. oneloop.green can replace it.",
        "trio": "Has its own loop: its programs do not run on oneloop.",
        "nest_asyncio": "Does not work. See oneloop docs questions.",
    },
    "clients": {
        "httpx": "oneloop run --replace httpcore sends its requests. See oneloop docs from-httpx.",
        "httpx2": "oneloop run --replace httpcore2 sends its requests. See oneloop docs from-httpx.",
        "aiohttp": "Works as it is.",
        "requests": "Works in green threads: oneloop run --patch.",
        "aiofiles": "oneloop run --replace aiofiles.",
        "asyncpg": "Works as it is.",
        "psycopg": "Works as it is, and with --patch.",
        "redis": "Works as it is, and with --patch.",
        "pymysql": "Works in green threads: oneloop run --patch.",
    },
    "frameworks": dict.fromkeys(
        ("fastapi", "starlette", "litestar", "quart", "django", "flask"), "oneloop serve package.module:app."
    ),
    "tools": {
        "rich": "oneloop top redraws its table in place.",
        "pytest": "Has the option --oneloop. See oneloop docs how-to/pytest.",
        "dask": "oneloop check --dask.",
    },
}


def findings() -> Iterator[Finding]:
    """Yield what is found about packages."""
    for name, (oldest, part, extra) in PARTS.items():
        version = _version(name)
        install = f"pip install 'oneloop[{extra}]'"
        if version is None:
            yield Finding("parts", name, "not installed", "ok", f"Only needed for {part}: {install}")
        elif _numbers(version) < _numbers(oldest):
            yield Finding("parts", name, version, "problem", f"Too old for {part}: it needs {oldest}. {install}")
        else:
            yield Finding("parts", name, version, "ok", f"For {part}.")
    for section, packages in KNOWN.items():
        for name, advice in packages.items():
            version = _version(name)
            if version is not None:
                yield Finding(section, name, version, "ok", advice)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, for comparison."""
    numbers = []
    for part in version.split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)
