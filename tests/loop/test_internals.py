"""Private names of asyncio's loops that this loop does not have, and says so."""

from __future__ import annotations

import pytest

import oneloop


@pytest.mark.parametrize("name", ["_run_once", "_process_events", "_selector"])
def test_missing_internals_are_not_found_and_explained(name: str) -> None:
    loop = oneloop.Loop()
    try:
        assert not hasattr(loop, name)
        with pytest.raises(AttributeError, match=f"has no {name}: .*nest_asyncio"):
            getattr(loop, name)
        # A program that sets one has its own.
        setattr(loop, name, 1)
        assert getattr(loop, name) == 1
    finally:
        loop.close()
