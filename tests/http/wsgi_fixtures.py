"""`server`: the applications of `wsgi_apps`, in green threads and in a pool of threads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.http.wsgi_peers import Served, served

__all__ = ["server"]


@pytest.fixture(scope="module", params=["green", "threads"])
def server(request: pytest.FixtureRequest) -> Iterator[Served]:
    with served(request.param) as running:
        yield running
