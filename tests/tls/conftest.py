"""Fixtures of the TLS tests: certificates and versions."""

from __future__ import annotations

import pytest

from tests.tls import authority as certificates
from tests.tls.authority import VERSIONS, Authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return certificates.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture(params=list(VERSIONS))
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)
