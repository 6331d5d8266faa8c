"""The connections are oneloop's own: these tests have no stock variant."""

from __future__ import annotations

import pytest


@pytest.fixture
def loop_name() -> str:
    return "oneloop"
