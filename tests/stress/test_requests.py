"""The client's soak in short; `make soak-client` sends a million requests of each caller."""

from __future__ import annotations

import pytest

from tests.stress.requests import CALLERS, KINDS, FailedError, kind_of, run

pytestmark = pytest.mark.oneloop_only("the client needs oneloop's loop")


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.time_limit(120)
def test_thousands_of_requests_leave_nothing(caller: str) -> None:
    run(caller, 4000, 1000)


def test_what_grows_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter(range(10**7, 10**9, 2 << 20))
    monkeypatch.setattr("tests.stress.requests.resident_bytes", lambda: next(sizes))
    with pytest.raises(FailedError, match="resident memory grew by"):
        run("coroutine", 30, 1)


def test_every_kind_is_among_them() -> None:
    assert {kind_of(number) for number in range(1, 500)} == {"small", *KINDS.values()}
