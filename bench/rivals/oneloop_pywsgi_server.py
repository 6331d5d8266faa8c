"""oneloop's pywsgi: a WSGI application with a green thread for each connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bench.rivals import endpoint
from oneloop.green.pywsgi import WSGIServer

StartResponse = Callable[[str, list[tuple[str, str]]], object]


def app(environ: dict[str, str], start_response: StartResponse) -> Iterable[bytes]:
    body = b"x" * int(environ["PATH_INFO"][1:])
    headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
    start_response("200 OK", headers)
    return [body]


def main() -> None:
    where = endpoint.parse()
    listener = endpoint.listen(where)
    server = WSGIServer(listener, app, log=None)
    server.start()
    endpoint.announce_port(endpoint.port_of(listener))
    server.serve_forever()


if __name__ == "__main__":
    main()
