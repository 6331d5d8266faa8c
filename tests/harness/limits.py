"""How long a step of a test may take."""

from __future__ import annotations

import os

import pytest

LIMIT_S = float(os.environ.get("ONELOOP_TEST_LIMIT_S", "120"))
# What does not react to being interrupted is aborted after so long.
GRACE_S = float(os.environ.get("ONELOOP_TEST_GRACE_S", "15"))
# What is left to do when all tests have ended: threads that are still waited for.
END_LIMIT_S = 60.0


def limit_of(item: pytest.Item) -> float:
    """The limit of each of a test's steps, in seconds: its `time_limit` marker's, or that of all."""
    marker = item.get_closest_marker("time_limit")
    return float(marker.args[0]) if marker is not None else LIMIT_S
