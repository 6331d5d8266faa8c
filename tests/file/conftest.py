"""The loop of the file tests is oneloop's, once per engine; `stand_in` replaces the engine by one that tests script."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import oneloop
from oneloop import _native
from tests.conftest import Reported, close_audited
from tests.file.slow_filesystem import SlowFilesystem, mounted
from tests.file.stand_in import StandIn

ALL_ENGINES = ["ring", "aio", "threads"]
# Which of the engines behaviour tests run on, one after the other; all of them if nothing is said.
ENGINES = os.environ.get("ONELOOP_TEST_ENGINES", ",".join(ALL_ENGINES)).split(",")
# "now" and "later" by turns, which is harder than each by itself.
MODELS = ["mixed"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the stand-in's variant of tests that say what it lacks."""
    kept = []
    for item in items:
        callspec = getattr(item, "callspec", None)
        only_engines = item.get_closest_marker("engines_only")
        if only_engines is not None and callspec is not None and callspec.params.get("engine") in MODELS:
            assert only_engines.args, f"{item.nodeid}: engines_only needs a reason"
            continue
        kept.append(item)
    items[:] = kept


def use_engine(loop: Any, name: str) -> None:
    """Give a loop its file operations; skips where the kernel does not offer them."""
    if name in MODELS or name == "held":
        loop._files = StandIn(loop, name)
        return
    try:
        loop._files = _native.Files(loop, name)
    except OSError as exc:
        pytest.skip(f"the kernel offers no {name}: {exc}")


@functools.cache
def refusal(name: str) -> str:
    """Why the kernel does not offer an engine; empty if it does."""
    loop = oneloop.new_event_loop()
    try:
        loop._files = _native.Files(loop, name)  # type: ignore[attr-defined]
    except OSError as exc:
        return f"the kernel offers no {name}: {exc}"
    finally:
        loop.close()
    return ""


@pytest.fixture(params=ENGINES + MODELS)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def loop(engine: str, audit: None, reported: Reported) -> Iterator[asyncio.AbstractEventLoop]:
    """A new loop of oneloop's on one engine; closed and audited afterwards."""
    made = oneloop.new_event_loop()
    made.set_exception_handler(reported)
    try:
        use_engine(made, engine)
        yield made
    finally:
        if not made.is_closed():
            close_audited(made)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


@pytest.fixture(scope="module")
def slow_filesystem(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowFilesystem]:
    """One mount for all tests of a file, empty at first."""
    with mounted(tmp_path_factory.mktemp("slow")) as filesystem:
        yield filesystem


@pytest.fixture
def held(loop: Any) -> StandIn:
    """Operations wait until the test lets them happen."""
    engine = StandIn(loop, "now")
    loop._files = engine
    return engine


def told(call: Any) -> Any:
    """What a call raises, as class and text."""
    try:
        call()
    except Exception as exc:
        return type(exc), str(exc)
    return None
