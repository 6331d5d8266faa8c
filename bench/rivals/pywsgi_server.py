"""gevent's pywsgi: a WSGI application with a green thread for each connection."""

# mypy: disable-error-code="import-untyped,import-not-found"
# Gevent has no stubs.
from __future__ import annotations

from collections.abc import Callable, Iterable

from gevent.pywsgi import WSGIServer
from gevent.socket import socket as GreenSocket  # noqa: N812 - a class, whatever its name

from bench.rivals import endpoint

StartResponse = Callable[[str, list[tuple[str, str]]], object]


def app(environ: dict[str, str], start_response: StartResponse) -> Iterable[bytes]:
    body = b"x" * int(environ["PATH_INFO"][1:])
    headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
    start_response("200 OK", headers)
    return [body]


def main() -> None:
    where = endpoint.parse()
    listener = endpoint.listen(where)
    port = endpoint.port_of(listener)
    server = WSGIServer(GreenSocket(fileno=listener.detach()), app, log=None)
    server.start()
    endpoint.announce_port(port)
    server.serve_forever()


main()
