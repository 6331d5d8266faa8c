"""How `oneloop serve` reads its command line before argparse does."""

from __future__ import annotations

import pytest

from oneloop.cli.serve import _with_values


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (["--stats-socket", "app:app"], ["--stats-socket=1", "app:app"]),
        (["app:app", "--stats-socket"], ["app:app", "--stats-socket=1"]),
        (["--stats-socket", "/run/app.sock", "app:app"], ["--stats-socket", "/run/app.sock", "app:app"]),
        (["--stats-socket=/run/app", "app:app"], ["--stats-socket=/run/app", "app:app"]),
        (["--redirect-https", "app:app"], ["--redirect-https=443", "app:app"]),
    ],
)
def test_options_without_a_value_do_not_swallow_the_application(words: list[str], read: list[str]) -> None:
    assert _with_values(words) == read
