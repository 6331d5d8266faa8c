"""The document and its schema, the page, the comparison."""

from __future__ import annotations

import importlib.util
import io
import json
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest

from bench.model import Case, Result, Row
from bench.report import compare, figures, markdown
from bench.report.document import SCHEMA_FILE, Document, case_data, load, save
from bench.report.html import page
from tests.bench.sample_run import make_document, sample, unmeasured

VOID = {"meta", "br", "link"}


class Balanced(HTMLParser):
    """Checks that tags close in the order in which they opened; collects the drawings."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def check_schema(doc: Document) -> None:
    if importlib.util.find_spec("jsonschema") is None:
        pytest.skip("jsonschema is not installed: requirements/bench-tools.txt")
    import jsonschema

    schema = json.loads(SCHEMA_FILE.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(json.loads(json.dumps(doc)))


def test_the_document_keeps_its_schema() -> None:
    check_schema(make_document())


def test_ratios_and_summaries_in_the_document() -> None:
    rows = {row["rival"]: row for row in make_document()["cases"][0]["rows"]}
    assert rows["oneloop"]["ratio"]["median"] == pytest.approx(4600 / 5200, abs=0.003)
    assert rows["oneloop"]["summary"]["server_cpu_ns"]["median"] == 4500
    assert "ratio" not in rows["rloop"]
    assert rows["rloop"]["samples"][1] is None
    assert rows["uvloop"]["ratio"]["low"] == rows["uvloop"]["ratio"]["high"] == 1.0


def test_a_document_survives_the_disk(tmp_path: Path) -> None:
    doc, path = make_document(), tmp_path / "run.json"
    save(doc, path)
    assert load(path) == json.loads(json.dumps(doc))
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]


def test_another_files_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"schema": "something else"}')
    with pytest.raises(ValueError, match="not a document of schema"):
        load(path)


def test_the_page_is_whole_and_self_contained() -> None:
    text = page(make_document())
    parser = Balanced()
    parser.feed(text)
    words = " ".join(parser.texts)
    for expected in ("1 KiB, 10 connections", "died: signal SIGSEGV", "curio is not installed", "a <remark>", "<b>&"):
        assert expected in words
    for outside in ("<script", "http://", "https://", "<link", "<img", "url("):
        assert outside not in text


def test_every_drawing_is_well_formed() -> None:
    text = page(make_document())
    drawings = text.split("<svg")[1:]
    assert len(drawings) == 2
    for drawing in drawings:
        tree = ElementTree.fromstring("<svg" + drawing.partition("</svg>")[0] + "</svg>")
        widths = [float(rect.attrib["width"]) for rect in tree.iter("rect")]
        assert all(0 <= width <= 720 for width in widths)


def test_an_empty_run_still_makes_a_page() -> None:
    doc = make_document()
    doc["cases"] = []
    doc["interrupted"] = True
    assert "interrupted" in page(doc)


def test_a_slower_oneloop_is_a_regression() -> None:
    old, new = make_document(), make_document(oneloop_ns=(6000, 6100, 6050))
    verdicts = {change.rival: change.verdict for change in compare.changes(old, new)}
    assert verdicts["oneloop"] == "slower"
    assert verdicts["floor"] == "same"
    assert {c.rival: c.verdict for c in compare.changes(new, old)}["oneloop"] == "faster"


def test_what_stays_within_the_spread_is_no_change() -> None:
    old, new = make_document(), make_document(oneloop_ns=(4450, 4650, 4300))
    assert {change.verdict for change in compare.changes(old, new)} == {"same"}


@pytest.mark.parametrize(
    ("metric", "number", "text"),
    [
        ("server_cpu_ns", 4400, "4.40 µs"),
        ("ns_per_op", 99.96, "100 ns"),
        ("p50_ns", 2.5e9, "2.50 s"),
        ("rss_bytes", 20 << 20, "20.0 MiB"),
        ("bytes_per_item", 1000, "1000 B"),
        ("throughput", 123456, "123,456"),
        ("cpu_share", 0.5, "50 %"),
    ],
)
def test_figures_in_words(metric: str, number: float, text: str) -> None:
    assert figures.value(metric, number) == text


def test_markdown_results_hide_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(make_document(), tmp_path / "run.json")
    assert markdown.main([str(tmp_path / "run.json")]) == 0
    text = capsys.readouterr().out
    for expected in ("**oneloop**", "died: signal SIGSEGV", "curio is not installed", "python -m bench", "careful"):
        assert expected in text
    assert markdown.main([]) == 2


@pytest.mark.parametrize("width", [80, 120, 250])
def test_terminal_tables_show_every_column_whatever_the_width(width: int) -> None:
    if importlib.util.find_spec("rich") is None:
        pytest.skip("rich is not installed: requirements/bench-tools.txt")
    from rich.console import Console

    from bench.report import terminal

    console = Console(width=width, record=True, file=io.StringIO())
    terminal.show_case(console, make_document()["cases"][0])
    text = console.export_text()
    for expected in ("CPU/msg", "user", "system", "per second", "p50", "RSS", "4.50 µs", "missing"):
        assert expected in text


def test_a_program_is_compared_with_itself_on_the_baselines_loop() -> None:
    rows = [
        Row("floor", samples=[sample(4_000)]),
        Row("httptools on uvloop", samples=[sample(8_000)]),
        Row("aiohttp on uvloop", samples=[sample(40_000)]),
        Row("aiohttp on oneloop", samples=[sample(30_000)]),
        Row("uvicorn on asyncio", samples=[sample(40_000)]),
        Row("uvicorn on oneloop", samples=[sample(20_000)]),
    ]
    names = [row.rival for row in rows]
    case = Case("http", "x", {}, "server_cpu_ns", "CPU", names, unmeasured, baseline="httptools on uvloop")
    data = case_data(Result(case, rows, 1))
    ratios = [row["ratio"]["median"] for row in data["rows"] if "ratio" in row]
    assert ratios == [0.5, 1.0, 1.0, 0.75, 1.0, 0.5]
    assert data["baseline"] == "uvloop"
