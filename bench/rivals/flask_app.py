"""The first example of Flask's quickstart."""

# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,unused-ignore"
# A rival's framework may be missing.
from __future__ import annotations

from flask import Flask

from bench.rivals import worker

worker.settle()
app = Flask(__name__)


@app.get("/hello")
def hello() -> str:
    return "hello, world"
