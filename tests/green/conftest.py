"""Test functions run in the main greenlet, coroutines on a oneloop loop. A thread's own hub ends with each test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import oneloop
from oneloop.green import facade
from oneloop.green.hub import end_own_hub
from tests.conftest import Reported, close_audited
from tests.green.threads import Gate


@pytest.fixture(autouse=True)
def own_hub(audit: None) -> Iterator[None]:
    """Destroys the hub that the test has created in this thread."""
    yield
    end_own_hub()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open()


@pytest.fixture
def loop(audit: None, reported: Reported) -> Iterator[asyncio.AbstractEventLoop]:
    made = oneloop.new_event_loop()
    made.set_exception_handler(reported)
    yield made
    if not made.is_closed():
        close_audited(made)


@pytest.fixture
def installed() -> Iterator[None]:
    """Puts asyncio into the state in which monkey patching leaves it."""
    facade.install()
    try:
        yield
    finally:
        facade.uninstall()
