"""File operations that were begun when the loop was left: they reach their engine all the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from oneloop import files


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.engines_only("the stand-in does its operations in the loop")
@pytest.mark.parametrize("is_interrupted", [False, True], ids=["stop", "KeyboardInterrupt"])
def test_an_operation_begun_before_the_loop_is_left_is_done(
    loop: asyncio.AbstractEventLoop, path: Path, is_interrupted: bool
) -> None:
    path.write_text("content")
    leave: Callable[[], None] = interrupt if is_interrupted else loop.stop
    task = loop.create_task(files.unlink(path))
    loop.call_soon(leave)
    if is_interrupted:
        with pytest.raises(KeyboardInterrupt):
            loop.run_forever()
    else:
        loop.run_forever()
    deadline = time.monotonic() + 60
    while path.exists():
        assert time.monotonic() < deadline, "the operation waits for the loop to run again"
        time.sleep(0.001)
    loop.run_until_complete(task)
