"""The loop of the HTTP tests is oneloop's; tests of files run on each of its file engines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.conftest import Reported, close_audited
from tests.file.conftest import ENGINES, use_engine
from tests.file.slow_filesystem import SlowFilesystem, mounted
from tests.loops import LoopFactory


@pytest.fixture
def loop(
    request: pytest.FixtureRequest, loop_factory: LoopFactory, audit: None, reported: Reported
) -> Iterator[asyncio.AbstractEventLoop]:
    """A new loop; its file engine is that of the fixture `engine`, if the test has it."""
    made = loop_factory()
    made.set_exception_handler(reported)
    if "engine" in request.fixturenames:
        use_engine(made, request.getfixturevalue("engine"))
    yield made
    if not made.is_closed():
        close_audited(made)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def slow_filesystem(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowFilesystem]:
    """One mount for all tests of a file, empty at first."""
    with mounted(tmp_path_factory.mktemp("slow")) as filesystem:
        yield filesystem


@pytest.fixture
def loop_name() -> str:
    """The connections are oneloop's own: these tests have no stock variant."""
    return "oneloop"
