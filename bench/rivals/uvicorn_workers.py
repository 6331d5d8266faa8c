"""uvicorn with several workers, as its command starts it; `--loop` says on which loop."""

from __future__ import annotations

import os
import sys

from bench.rivals import endpoint
from bench.rivals.http_apps import APPS
from bench.rivals.loops import MODULES


def main() -> None:
    where = endpoint.parse()
    loop = where.loop if where.loop in ("asyncio", "uvloop") else f"{MODULES[where.loop]}:new_event_loop"
    # It has no option for a listening socket that has TCP_NODELAY, and does not report when it listens.
    port = endpoint.free_port()
    endpoint.announce_when_served(port)
    options = ["--workers", str(where.workers), "--loop", loop, "--http", "httptools", "--lifespan", "off"]
    options += ["--log-level", "error", "--no-access-log", "--backlog", str(endpoint.BACKLOG)]
    options += ["--timeout-keep-alive", str(endpoint.KEEP_ALIVE_S), "--port", str(port)]
    os.execv(sys.executable, [sys.executable, "-m", "uvicorn", *options, APPS[where.form].target])


if __name__ == "__main__":
    main()
