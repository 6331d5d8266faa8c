"""fastpysgi, a server in C on libuv: it calls ASGI and WSGI applications on its only thread."""

# mypy: disable-error-code="import-untyped,import-not-found"
# A rival may be missing.
from __future__ import annotations

import os

import fastpysgi

from bench.rivals import endpoint
from bench.rivals.http_apps import APPS


def main() -> None:
    where = endpoint.parse()
    # It cannot use an existing socket and does not report when it listens.
    port = endpoint.free_port()
    endpoint.announce_when_served(port)
    # It prints to stdout, whatever its level of messages.
    os.dup2(2, 1)
    server = fastpysgi.server
    server.backlog = endpoint.BACKLOG
    # Nagle's algorithm is on by default; every other server turns it off.
    server.tcp_nodelay = 1
    server.init(APPS[where.form].load(), "127.0.0.1", port, fastpysgi.LL_ERROR)
    server.run()


if __name__ == "__main__":
    main()
