"""oneloop's pywsgi: a WSGI application with a green thread for each connection."""

from __future__ import annotations

from typing import Any, cast

from bench.rivals import endpoint
from bench.rivals.http_apps import APPS
from oneloop.green.pywsgi import WSGIServer


def main() -> None:
    where = endpoint.parse()
    listener = endpoint.listen(where)
    server = WSGIServer(listener, cast("Any", APPS[where.form].load()), log=None)
    server.start()
    endpoint.announce_port(endpoint.port_of(listener))
    server.serve_forever()


if __name__ == "__main__":
    main()
