"""The documents hold together: links lead somewhere, names exist, limits are kept."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

import oneloop
from oneloop.cli.check import parser as check_parser
from oneloop.compat.gevent.modules import TARGETS
from oneloop.green import config
from tests.docs.examples import ROOT, documents

# The modules that are gevent's, by their names there.
GREEN = ["", *sorted(name for name in TARGETS if TARGETS[name] == f"oneloop.green.{name}" and "." not in name)]

# These have all names of the standard library's modules.
STANDARD = {"os", "select", "selectors", "signal", "socket", "ssl", "subprocess", "threading", "time"}

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


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as code hosts and the site make them."""
    text = re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+?)$", text, flags=re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
        repeats = sum(1 for name in found if re.fullmatch(re.escape(slug) + r"(-\d+)?", name))
        found.add(f"{slug}-{repeats}" if slug in found else slug)
    return found


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_anchors_of_links_exist(document: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", document.read_text(encoding="utf-8")):
        if "://" not in target:
            page = document.parent / target if target else document
            assert anchor in anchors(page), f"{target}#{anchor}"


def test_architecture_is_short_enough_to_be_read_first() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_every_counter_is_in_the_reference() -> None:
    text = (ROOT / "docs/reference/statistics.md").read_text(encoding="utf-8")
    for field in fields(oneloop.Statistics):
        assert f"`{field.name}`" in text


@pytest.mark.parametrize("module", GREEN)
def test_every_name_of_green_threads_is_in_the_reference(module: str) -> None:
    text = (ROOT / "docs/reference/green.md").read_text(encoding="utf-8")
    ours = import_module(f"oneloop.green.{module}" if module else "oneloop.green")
    names = {name for name in ours.__all__ if not re.match(r"IGevent|I[A-Z][a-z]+[A-Z]", name)}
    if module in STANDARD:
        names -= set(dir(import_module(module)))
    assert f"`{module}`" in text or not module
    for name in sorted(names):
        assert re.search(rf"`(?:await )?(?:\w+\.)?{name}\b", text), name


def test_every_setting_is_in_the_reference() -> None:
    text = (ROOT / "docs/reference/green.md").read_text(encoding="utf-8")
    for name, setting in config.settings.items():
        assert f"| `{name}` | `{setting.environment_key}` |" in text


def test_every_option_and_name_of_tls_is_in_the_reference() -> None:
    text = (ROOT / "docs/reference/tls.md").read_text(encoding="utf-8")
    for make in (oneloop.tls.server_context, oneloop.tls.client_context):
        for name in inspect.signature(make).parameters:
            assert f"`{name}`" in text, name
    for kind in (oneloop.tls.TlsContext, oneloop.tls.TlsObject):
        for name in vars(kind):
            assert name.startswith("_") or re.search(rf"`{name}\b", text), name


def test_every_option_of_check_is_in_the_reference() -> None:
    text = (ROOT / "docs/reference/check.md").read_text(encoding="utf-8")
    for action in check_parser()._actions:
        for flag in action.option_strings:
            assert flag in ("-h", "--help") or re.search(rf"`{flag}[` ]", text), flag


def test_every_invariant_is_in_safety() -> None:
    text = (ROOT / "SAFETY.md").read_text(encoding="utf-8")
    cited = set()
    for source in [*ROOT.glob("crates/*/src/**/*.rs")]:
        cited |= set(re.findall(r"\bS(\d)\b", source.read_text(encoding="utf-8")))
    for number in sorted(cited):
        assert f"## S{number} " in text, f"S{number} is cited by the code"


def test_tests_that_safety_cites_exist() -> None:
    written = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/test_*.py"))
    rust = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("crates/**/*.rs"))
    for name in re.findall(r"`([a-z_]+)`", (ROOT / "SAFETY.md").read_text(encoding="utf-8")):
        if name.startswith("test_"):
            assert f"def {name}(" in written, name
        elif name.count("_") >= 3:
            assert f"fn {name}(" in rust, name


def test_no_document_names_a_machine() -> None:
    for document in documents():
        text = document.read_text(encoding="utf-8")
        assert not re.search(r"/(work|root|home)/\w", text), document
