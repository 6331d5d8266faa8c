from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from oneloop.green import hub


@pytest.fixture(autouse=True)
def hub_ended(audit: None) -> Iterator[None]:
    """The thread's hub ends with the test, so that the audit finds nothing of it."""
    yield
    made = hub._threads.hub
    if made is not None and not made.asyncio_loop.is_closed():
        made.destroy()
    del made
    gc.collect()
