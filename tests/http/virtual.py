"""Tests in virtual time: a wait ends as soon as nothing else is left to do."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable


def virtual(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test without the limit that all have, which passes at once on this clock."""

    @functools.wraps(test)
    def run(loop: asyncio.AbstractEventLoop, **arguments: object) -> None:
        loop.run_until_complete(test(**arguments))

    loop = inspect.Parameter("loop", inspect.Parameter.KEYWORD_ONLY)
    signature = inspect.signature(test)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), loop])  # type: ignore[attr-defined]
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


def now_s() -> float:
    return asyncio.get_running_loop().time()
