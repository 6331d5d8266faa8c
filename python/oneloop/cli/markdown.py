"""Shows a page of the documents: as text for a terminal, or as HTML. It knows the Markdown that the documents use.

That is headings, paragraphs, lists, tables, fenced code, and inline code, emphasis, links and pictures.
"""

from __future__ import annotations

import html
import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Block", "as_html", "as_text", "blocks", "title"]

_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_INLINE = re.compile(
    r"`(?P<code>[^`]+)`|!\[(?P<picture>[^]]*)\]\([^)]*\)|\*\*(?P<strong>.+?)\*\*"
    r"|\[(?P<link>(?:[^]`]|`[^`]*`)+)\]\((?P<target>[^)\s]+)\)"
)
_ITEM = re.compile(r"(?P<indent> *)(?P<mark>[-*]|\d+\.) +")
_CELL = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"\|[-:| ]+\|$")

_BOLD, _DIM, _UNDERLINED, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[4m", "\x1b[0m"


@dataclass(frozen=True)
class Block:
    """One block of a page."""

    kind: str
    """`heading`, `paragraph`, `item`, `table` or `code`."""
    text: str
    level: int = 0
    """Of a heading: its number of `#`. Of an item: its indentation in columns."""
    mark: str = ""
    """Of an item: `-` or its number."""


def title(text: str) -> str:
    """Return the first heading of a page, or nothing."""
    return next((block.text for block in blocks(text) if block.kind == "heading"), "")


def blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a page. Comments are left out."""
    lines = _COMMENT.sub("", text).splitlines()
    place = 0
    while place < len(lines):
        line = lines[place]
        end = place + 1
        item = _ITEM.match(line)
        if line.lstrip().startswith("```"):
            fence = line.strip()[: len(line.strip()) - len(line.strip().lstrip("`"))]
            while end < len(lines) and lines[end].strip() != fence:
                end += 1
            yield Block("code", textwrap.dedent("\n".join(lines[place + 1 : end])))
            end += 1
        elif line.startswith("#"):
            level = len(line) - len(line.lstrip("#"))
            yield Block("heading", line[level:].strip(), level)
        elif line.startswith("|"):
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            yield Block("table", "\n".join(lines[place:end]))
        elif line.strip():
            while end < len(lines) and _goes_on(lines[end]):
                end += 1
            words = " ".join(part.strip() for part in lines[place:end])
            if item is not None:
                yield Block("item", words[len(item["mark"]) :].strip(), len(item["indent"]), item["mark"])
            else:
                yield Block("paragraph", words)
        place = end


def _goes_on(line: str) -> bool:
    """Whether a line belongs to the paragraph or item before it."""
    return bool(line.strip()) and not line.startswith(("#", "|")) and "```" not in line and not _ITEM.match(line)


def _cells(table: str) -> list[list[str]]:
    """The rows of a table; the first one is its head."""
    rows = [line for line in table.splitlines() if not _RULE.match(line)]
    return [[cell.strip().replace("\\|", "|") for cell in _CELL.split(row.strip().strip("|"))] for row in rows]


def as_text(text: str, width: int) -> str:
    """Return a page for a terminal, with escape sequences.

    Args:
        text: the page in Markdown.
        width: columns of the terminal. Paragraphs are filled to this width, and to 100 at most.
    """
    width = max(30, min(width, 100))
    parts: list[str] = []
    for block in blocks(text):
        if block.kind == "heading":
            parts.append(f"{_BOLD}{_UNDERLINED if block.level == 1 else ''}{_styled(block.text)}{_PLAIN}\n")
        elif block.kind == "code":
            parts.append("".join(f"    {_DIM}{line}{_PLAIN}\n" if line else "\n" for line in block.text.splitlines()))
        elif block.kind == "table":
            parts.append(_table_as_text(block.text, width))
        elif block.kind == "item":
            first = " " * block.level + f"  {block.mark} "
            parts.append(_filled(block.text, width, first, " " * len(first)))
        else:
            parts.append(_filled(block.text, width, "", ""))
    return "\n".join(parts)


def _table_as_text(table: str, width: int) -> str:
    """A table whose last column is filled. If the others leave too little space, each row is a short list."""
    rows = _cells(table)
    widths = [max(len(_bare(row[place])) for row in rows if place < len(row)) for place in range(len(rows[0]))]
    before = sum(widths[:-1]) + 2 * len(widths[:-1])
    lines = []
    if width - before < 24:
        head, *body = rows
        for row in body:
            lines.append(_filled(row[0], width, "", "  "))
            lines += [
                _filled(f"{name}: {cell}", width, "  ", "    ") for name, cell in zip(head[1:], row[1:], strict=False)
            ]
        return "".join(lines)
    for number, row in enumerate(rows):
        first = "".join(
            _styled(cell) + " " * (size - len(_bare(cell)) + 2) for cell, size in zip(row, widths[:-1], strict=False)
        )
        wrapped = textwrap.wrap(_bare(row[-1]), width - before) or [""]
        if len(wrapped) == 1:
            wrapped = [_styled(row[-1])]
        line = f"\n{' ' * before}".join(wrapped)
        lines.append(f"{_BOLD}{first}{line}{_PLAIN}\n" if number == 0 else f"{first}{line}\n")
    return "".join(lines)


def _filled(text: str, width: int, first: str, others: str) -> str:
    """A paragraph. Words are counted without escape sequences."""
    words, line, length, lines = _styled(text).split(" "), first, len(first), []
    is_empty = True
    for word in words:
        size = len(re.sub(r"\x1b\[\d+m", "", word))
        if not is_empty and length + 1 + size > width:
            lines.append(line)
            line, length, is_empty = others, len(others), True
        line += word if is_empty else f" {word}"
        length += size if is_empty else size + 1
        is_empty = False
    return "\n".join([*lines, line]) + "\n"


def _styled(text: str) -> str:
    """The text of a block with escape sequences; a link shows its text."""

    def show(found: re.Match[str]) -> str:
        if found["code"] is not None:
            return f"{_BOLD}{found['code']}{_PLAIN}"
        if found["strong"] is not None:
            return f"{_BOLD}{_bare(found['strong'])}{_PLAIN}"
        if found["link"] is not None:
            target = found["target"]
            page = f" ({target})" if target.startswith("http") else ""
            return f"{_UNDERLINED}{_bare(found['link'])}{_PLAIN}{page}"
        return f"[picture: {found['picture']}]"

    return _INLINE.sub(show, text)


def _bare(text: str) -> str:
    """The text without marks."""
    return re.sub(r"\x1b\[\d+m", "", _INLINE.sub(lambda found: found["code"] or _bare_of(found), text))


def _bare_of(found: re.Match[str]) -> str:
    inner = found["strong"] or found["link"]
    return _bare(inner) if inner else f"[picture: {found['picture']}]"


_PAGE = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.55 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }}
pre {{ background: #8881; padding: .8rem; overflow-x: auto; border-radius: 6px }}
code {{ font-family: ui-monospace, monospace; font-size: .92em }}
table {{ border-collapse: collapse; display: block; overflow-x: auto }}
td, th {{ border: 1px solid #8885; padding: .3rem .6rem; text-align: left; vertical-align: top }}
</style></head><body>
{body}
</body></html>
"""


def as_html(text: str) -> str:
    """Return a page as an HTML document without scripts and without references to other files."""
    parts: list[str] = []
    open_items: list[tuple[int, str]] = []
    for block in blocks(text):
        while open_items and (block.kind != "item" or block.level < open_items[-1][0]):
            parts.append(f"</{open_items.pop()[1]}>")
        if block.kind == "heading":
            parts.append(f"<h{block.level}>{_marked(block.text)}</h{block.level}>")
        elif block.kind == "code":
            parts.append(f"<pre><code>{html.escape(block.text)}</code></pre>")
        elif block.kind == "table":
            head, *body = _cells(block.text)
            parts.append("<table>" + _row(head, "th") + "".join(_row(row, "td") for row in body) + "</table>")
        elif block.kind == "item":
            if not open_items or block.level > open_items[-1][0]:
                name = "ul" if block.mark in "-*" else "ol"
                open_items.append((block.level, name))
                parts.append(f"<{name}>")
            parts.append(f"<li>{_marked(block.text)}</li>")
        else:
            parts.append(f"<p>{_marked(block.text)}</p>")
    parts += [f"</{name}>" for _, name in reversed(open_items)]
    return _PAGE.format(title=html.escape(_bare(title(text))), body="\n".join(parts))


def _row(cells: list[str], name: str) -> str:
    return "<tr>" + "".join(f"<{name}>{_marked(cell)}</{name}>" for cell in cells) + "</tr>"


def _marked(text: str) -> str:
    """The text of a block as HTML. A link to another page, which is another file, is only its text."""
    made, place = "", 0
    for found in _INLINE.finditer(text):
        made += html.escape(text[place : found.start()])
        place = found.end()
        if found["code"] is not None:
            made += f"<code>{html.escape(found['code'])}</code>"
        elif found["strong"] is not None:
            made += f"<strong>{_marked(found['strong'])}</strong>"
        elif found["link"] is not None:
            inner, target = _marked(found["link"]), found["target"]
            made += f'<a href="{html.escape(target)}">{inner}</a>' if target.startswith("https://") else inner
        else:
            made += f"<em>[picture: {html.escape(found['picture'])}]</em>"
    return made + html.escape(text[place:])
