"""The loop of the HTTP tests is oneloop's; tests of files run on each of its file engines."""

from __future__ import annotations

import asyncio

import pytest

import oneloop
from tests.file.conftest import ENGINES, slow_filesystem, use_engine
from tests.loops import LoopFactory
from tests.tls import authority as certificates
from tests.tls.authority import Authority

__all__ = ["slow_filesystem"]


@pytest.fixture
def loop_name() -> str:
    """The connections are oneloop's own: these tests have no stock variant."""
    return "oneloop"


@pytest.fixture
def loop_factory(request: pytest.FixtureRequest) -> LoopFactory:
    """New loops; their file engine is that of the fixture `engine`, if the test has it."""

    def make() -> asyncio.AbstractEventLoop:
        made = oneloop.new_event_loop()
        if "engine" in request.fixturenames:
            use_engine(made, request.getfixturevalue("engine"))
        return made

    return make


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return certificates.make(tmp_path_factory.mktemp("authority"))
