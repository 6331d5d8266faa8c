"""gunicorn with one worker, `--program` gthread (of 8 threads), gevent or sync, as its command starts it."""

from __future__ import annotations

import os
import sys

from bench.rivals import endpoint
from bench.rivals.http_apps import APPS

THREADS = 8


def main() -> None:
    where = endpoint.parse()
    options = ["--worker-class", where.program, "--workers", "1", "--log-level", "error"]
    options += ["--keep-alive", str(endpoint.KEEP_ALIVE_S), "--backlog", str(endpoint.BACKLOG)]
    if where.program == "gthread":
        options += ["--threads", str(THREADS)]
    if where.program == "gevent":
        # Its default of 1000 is fewer than some rows have connections.
        options += ["--worker-connections", "20000"]
    number = endpoint.hand_over_listener(where)
    app = APPS[where.form].target
    os.execv(sys.executable, [sys.executable, "-m", "gunicorn", "--bind", f"fd://{number}", *options, app])


if __name__ == "__main__":
    main()
