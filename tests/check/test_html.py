"""The page: what it says, that it needs nothing and obeys nobody, and its memory."""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import random
import re
import stat
import tracemalloc
from html.parser import HTMLParser
from pathlib import Path

import pytest

from oneloop.check.outputs import Html, html_page, summary
from oneloop.check.outputs.summary import EDGES_S, FAILURES, FAILURES_EACH, HOSTS, Latencies, Summary
from oneloop.check.result import ERRORS, BadLine, Result

# These have no end tag.
VOID = {"meta"}


class Page(HTMLParser):
    """A page taken apart; fails where an element is not closed."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.rows: list[list[str]] = []
        self._open: list[str] = []
        self.feed(content)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if {"td", "th"} & set(self._open):
            self.rows[-1][-1] += data


def page_of(path: Path, *results: Result) -> Page:
    page = Html(path)
    for result in results:
        page.write(result)
    page.close()
    return Page(path.read_text(encoding="utf-8"))


def test_what_it_says(tmp_path: Path) -> None:
    page = page_of(
        tmp_path / "a.html",
        *[Result(n, f"http://a.example/{n}", status=200, total_s=0.004) for n in range(97)],
        Result(97, "http://b.example/", status=200, total_s=3.0),
        Result(98, "http://b.example/x", status=404, total_s=3.0),
        Result(99, "http://c.example/", error="dns", error_text="no such name", total_s=0.1),
    )
    assert "100 URLs in" in page.text
    assert "still running" not in page.text
    rows = [[cell for cell in row if cell] for row in page.rows]
    for row in (
        ["200", "98"],
        ["404", "1"],
        ["dns", "1"],
        ["up to 5 ms", "97"],
        ["up to 5 s", "2"],
        ["up to 1 s", "0"],
    ):
        assert row in rows
    assert ["b.example", "3.0 s", "3.0 s", "2"] in rows
    assert ["dns", "http://c.example/", "no such name"] in rows
    assert ["404", "http://b.example/x"] in rows
    assert re.search(r"99 responses: p50 (4\.[01]|3\.9) ms, p90 (4\.[01]|3\.9) ms, p99 (2\.9|3\.[01]) s", page.text)
    slowest = [row[0] for row in rows if row and row[0].endswith(".example")]
    assert slowest == ["b.example", "c.example", "a.example"]


def test_it_says_what_it_is_of(tmp_path: Path) -> None:
    page = Html(tmp_path / "a.html", source="<list>.txt")
    page.write(Result(1, "http://a.example:8080/", status=200))
    page.write(Result(2, "http://a.example/", status=200))
    page.write_bad_line(BadLine(3, "x", "no scheme"))
    page.flush()
    running = Page((tmp_path / "a.html").read_text())
    assert "2 URLs in " in running.text
    assert ", 1 bad line, still running" in running.text
    assert re.search(r"<list>\.txt, started \d{4}-\d\d-\d\d \d\d:\d\d UTC", running.text)
    page.interrupt()
    page.close()
    last = Page((tmp_path / "a.html").read_text())
    assert "interrupted: the list was not checked completely" in last.text
    assert "still running" not in last.text
    # A host's ports are servers of their own.
    assert {"a.example", "a.example:8080"} <= {row[0] for row in last.rows if row}
    assert ["bad_line", "1", ""] in last.rows


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        Html(tmp_path / "missing" / "a.html")
    assert raised.value.filename == str(tmp_path / "missing" / "a.html")


def test_it_needs_no_network_and_runs_nothing(tmp_path: Path) -> None:
    page = page_of(tmp_path / "a.html", Result(1, "http://a.example/", error="dns"))
    names = {tag for tag, _ in page.elements}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "use", "image"}
    for tag, attributes in page.elements:
        assert not {"src", "srcset", "style", "data", "background", "xlink:href"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
        assert "href" not in attributes or tag == "a"
    content = (tmp_path / "a.html").read_text(encoding="utf-8")
    style = content.partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    assert "prefers-color-scheme: dark" in style
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = [a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


HOSTILE = [
    "<script>alert(1)</script>",
    "</td></table><h1>x",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    " javascript:alert(1)",
    "java\nscript:alert(1)",
    "data:text/html,<script>",
    "http://<b>.example/'\"&",
    "http://[broken",
    "\u202ehttp://a\x00\x1b\ud800",
    "&lt;script&gt;",
    "x" * 100_000,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_comes_from_outside_is_text(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.html"
    page = page_of(path, Result(1, text, error="protocol", error_text=text))
    plain = page_of(path, Result(1, "http://a.example/", error="protocol", error_text="x"))
    tags = [tag for tag, _ in page.elements]
    assert [tag for tag in tags if tag != "a"] == [tag for tag, _ in plain.elements if tag != "a"]
    links = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    assert links == ([text] if text.startswith("http://") else [])
    clean = "".join(one if one.isprintable() else "�" for one in text)
    assert clean[:200] in page.text
    page_of(path, Result(1, f"http://{text}/", status=200))


def test_a_link_obeys_the_same_rule_in_any_case(tmp_path: Path) -> None:
    page = page_of(tmp_path / "a", Result(1, "HTTPS://A.example/", status=500), Result(2, "JAVASCRIPT:x", status=500))
    assert [attributes["href"] for tag, attributes in page.elements if tag == "a"] == ["HTTPS://A.example/"]
    (title,) = re.findall("<title>.*", (tmp_path / "a").read_text())
    assert title == "<title>oneloop check</title>"


def test_it_is_written_anew_as_it_goes_and_never_half(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("of an earlier run")
    path.chmod(0o640)
    (tmp_path / ".a.html.new").write_text("of a run that was killed")
    page = Html(path)
    first = path.stat().st_ino
    assert "still running" in path.read_text()
    page.flush()
    assert path.stat().st_ino == first
    with path.open() as reader:
        page.write(Result(1, "http://a.example/", status=200))
        page.flush()
        assert reader.read().endswith("</html>\n")
    assert path.stat().st_ino != first
    assert "1 URL in" in path.read_text()
    page.close()
    page.close()
    assert "still running" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["a.html"]


def test_only_a_page_that_is_not_finished_is_loaded_again(tmp_path: Path) -> None:
    page = Html(tmp_path / "a")
    assert 'http-equiv="refresh"' in (tmp_path / "a").read_text()
    page.close()
    assert 'http-equiv="refresh"' not in (tmp_path / "a").read_text()


def test_on_standard_output_it_comes_once(tmp_path: Path) -> None:
    before = os.dup(1)
    with (tmp_path / "a").open("wb") as file:
        os.dup2(file.fileno(), 1)
    try:
        page = Html("-")
        page.flush()
        page.close()
        page.close()
    finally:
        os.dup2(before, 1)
        os.close(before)
    assert (tmp_path / "a").read_text().count("</html>") == 1


def test_short_writes_make_a_whole_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: written(fd, data[:1000]))
    Html(tmp_path / "a").close()
    assert (tmp_path / "a").read_text().endswith("</html>\n")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.00123, "1.2 ms"),
        (0.0123, "12 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (119.9, "119.9 s"),
        (120, "2.0 min"),
    ],
)
def test_times(seconds: float, text: str) -> None:
    assert html_page._seconds(seconds) == text


def test_from_400_on_a_status_is_bad() -> None:
    assert [html_page._kind(outcome) for outcome in ("200", "399", "400", "dns")] == ["good", "good", "bad", "bad"]


def test_a_link_is_followed_and_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("")
    (tmp_path / "link").symlink_to("real")
    page_of(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert "</html>" in (tmp_path / "real").read_text()
    # Not /dev/null: a mistake would replace the machine's own.
    os.mkfifo(tmp_path / "fifo")
    fifo = os.open(tmp_path / "fifo", os.O_RDWR)
    Html(tmp_path / "fifo").close()
    assert os.read(fifo, 1 << 16).endswith(b"</html>\n")
    os.close(fifo)
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)


def test_a_pipe_without_a_name_gets_the_page() -> None:
    """As `--html >(gzip)` and `--html /dev/stdout` name it: a link to what is no path."""
    ours, theirs = os.pipe()
    Html(f"/dev/fd/{theirs}").close()
    os.close(theirs)
    assert os.read(ours, 1 << 16).endswith(b"</html>\n")
    os.close(ours)


def test_a_full_disk_leaves_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Html(tmp_path / "a.html")
    before = (tmp_path / "a.html").read_bytes()

    def no_space(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    page.write(Result(1, "http://a.example/", status=200))
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", no_space)
        with pytest.raises(OSError, match="No space") as raised:
            page.flush()
    assert raised.value.filename == str(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_bytes() == before
    assert os.listdir(tmp_path) == ["a.html"]
    page.close()
    assert "1 URL in" in (tmp_path / "a.html").read_text()


def test_percentiles_are_near() -> None:
    randomness = random.Random(13)
    latencies = Latencies()
    assert latencies.percentile(50) is None
    times = [randomness.lognormvariate(-3, 2) for _ in range(5000)]
    for seconds in times:
        latencies.add(seconds)
    times.sort()
    for percent in (50, 90, 99):
        found = latencies.percentile(percent)
        assert found is not None
        assert abs(found / times[5000 * percent // 100 - 1] - 1) < 0.05
    assert sum(latencies.bars) == latencies.count == 5000
    for place, edge in enumerate((0.0, *EDGES_S)):
        before = latencies.bars[place]
        latencies.add(edge + 1e-9)
        assert latencies.bars[place] == before + 1
    latencies.add(1e9)
    latencies.add(-1.0)


def test_failures_are_few_of_each_kind_and_the_rest_is_counted(tmp_path: Path) -> None:
    results = [Result(n, f"http://a.example/{n}", status=400 + n % 50) for n in range(10_000)]
    results += [Result(n, "http://a.example/", error=error) for n, error in enumerate(ERRORS)]
    page = page_of(tmp_path / "a.html", *results)
    assert f"10,009 in total: the first of each kind are shown, {10_009 - FAILURES:,} more are not shown" in page.text
    few = Summary()
    for number in range(100):
        few.add(Result(number, "http://a.example/", status=500))
    assert len(few.failures) == FAILURES_EACH


def test_memory_is_flat_and_slow_hosts_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    randomness = random.Random(13)
    made = Summary()
    monkeypatch.setattr(summary, "HOSTS", 500)
    tracemalloc.start()
    try:
        for number in range(20_000):
            slow = number % 2000 == 1999
            seconds = 10.0 + number / 1e6 if slow else randomness.random()
            name = f"{'slow' if slow else 'fast'}{number}.example"
            made.add(Result(number, f"http://{name}/", status=200, total_s=seconds))
        assert tracemalloc.get_traced_memory()[0] < 600_000
    finally:
        tracemalloc.stop()
    assert [name for name, _ in made.slowest()[:10]] == [f"slow{n}.example" for n in range(19_999, 0, -2000)]
    assert made.forgotten_hosts >= 19_000 - 500
    assert HOSTS == 5000
