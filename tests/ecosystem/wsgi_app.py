"""A Flask application for the tests of servers. Its requests wait for each other: all have to be served at once."""

# mypy: disable-error-code="untyped-decorator,no-any-return"
# Where Flask is not installed, its decorators have no types.
from __future__ import annotations

import os
import time
from collections.abc import Iterator

from flask import Flask, Response, request

app = Flask(__name__)
arrived = 0


@app.route("/")
def index() -> str:
    return "hello"


@app.route("/echo", methods=["POST"])
def echo() -> bytes:
    return request.get_data()


@app.route("/together/<int:count>")
def together(count: int) -> str:
    """Wait until there are so many."""
    global arrived
    arrived += 1
    while arrived < count:
        time.sleep(0.005)
    return "all"


@app.route("/until", methods=["POST"])
def until() -> Response:
    """Begin to answer, and wait for a file before the end."""
    path = request.get_data(as_text=True)

    def body() -> Iterator[str]:
        yield "begun "
        while not os.path.exists(path):
            time.sleep(0.005)
        yield "ended"

    return Response(body())


@app.route("/fail")
def fail() -> str:
    raise LookupError("of the application")
