"""docs/explanation/walks.md names files and functions that exist, in an order in which one leads to the next."""

from __future__ import annotations

import re

import pytest

from tests.docs.examples import ROOT

WALKS = (ROOT / "docs/explanation/walks.md").read_text(encoding="utf-8")
ITEM = re.compile(r"^(\d+)\. (.*?)(?=^\d+\. |^## |\Z)", re.MULTILINE | re.DOTALL)
WALK = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", WALKS, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("walk", WALK)
def test_each_item_of_a_walk_begins_with_a_file_and_names_its_functions(walk: str) -> None:
    items = ITEM.findall(WALK[walk])
    assert len(items) >= 6
    assert [int(number) for number, _ in items] == list(range(1, len(items) + 1))
    for _, text in items:
        found = re.match(r"`((?:crates|python)/[\w./]+)`: ", text)
        assert found is not None, text
        source = (ROOT / found[1]).read_text(encoding="utf-8")
        for name in re.findall(r"`(\w+)\(\)`", text):
            assert re.search(rf"\b(?:fn|def) {name}\b", source), f"{name} is not in {found[1]}"


def test_there_is_a_walk_for_each_part() -> None:
    assert len(WALK) == 5
    for part in ("byte", "request", "file", "green thread", "URL"):
        assert any(part in heading for heading in WALK), part
