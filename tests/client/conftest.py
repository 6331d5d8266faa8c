"""The callers of the client tests."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from oneloop.http import AsyncClient, TransportError
from tests.client.callers import KINDS, Caller
from tests.conftest import settle

MakeCaller = Callable[..., Caller]


async def left_of_failure(fail: Callable[[AsyncClient], Awaitable[object]]) -> list[object]:
    """What the collector would have to free of a request that fails, its error and its client."""

    async def failed() -> list[weakref.ref[object]]:
        async with AsyncClient(trust_env=False) as client:
            try:
                await fail(client)
            except TransportError as error:
                return [weakref.ref(each) for each in (error, client, *client._pools.values())]
        raise AssertionError("it did not fail")

    gc.collect()
    gc.disable()
    try:
        kept = await failed()
        await settle(20)
        return [each() for each in kept if each() is not None]
    finally:
        gc.enable()


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
