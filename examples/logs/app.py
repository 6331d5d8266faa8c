"""Follows a log file, and sends its lines as server-sent events. See README.md."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from oneloop import files

LOG = Path(os.environ.get("LOG", "app.log")).absolute()


async def follow(path: Path) -> AsyncIterator[str]:
    """Yield the lines that are added to a file from now on, also after it was replaced by a new one."""
    async with files.watch(path.parent) as changes:
        is_first = True
        while True:
            async with files.open(path, encoding="utf-8", errors="replace") as log:
                if is_first:
                    await log.seek(0, os.SEEK_END)
                is_first, rest = False, ""
                async for event in changes:
                    while line := await log.readline():
                        rest += line
                        if rest.endswith("\n"):  # otherwise the end of the line is not written yet
                            yield rest.rstrip("\n")
                            rest = ""
                    if Path(event.path) == path and event.change in (files.Change.CREATED, files.Change.MOVED):
                        break


async def events(request: Request) -> StreamingResponse:
    async def lines() -> AsyncIterator[str]:
        yield ": connected\n\n"
        async for line in follow(LOG):
            yield f"data: {line}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


app = Starlette(routes=[Route("/", events)])
