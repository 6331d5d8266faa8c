"""The six rows of the README: what people do, what they do it with today, and the case that measures it.

`bench.report` draws them from the record, `bench.demo` measures them again.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["STORY", "Chapter"]


@dataclass(frozen=True)
class Chapter:
    """One row."""

    title: str
    """What a user does."""
    suite: str
    case: str
    ours: str
    """The name, in the case, of the way in which oneloop does it."""
    theirs: str
    """The name of what most people use today."""
    label: str
    """What is written for it."""

    @property
    def name(self) -> str:
        """The case as documents name it."""
        return f"{self.suite}: {self.case}"


STORY = (
    Chapter(
        "Serve an ASGI application",
        "http",
        "ASGI, requests of a browser, 1 KiB, 10 connections",
        "oneloop",
        "uvicorn on uvloop",
        "uvicorn with uvloop",
    ),
    Chapter(
        "Serve Flask",
        "http",
        "Flask hello, 10 connections",
        "threads on oneloop",
        "gunicorn-gthread",
        "gunicorn with threads",
    ),
    Chapter("Call an HTTP service", "client", "1 KiB, 20 at once", "oneloop", "httpx2 on uvloop", "httpx2 with uvloop"),
    Chapter("Read a small file", "files", "cached files of 4 KiB", "oneloop", "aiofiles", "aiofiles"),
    Chapter("Green threads: echo", "green", "echo: 1 KiB, 10 connections", "oneloop", "gevent", "gevent"),
    Chapter("asyncio: echo", "tcp", "1 KiB, 10 connections", "oneloop", "uvloop", "uvloop"),
)
