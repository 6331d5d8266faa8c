"""The WSGI application that the servers serve: the response to `GET /N` is N bytes.

For `GET /after/N` the application computes after its response, before its iterable ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bench.rivals import worker
from bench.rivals.cpu_work import AFTER_ANSWER_S, compute_for

StartResponse = Callable[[str, list[tuple[str, str]]], object]

worker.settle()


def compute_after(body: bytes) -> Iterator[bytes]:
    """PEP 3333: a server sends each block before it asks for the next one."""
    yield body
    compute_for(AFTER_ANSWER_S)


def app(environ: dict[str, str], start_response: StartResponse) -> Iterable[bytes]:
    kind, _, size = environ["PATH_INFO"].rpartition("/")
    body = b"x" * int(size)
    headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
    start_response("200 OK", headers)
    return compute_after(body) if kind == "/after" else [body]
