"""The callers of the client tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.client.callers import KINDS, Caller

MakeCaller = Callable[..., Caller]


@pytest.fixture
def loop_name() -> str:
    """The client needs oneloop's loop: these tests have no stock variant."""
    return "oneloop"


@pytest.fixture(params=KINDS)
def make_caller(request: pytest.FixtureRequest) -> Iterator[MakeCaller]:
    """Make clients of each kind, which are closed after the test."""
    made: list[Caller] = []

    def make(**settings: Any) -> Caller:
        made.append(Caller(request.param, **settings))
        return made[-1]

    yield make
    for caller in made:
        caller.close()


@pytest.fixture
def caller(make_caller: MakeCaller) -> Caller:
    """A client of each kind with the usual settings."""
    return make_caller()
