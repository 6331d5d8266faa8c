"""Fixtures of the tests of `oneloop check`: the farm, which they share, and what c-ares keeps for the process."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.check.farm import process
from tests.check.farm.process import Farm


@pytest.fixture(scope="session", autouse=True)
def _its_thread() -> None:
    """The thread that ends name servers' channels begins with the first end of one: it is no test's."""
    if find_spec("pycares") is not None:
        import pycares

        pycares.Channel().close()


@pytest.fixture
def loop_name() -> str:
    """The client's connections are native: they need oneloop's loop."""
    return "oneloop"


@pytest.fixture(scope="session")
def shared_farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    """One process for the whole session."""
    pytest.importorskip("trustme")
    with process.start(tmp_path_factory.mktemp("farm")) as farm:
        yield farm


@pytest.fixture
def farm(shared_farm: Farm, monkeypatch: pytest.MonkeyPatch) -> Farm:
    """The shared farm, which has forgotten what it saw. Its authority is trusted, and no other."""
    shared_farm.clear()
    monkeypatch.setenv("SSL_CERT_FILE", str(shared_farm.authority))
    return shared_farm
