"""`oneloop docs`: finds the installed pages, and shows them as Markdown, for a terminal and as HTML."""

from __future__ import annotations

import os
import pty
import re
import shlex
import sys
import webbrowser
from html.parser import HTMLParser
from pathlib import Path

import pytest

from oneloop.cli import docs, markdown
from tests.cli.command import run

DOCS = (sys.executable, "-m", "oneloop", "docs")
ESCAPE = re.compile(r"\x1b\[\d+m")

PAGE = """\
# Title of `it`

<!-- record: x -->
One **bold** word, a [link](other.md#part) and a [site](https://example.org/),
in two lines.
<!-- end record -->

1. first
2. second with a
   second line
   - inner

| name | meaning |
|---|---|
| `a\\|b` | <b> & c |

```sh
$ echo '# not a heading'
```
"""


class Tags(HTMLParser):
    """Checks that what is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def shown_html(page: str) -> Tags:
    tags = Tags()
    tags.feed(markdown.as_html(page))
    assert tags.open == []
    return tags


def test_a_page_has_blocks_of_each_kind() -> None:
    found = [(block.kind, block.text) for block in markdown.blocks(PAGE)]
    assert found == [
        ("heading", "Title of `it`"),
        (
            "paragraph",
            "One **bold** word, a [link](other.md#part) and a [site](https://example.org/), in two lines.",
        ),
        ("item", "first"),
        ("item", "second with a second line"),
        ("item", "inner"),
        ("table", "| name | meaning |\n|---|---|\n| `a\\|b` | <b> & c |"),
        ("code", "$ echo '# not a heading'"),
    ]
    assert markdown.title(PAGE) == "Title of `it`"


def test_text_for_a_terminal_is_filled_and_has_no_marks() -> None:
    text = ESCAPE.sub("", markdown.as_text(PAGE, 40))
    assert max(map(len, text.splitlines())) <= 40
    assert "One bold word, a link and a site\n(https://example.org/), in two lines." in text
    assert "  1. first\n" in text
    assert "     - inner\n" in text
    assert re.search(r"^a\|b +<b> & c$", text, re.MULTILINE)
    assert "    $ echo '# not a heading'\n" in text


def test_html_has_no_link_to_a_file_that_is_not_there() -> None:
    page = markdown.as_html(PAGE)
    assert re.findall(r'href="([^"]*)"', page) == ["https://example.org/"]
    assert "<title>Title of it</title>" in page
    assert "<td>&lt;b&gt; &amp; c</td>" in page
    assert "<ol>\n<li>first</li>\n<li>second with a second line</li>\n<ul>\n<li>inner</li>\n</ul>\n</ol>" in page
    assert "a|b" in shown_html(PAGE).text


@pytest.mark.parametrize("name", docs.pages())
def test_every_page_can_be_shown(name: str) -> None:
    text = docs.pages()[name].read_text(encoding="utf-8")
    plain = ESCAPE.sub("", markdown.as_text(text, 80))
    assert "](" not in re.sub(r"^    .*$", "", plain, flags=re.MULTILINE)
    assert set(re.findall(r"\w{12,}", markdown.title(text))) <= set(re.findall(r"\w{12,}", plain))
    assert shown_html(text).text


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("serve", ["how-to/serve", "reference/serve"]),
        ("reference/serve", ["reference/serve"]),
        ("docs/reference/serve.md", ["reference/serve"]),
        ("readme", ["README", "how-to/recipes/README"]),
        ("nothing", []),
    ],
)
def test_a_name_means_a_page(asked: str, expected: list[str]) -> None:
    assert docs.find(asked, list(docs.pages())) == expected


def test_in_a_pipe_a_page_is_markdown(tmp_path: Path) -> None:
    done = run(*DOCS, "serve", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "This is how-to/serve. See also: oneloop docs reference/serve\n")
    assert done.stdout == docs.pages()["how-to/serve"].read_text(encoding="utf-8")


def test_without_a_page_it_lists_all(tmp_path: Path) -> None:
    done = run(*DOCS, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[0] for line in done.stdout.splitlines()[2:] if line] == list(docs.pages())


def test_a_page_that_does_not_exist_is_refused_with_advice(tmp_path: Path) -> None:
    done = run(*DOCS, "servee", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no page 'servee'. These may be meant: how-to/serve" in done.stderr
    assert "how-to/choose-a-file-engine" in run(*DOCS, "io_uring", cwd=tmp_path).stderr


def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    done = run("/bin/sh", "-c", f"{shlex.quote(sys.executable)} -m oneloop docs serve > /dev/full", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "oneloop docs: [Errno 28] No space left on device\n"


def test_on_a_terminal_a_page_is_formatted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal is so long that no pager is started."""
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setenv("LINES", "10000")
        monkeypatch.setenv("COLUMNS", "60")
        with pytest.raises(SystemExit) as ended:
            docs.main(["recipes/flask"])
        shown = os.read(leader, 1 << 20).decode()
    os.close(leader)
    assert ended.value.code == 0
    assert shown.startswith("\x1b[1m\x1b[4m")


def test_open_makes_a_page_and_starts_the_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    # As installed from a wheel: no site is beside it.
    installed = tmp_path / "a" / "b" / "oneloop" / "documents"
    installed.mkdir(parents=True)
    (installed / "README.md").write_text("# oneloop\n")
    monkeypatch.setattr(docs, "folder", lambda: installed)

    def open_first(address: str) -> bool:
        opened.append(address)
        return len(opened) == 1

    monkeypatch.setattr(webbrowser, "open", open_first)
    for status in (0, 1):
        with pytest.raises(SystemExit) as ended:
            docs.main(["--open"])
        assert ended.value.code == status
    said = capsys.readouterr()
    paths = [Path(line) for line in said.out.split()]
    assert opened == [path.as_uri() for path in paths]
    assert all("<h1>oneloop</h1>" in path.read_text(encoding="utf-8") for path in paths)
    assert "no browser could be started" in said.err
    site = tmp_path / "a/.build/docs/html/index.html"
    site.parent.mkdir(parents=True)
    site.write_text("the site")
    with pytest.raises(SystemExit):
        docs.main(["--open"])
    assert opened[-1] == site.as_uri()
