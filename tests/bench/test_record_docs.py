"""The documents fit the record, whether there is one or not; marks of old figures; what a release refuses."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.process import ROOT
from bench.record import plan, source, store
from bench.record.store import Record
from bench.report import record as docs
from bench.report import recorded
from bench.report.recorded import ABSENT, ABSENT_RATIO, Recorded, ratio_arguments
from bench.report.regions import Region, filled, regions
from bench.story import STORY
from tests.bench.test_record import make_case, make_part

ROW = "tcp: 1 KiB"
PAGE = f"""# Page
<!-- record: source -->
<!-- end record -->
<!-- record: rows -->
<!-- end record -->
<!-- record: behind -->
<!-- end record -->
<!-- record: picture pictures/benchmarks-ratios.svg | The ratios. -->
<!-- end record -->
It needs about <!-- record: ratio {ROW}; oneloop / uvloop -->old<!-- end record --> of it.
"""


def make_record() -> Record:
    return Record(schema=store.SCHEMA, suites={"tcp": make_part(make_case())})


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with one page that has every kind of region."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "benchmarks.md").write_text(PAGE, encoding="utf-8")
    (tmp_path / "README.md").write_text(
        f"# Name\n<!-- record: cited -->\n<!-- end record -->\n<!-- record: table\n{ROW}\n-->\n<!-- end record -->\n"
    )
    return tmp_path


def test_figures_in_the_documents_are_those_of_the_record() -> None:
    assert docs.differing(ROOT, store.load()) == [], "run `make record-docs`"


FIGURE = re.compile(r"\d[\d.,]*\s*(?:ns|µs|ms|%)(?!\w)|\b(?:a|one) (?:half|third|quarter)\b|\b(?:twice|\d times)\b")
# Work, not its cost.
NO_COSTS = ("before 10 ms of computing", "measured twice in each round")


@pytest.mark.parametrize("name", ["README.md", docs.MAIN])
def test_no_figure_is_written_by_hand(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", "", filled(text, lambda region: ""), flags=re.MULTILINE | re.DOTALL)
    for work in NO_COSTS:
        text = text.replace(work, "")
    assert FIGURE.findall(text) == [], "name the row in a region, see CONTRIBUTING.md"


# Limits in the code, not its cost: docs/design/0001 and 0002.
LIMITS = {"1.5 µs", "20 µs", "50 µs"}


def test_no_cost_is_written_by_hand_in_another_document() -> None:
    """Of the benchmarks and the decisions, which have their own rules, and of examples of output."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if path.name.startswith("benchmarks") or path.parent.name == "design":
            continue
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        assert set(re.findall(r"\d[\d.,]*\s(?:ns|µs)(?!\w)", text)) <= LIMITS, path


def test_figures_of_a_decision_are_said_to_be_of_its_time() -> None:
    for path in sorted((ROOT / "docs" / "design").glob("0*.md")):
        _, found, numbers = path.read_text(encoding="utf-8").partition("\n## Numbers\n")
        assert not found or numbers.startswith("\n*Measured when this was decided."), path.name


def test_what_a_figure_is() -> None:
    text = "7.3 µs, 40%, 1,000 ns, a third, 3 times, twice; 100 KiB, 5 rounds, three systems, 9 msgs"
    assert len(FIGURE.findall(text)) == 6


def test_the_record_of_the_tree_is_no_trial() -> None:
    record = store.load()
    for suite, part in (record or store.empty())["suites"].items():
        assert not part["trial"], suite
        assert part["settings"]["rounds"] >= plan.LEAST_ROUNDS  # type: ignore[operator]


def test_every_row_that_a_document_names_is_measured() -> None:
    cases = {f"{suite}: {case.name}": case for suite in plan.RECORDED for case in plan.cases(suite)}
    named = 0
    for name in docs.documents(ROOT):
        for region in regions((ROOT / name).read_text(encoding="utf-8")):
            if region.name == "table":
                assert set(region.lines) <= set(cases), name
                named += len(region.lines)
            elif region.name == "ratio":
                row, one, other, metric = ratio_arguments(region.arguments)
                assert {one, other} <= set(cases[row].rivals), (name, row)
                assert metric in ("", cases[row].metric, *cases[row].also), (name, row)
                named += 1
            else:
                assert region.name in ("source", "cited", "rows", "behind", "exchanged", "full", "picture", "story"), (
                    name
                )
    assert named >= 3
    for chapter in STORY:
        assert {chapter.ours, chapter.theirs} <= set(cases[chapter.name].rivals), chapter


def test_no_region_inside_a_sentence_begins_a_line() -> None:
    """Markdown would take the whole line as HTML."""
    for name in docs.documents(ROOT):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(r"^ *<!-- record: ratio", text, re.MULTILINE), name


def test_without_a_record_documents_say_so(tree: Path) -> None:
    docs.write(tree, None)
    text = (tree / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert text.count(ABSENT.strip()) == 4
    assert f"about <!-- record: ratio {ROW}; oneloop / uvloop -->{ABSENT_RATIO}<!-- end record --> of it." in text
    assert not (tree / docs.CHARTS[0]).exists()
    assert docs.differing(tree, None) == []
    assert docs.write(tree, None) == []
    assert docs.objections(tree, None) == ["there is no run of record: `make record`"]


def test_documents_get_the_figures_of_the_record(tree: Path) -> None:
    record = make_record()
    # The record has none of the six rows of the README.
    assert set(docs.write(tree, record)) == {"README.md", docs.MAIN, *docs.CHARTS} - {docs.STORY_CHART}
    text = (tree / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert "oneloop / uvloop -->0.90 ±0.02<!-- end record --> of it." in text
    row = "| tcp | 1 KiB | 4.53 µs | 5.00 µs rloop | 0.95 ±0.20 | 1.00 ±0.01 | 1.00 µs |"
    assert row in text
    assert "| tcp | 1 KiB: p99 | 40.8 µs |" in text
    assert "tcp, 1 KiB: rloop keeps everything." in text
    assert "![The ratios.](pictures/benchmarks-ratios.svg)" in text
    readme = (tree / "README.md").read_text(encoding="utf-8")
    assert row in readme
    cited = "Commit abcdef123456, 2026-12-01, CPython 3.13.0, some CPU, 2 CPUs, Linux 6; 5 rounds, each of 0.5 s"
    assert f"{cited} or of a fixed amount of work." in readme
    assert docs.differing(tree, record) == []
    assert docs.write(tree, record) == []
    # Without the record again, the charts are removed.
    docs.write(tree, None)
    assert not (tree / docs.CHARTS[0]).exists()


def test_a_figure_that_was_edited_is_found(tree: Path) -> None:
    docs.write(tree, make_record())
    page = tree / "README.md"
    page.write_text(page.read_text(encoding="utf-8").replace("4.53 µs", "3.53 µs"), encoding="utf-8")
    assert docs.differing(tree, make_record()) == ["README.md"]


def test_old_figures_are_marked_and_only_a_release_refuses_them(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = make_record()
    docs.write(tree, record)
    monkeypatch.setattr(source, "digest", lambda root, pattern: "changed")
    # The code has changed: the documents still fit the record.
    assert docs.differing(tree, record) == []
    assert any("older than the code" in line for line in docs.objections(tree, record))
    docs.write(tree, record)
    text = (tree / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert recorded.marked_as_stale(text) == frozenset({"tcp"})
    assert "| tcp | 1 KiB ‡ |" in text
    assert "-->0.90 ±0.02‡<!--" in text
    assert "‡ Older than the code" in (tree / "README.md").read_text(encoding="utf-8")
    assert docs.differing(tree, record) == []


def test_rows_that_were_measured_again_are_named(tree: Path) -> None:
    record = make_record()
    record["suites"]["tcp"]["machine"]["busy"] = "3%"
    record["suites"]["tcp"]["cases"][0]["other_noise"] = 0.25
    docs.write(tree, record)
    text = (tree / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert "Measured twice, because a rival differed from itself: tcp: 1 KiB (±0.25)." in text
    assert "| tcp | abcdef123456 | 2026-12-01 | 3% | 2.0 |  |" in text


def test_the_age_of_the_figures_is_said(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = make_record()
    record["suites"]["tcp"]["date"] = (datetime.now(UTC) - timedelta(days=3, hours=1)).isoformat()
    monkeypatch.setattr(source, "digest", lambda root, pattern: "changed")
    said = docs.age(record)
    assert said.startswith("figures: 1 suites recorded, 1 of them older than the code they measure; not recorded: ")
    assert said.endswith("; the oldest of 3 days ago")
    assert docs.age(None) == "figures: no run of record yet"


def test_a_release_refuses_missing_suites_and_unclean_ones(tree: Path) -> None:
    record = make_record()
    record["suites"]["tcp"]["dirty"] = ["crates/a.rs"]
    docs.write(tree, record)
    found = docs.objections(tree, record)
    assert "http is not recorded" in found
    assert any(line.startswith("tcp was measured with uncommitted") for line in found)
    assert "| tcp | 1 KiB § |" in (tree / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_a_trial_is_not_written_into_the_tree(tree: Path, tmp_path: Path) -> None:
    record = make_record()
    record["suites"]["tcp"]["trial"] = True
    store.save(record, tmp_path / "trial.json")
    assert docs.main(["--record", str(tmp_path / "trial.json")]) == 2
    assert docs.main(["--record", str(tmp_path / "trial.json"), "--root", str(tree)]) == 0
    assert docs.main(["--record", str(tmp_path / "trial.json"), "--root", str(tree), "--check"]) == 0
    assert docs.main(["--record", str(tmp_path / "trial.json"), "--root", str(tree), "--release"]) == 1


def test_suites_of_different_conditions_are_told_apart() -> None:
    record = make_record()
    other = make_part(commit="0123456789ab")
    other["versions"] = {"python": "3.14.0"}
    record["suites"]["udp"] = other
    text = Recorded(record, frozenset()).content(Region("cited", ""))
    assert "CPython 3.13.0" in text
    assert "(tcp)." in text
    assert "Commit 0123456789ab" in text
    assert "(udp)." in text


def test_rows_that_are_not_recorded_yet_are_named() -> None:
    known = Recorded(make_record(), frozenset())
    text = known.content(Region("table", f"\n{ROW}\nudp: 64 B\n"))
    assert "| tcp | 1 KiB |" in text
    assert "Not measured yet: udp: 64 B." in text
    for arguments in ("udp: 64 B; oneloop / uvloop", f"{ROW}; oneloop / trio", f"{ROW}; trio / uvloop"):
        assert known.content(Region("ratio", arguments)) == ABSENT_RATIO


def test_regions_are_found_and_must_end() -> None:
    text = (
        "a <!-- record: ratio x; y / z -->1<!-- end record --> b\n<!-- record: table\nr\ns\n-->\n<!-- end record -->\n"
    )
    assert [region.name for region in regions(text)] == ["ratio", "table"]
    assert regions(text)[1].lines == ["r", "s"]
    assert filled(text, lambda region: "N") == text.replace(">1<", ">N<").replace("-->\n<!-- end", "-->N<!-- end")
    with pytest.raises(ValueError, match="no end"):
        regions("<!-- record: rows -->\n")
    with pytest.raises(ValueError, match="no region"):
        Recorded(make_record(), frozenset()).content(Region("nothing", ""))
    with pytest.raises(ValueError, match="not of the form"):
        ratio_arguments("tcp: 1 KiB")
