"""`iterated`: an asynchronous iterator, for code without coroutines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

__all__ = ["iterated", "run_without_waiting"]

_END = object()
"""Behind the last part."""


def iterated(pieces: AsyncIterator[Any], run: Callable[[Any], Any]) -> Iterator[Any]:
    """Iterate over what an asynchronous generator gives, which is closed at the end; `run` runs its steps."""
    try:
        while True:
            piece = run(_next_of(pieces))
            if piece is _END:
                return
            yield piece
    finally:
        run(pieces.aclose())  # type: ignore[attr-defined]


async def _next_of(pieces: AsyncIterator[Any]) -> Any:
    async for piece in pieces:
        return piece
    return _END


def run_without_waiting(steps: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that has nothing to wait for."""
    try:
        steps.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("a response without a connection waits for nothing")
