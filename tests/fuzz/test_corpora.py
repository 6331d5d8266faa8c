"""The corpora of `make fuzz` fit its targets, and those in Python find nothing wrong with them and their variations."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("h11")
pytest.importorskip("wsproto")

from tests.fuzz.__main__ import CORPORA, NATIVE
from tests.fuzz.python_targets import TARGETS

PIECES = [b"", b"\0", b"\n", b'"', b"<", b"\xff"]


def test_each_target_has_a_corpus() -> None:
    assert {folder.name for folder in CORPORA.iterdir()} == {*NATIVE, *TARGETS}


@pytest.mark.parametrize("name", TARGETS)
def test_variations(name: str) -> None:
    seeds = [path.read_bytes() for path in sorted((CORPORA / name).iterdir())]
    chance = random.Random(name)
    tried = 0
    for seed in seeds:
        TARGETS[name](seed)
        for _ in range(40):
            data = bytearray(seed)
            for _ in range(chance.randint(1, 4)):
                at = chance.randrange(len(data) + 1)
                data[at : at + chance.randint(0, 3)] = chance.choice(
                    [b"", b"\0", b"\n", b'"', b"<", b"\xff", seed[:at][-9:]]
                )
            TARGETS[name](bytes(data))
            tried += 1
    assert tried == 40 * len(seeds) > 0
