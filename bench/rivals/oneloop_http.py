"""`oneloop serve`, as its command starts it. `--program`: asgi, threads (of 8, WSGI) or green (WSGI)."""

from __future__ import annotations

import os
import sys

from bench.rivals import endpoint
from bench.rivals.http_apps import APPS

PROGRAMS = {"asgi": [], "threads": ["--threads", "8"], "green": ["--green"]}


def main() -> None:
    where = endpoint.parse()
    options = ["--no-access-log", "--log-level", "error", "--timeout-keep-alive", str(endpoint.KEEP_ALIVE_S)]
    options += ["--backlog", str(endpoint.BACKLOG), *PROGRAMS[where.program]]
    if where.workers > 1:
        options += ["--workers", str(where.workers)]
    if where.form == "static":
        options += ["--static", f"/static={where.path}/static"]
    if where.tls:
        options += ["--ssl-certfile", where.tls]
    number = endpoint.hand_over_listener(where)
    os.execv(
        sys.executable,
        [sys.executable, "-m", "oneloop", "serve", APPS[where.form].target, *options, "--fd", str(number)],
    )


if __name__ == "__main__":
    main()
