"""Fixed seeds of every family: the same trace on stock asyncio and on oneloop. `make soak` runs many more.

What fails here is shrunk by `python -m tests.differential --family NAME --start SEED --seeds 1`.
"""

from __future__ import annotations

import pytest

from tests.differential import author, program, subjects
from tests.differential.comparison import compare

# Listed in docs/reference/differences-from-asyncio.md, and kept out of the programs: a protocol factory that raises.
OPEN_WORDS = {"refuses": "wire"}
OPEN_VERBS: frozenset[str] = frozenset()

# Threads wait for each other; their programs are slow.
SEEDS = {"threads": 30, "tls": 60, "servers": 80}
USUAL_SEEDS = 120
# How many programs may disagree with themselves.
MOST_UNSETTLED = 0.1


@pytest.mark.parametrize("family", subjects.ALL, ids=lambda family: family.name)
def test_family(family: author.Family) -> None:
    seeds = SEEDS.get(family.name, USUAL_SEEDS)
    unsettled = []
    for seed in range(seeds):
        body = program.replaced(program.without(author.write(family, seed), OPEN_VERBS), OPEN_WORDS)
        verdict = compare(body)
        if verdict.what == "unsettled":
            unsettled.append(seed)
        elif verdict.what == "different":
            pytest.fail(f"{family.name} {seed}\n{program.literal(body)}\n{verdict.text()}")
    assert len(unsettled) <= seeds * MOST_UNSETTLED, unsettled
