"""Each requirement of the public suites is a test here: the table of `suites` names what there is."""

from __future__ import annotations

import re
from pathlib import Path

from tests.http.rules import ACCEPTED, REFUSED
from tests.http.suites import REQUIREMENTS

FOLDER = Path(__file__).parent
RULES = {*(rule.name for rule in ACCEPTED), *(rule.name for rule in REFUSED)}


def is_there(where: str) -> bool:
    file, colons, test = where.partition("::")
    if not colons:
        return where in RULES
    return re.search(rf"^(async )?def {test}\(", (FOLDER / file).read_text(), re.MULTILINE) is not None


def test_each_requirement_has_its_test() -> None:
    missing = [(one.name, where) for one in REQUIREMENTS for where in one.where if not is_there(where)]
    assert not missing
    assert all(one.where for one in REQUIREMENTS)


def test_names_are_said_once() -> None:
    for names in (
        [one.name for one in REQUIREMENTS],
        [rule.name for rule in ACCEPTED],
        [rule.name for rule in REFUSED],
    ):
        assert len(names) == len(set(names))
