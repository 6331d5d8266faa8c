"""granian, one worker with one thread, serving the ASGI application on uvloop."""

# mypy: disable-error-code="import-untyped,import-not-found"
# A rival may be missing.
from __future__ import annotations

import socket
import threading
import time

from granian import Granian
from granian.constants import Interfaces, Loops

from bench.rivals import endpoint


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _announce_when_served(port: int) -> None:
    """Granian does not say when it listens; it is asked."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
            continue
        endpoint.announce_port(port)
        return


def main() -> None:
    endpoint.parse()
    port = _free_port()
    threading.Thread(target=_announce_when_served, args=(port,), daemon=True).start()
    server = Granian(
        "bench.rivals.asgi_app:app",
        address="127.0.0.1",
        port=port,
        interface=Interfaces.ASGI,
        workers=1,
        loop=Loops.uvloop,
        log_enabled=False,
        websockets=False,
        backlog=endpoint.BACKLOG,
    )
    server.serve()


if __name__ == "__main__":
    main()
