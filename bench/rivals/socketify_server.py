"""socketify, a server in C++ (uWebSockets): ASGI on its loop, which also runs asyncio's, or WSGI."""

# mypy: disable-error-code="import-untyped,import-not-found"
# A rival may be missing.
from __future__ import annotations

import socketify

from bench.rivals import endpoint
from bench.rivals.http_apps import APPS

INTERFACES = {"asgi": socketify.ASGI, "wsgi": socketify.WSGI}


def main() -> None:
    where = endpoint.parse()
    app = APPS[where.form]
    # It cannot use an existing socket and does not report when it listens.
    port = endpoint.free_port()
    endpoint.announce_when_served(port)
    server = INTERFACES[app.interface](app.load(), lifespan=False)
    server.listen(socketify.AppListenOptions(port, "127.0.0.1"))
    server.run()


if __name__ == "__main__":
    main()
