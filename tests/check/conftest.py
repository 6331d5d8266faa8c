"""What c-ares keeps for the process is there before any test looks at what its own leaves behind."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


@pytest.fixture(scope="session", autouse=True)
def _its_thread() -> None:
    """The thread that ends name servers' channels begins with the first end of one."""
    if find_spec("pycares") is not None:
        import pycares

        pycares.Channel().close()
