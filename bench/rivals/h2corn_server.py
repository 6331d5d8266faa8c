"""h2corn, an ASGI server for HTTP/2 in Rust, on uvloop."""

from __future__ import annotations

import os
import sys

from bench.rivals import endpoint
from bench.rivals.http_apps import APPS


def main() -> None:
    where = endpoint.parse()
    number = endpoint.hand_over_listener(where)
    options = ["--bind", f"fd://{number}", "--loop", "uvloop", "--no-access-log"]
    if where.tls:
        options += ["--certfile", where.tls, "--keyfile", where.tls]
    os.execv(sys.executable, [sys.executable, "-m", "h2corn", APPS[where.form].target, *options])


if __name__ == "__main__":
    main()
