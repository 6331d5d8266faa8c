"""gevent's pywsgi: a WSGI application with a green thread for each connection."""

# mypy: disable-error-code="import-untyped,import-not-found"
# Gevent has no stubs.
from __future__ import annotations

from gevent.pywsgi import WSGIServer
from gevent.socket import socket as GreenSocket  # noqa: N812 - a class, whatever its name

from bench.rivals import endpoint
from bench.rivals.http_apps import APPS


def main() -> None:
    where = endpoint.parse()
    listener = endpoint.listen(where)
    port = endpoint.port_of(listener)
    server = WSGIServer(GreenSocket(fileno=listener.detach()), APPS[where.form].load(), log=None)
    server.start()
    endpoint.announce_port(port)
    server.serve_forever()


if __name__ == "__main__":
    main()
