"""The documents hold together: links lead somewhere, names exist, limits are kept."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import oneloop
from tests.docs.examples import ROOT, documents

_LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")
_PATH = re.compile(r"`((?:crates|python|tests|docs|scripts)/[\w./-]+)`")


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_paths_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for found in _LINK.finditer(text):
        target = found.group(1)
        if "://" not in target:
            assert (document.parent / target).exists(), target
    for found in _PATH.finditer(text):
        assert (ROOT / found.group(1)).exists(), found.group(1)


def test_architecture_is_short_enough_to_be_read_first() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_every_counter_is_in_the_reference() -> None:
    text = (ROOT / "docs/reference/statistics.md").read_text(encoding="utf-8")
    for field in fields(oneloop.Statistics):
        assert f"`{field.name}`" in text


def test_every_invariant_is_in_safety() -> None:
    text = (ROOT / "SAFETY.md").read_text(encoding="utf-8")
    cited = set()
    for source in [*ROOT.glob("crates/*/src/**/*.rs")]:
        cited |= set(re.findall(r"\bS(\d)\b", source.read_text(encoding="utf-8")))
    for number in sorted(cited):
        assert f"## S{number} " in text, f"S{number} is cited by the code"


def test_no_document_names_a_machine() -> None:
    for document in documents():
        text = document.read_text(encoding="utf-8")
        assert not re.search(r"/(work|root|home)/\w", text), document
