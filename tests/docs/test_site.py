"""The documentation site: its navigation, its pictures, the API reference's signatures, and the whole build."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import oneloop
import oneloop.aio
from docs.site import docstrings, files_page, pages, stubs
from tests.docs.examples import ROOT, documents

PICTURES = sorted((ROOT / "docs/pictures").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"


def test_the_navigation_lists_every_document_once() -> None:
    listed = [page for section in pages.sections().values() for page in section]
    assert len(set(listed)) == len(listed)
    assert {*listed, "README.md"} == {path.relative_to(ROOT).as_posix() for path in documents()}


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_pictures_are_well_formed_and_named(picture: Path) -> None:
    text = picture.read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    labels = str(root.get("aria-labelledby")).split()
    for name in ("title", "desc"):
        found = root.find(f"{SVG}{name}")
        assert found is not None
        assert found.text
        assert found.get("id") in labels
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_texts_of_a_picture_are_inside_it(picture: Path) -> None:
    root = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    _, _, width, height = map(float, str(root.get("viewBox")).split())
    texts = list(root.iter(f"{SVG}text"))
    assert texts
    for text in texts:
        assert 0 <= float(str(text.get("x"))) <= width, text.text
        assert 0 <= float(str(text.get("y"))) <= height, text.text


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_pictures_are_shown_with_an_alternative_text(picture: Path) -> None:
    shown = re.compile(r"!\[([^\]]+)\]\([\w./-]*" + re.escape(picture.name) + r"\)")
    found = [shown.search(path.read_text(encoding="utf-8")) for path in documents()]
    assert any(match and len(match[1]) > 20 for match in found)


def test_the_page_of_files_is_that_of_the_docstrings() -> None:
    written, wanted = files_page.PAGE.read_text(encoding="utf-8"), files_page.page()
    if not hasattr(inspect, "markcoroutinefunction"):
        # Before Python 3.12, functions that return coroutines have no mark.
        written, wanted = written.replace("async ", ""), wanted.replace("async ", "")
    assert written == wanted, "run python -m docs.site.files_page"


def test_native_signatures_have_the_types_of_the_stub() -> None:
    assert stubs.qualified_name(oneloop.StreamTransport.write) == "StreamTransport.write"
    assert stubs.signature("StreamTransport.get_write_buffer_limits") == ("()", "tuple[int, int]")
    assert stubs.signature("StreamTransport.is_closing") == ("()", "bool")
    assert stubs.signature("direct_alignment") == ("(fd: int, /)", "tuple[int, int] | None")
    assert stubs.signature("LoopCore") == ("(*_args: object, virtual_time: bool=False, **_kwargs: object)", None)
    assert stubs.signature("Handle") is None
    assert stubs.qualified_name(oneloop.aio.Context.submit) == "AioContext.submit"
    assert stubs.type_of("TlsContext.check_hostname") == "bool"


def test_a_native_function_as_a_class_method_lacks_its_first_parameter() -> None:
    green = pytest.importorskip("oneloop.green", reason="greenlet is not installed", exc_type=ImportError)
    assert stubs.qualified_name(green.Greenlet.spawn) == "spawn_green"
    assert stubs.signature("spawn_green", is_bound=True) == ("(*args: Any, **kwargs: Any)", "_G")


def test_names_that_are_not_native_keep_their_signatures() -> None:
    assert stubs.qualified_name(oneloop.run) is None
    assert stubs.qualified_name(len) is None
    assert stubs.qualified_name(oneloop.Handle) == "Handle"


def test_only_methods_that_do_nothing_but_raise_are_left_out() -> None:
    left_out = set()
    for name in oneloop.__all__:
        value = getattr(oneloop, name)
        if isinstance(value, type) and stubs.qualified_name(value):
            public = [member for member in vars(value) if not member.startswith("_")]
            left_out |= {f"{name}.{member}" for member in public if stubs.is_left_out(getattr(value, member))}
    reading = ("is_reading", "pause_reading", "resume_reading")
    assert left_out == {f"WritePipeTransport.{method}" for method in reading}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Reads `n` bytes.", "Reads ``n`` bytes."),
        ("Two `int`s.", "Two ``int``\\ s."),
        ("call(*args, **kwargs)", "call(\\*args, \\*\\*kwargs)"),
        ("`*args` and ``x``", "``*args`` and ``x``"),
        ("file_ or |x|", "file\\_ or \\|x\\|"),
        ("Text.\n\n>>> 2 * 3\n6", "Text.\n\n>>> 2 * 3\n6"),
        ("Text.\n\n```text\na * b\n```\nMore.", "Text.\n\n::\n\n   a * b\n\nMore."),
    ],
)
def test_docstrings_become_restructured_text(text: str, expected: str) -> None:
    assert docstrings.converted(text) == expected


@pytest.mark.time_limit(600)
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    for package in ("sphinx", "myst_parser", "furo", "aiohttp"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: `make docs` installs it")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    command = [sys.executable, "-m", "docs.site", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'html/index.html'}\n"
    index = (tmp_path / "html/searchindex.js").read_text(encoding="utf-8")
    for name in ("call_soon", "StreamTransport", "read_file", "server_context"):
        assert name in index
    api = (tmp_path / "html/api/oneloop.html").read_text(encoding="utf-8")
    assert 'id="oneloop.StreamTransport.write"' in api
    # Pictures are there once there is a run of record; each goes with the page.
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8"))
    page = (tmp_path / "html/docs/benchmarks.html").read_text(encoding="utf-8")
    assert all(f'src="../_images/{Path(name).name}"' in page for name in pictures)
