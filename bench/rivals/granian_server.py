"""granian, one thread for its I/O in each worker: ASGI on uvloop, WSGI, or the files under `--path`."""

# mypy: disable-error-code="import-untyped,import-not-found"
# A rival may be missing.
from __future__ import annotations

from pathlib import Path

from granian import Granian
from granian.constants import HTTPModes, Interfaces, Loops

from bench.rivals import endpoint
from bench.rivals.http_apps import APPS


def main() -> None:
    where = endpoint.parse()
    app = APPS[where.form]
    # Granian cannot use an existing socket and does not report when it listens.
    port = endpoint.free_port()
    endpoint.announce_when_served(port)
    is_static = where.form == "static"
    server = Granian(
        app.target,
        address="127.0.0.1",
        port=port,
        interface=Interfaces(app.interface),
        workers=where.workers,
        loop=Loops.uvloop,
        # By default it looks for HTTP/2 in the first bytes of each connection.
        http=HTTPModes.http2 if where.tls else HTTPModes.http1,
        ssl_cert=Path(where.tls) if where.tls else None,
        ssl_key=Path(where.tls) if where.tls else None,
        log_enabled=False,
        websockets=where.form == "websocket",
        backlog=endpoint.BACKLOG,
        # By default it accepts no more connections than its backlog; one row has 10,000.
        backpressure=20_000,
        static_path_route=["/static"] if is_static else None,
        static_path_mount=[Path(where.path) / "static"] if is_static else None,
    )
    server.serve()


if __name__ == "__main__":
    main()
