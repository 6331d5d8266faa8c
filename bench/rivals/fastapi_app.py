"""The first example of FastAPI's tutorial."""

# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,unused-ignore"
# A rival's framework may be missing.
from __future__ import annotations

from fastapi import FastAPI

from bench.rivals import worker

worker.settle()
app = FastAPI()


@app.get("/hello")
async def hello() -> dict[str, str]:
    return {"hello": "world"}
