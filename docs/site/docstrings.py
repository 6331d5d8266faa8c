"""A Sphinx extension: turns docstrings, which are plain text with Markdown's code marks, into reStructuredText.

One backtick marks code, three a block. Stars, bars and trailing underscores are plain characters.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_SPECIAL = re.compile(r"[*|]|(?<=\w)_(?!\w)")


def converted(text: str) -> str:
    """The docstring as reStructuredText."""
    parts = re.split(r"^( *)```\w*\n(.*?)^ *```$", text, flags=re.MULTILINE | re.DOTALL)
    found = [_prose(parts[0])]
    for indent, block, after in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        lines = "".join(f"   {line}" for line in block.splitlines(keepends=True))
        found.append(f"{indent}::\n\n{lines}{_prose(after)}")
    return "".join(found)


def _prose(text: str) -> str:
    paragraphs = re.split(r"(\n{2,})", text)
    return "".join(part if part.lstrip().startswith(">>>") else _paragraph(part) for part in paragraphs)


def _paragraph(text: str) -> str:
    found = []
    end = 0
    for code in _CODE.finditer(text):
        before = _SPECIAL.sub(r"\\\g<0>", text[end : code.start()])
        # The marks of reStructuredText need a boundary: an escaped space is one that is not shown.
        opening = "\\ " if before[-1:].isalnum() else ""
        closing = "\\ " if text[code.end() : code.end() + 1].isalnum() else ""
        found.append(f"{before}{opening}``{code[1]}``{closing}")
        end = code.end()
    return "".join(found) + _SPECIAL.sub(r"\\\g<0>", text[end:])


def _process(_app: Sphinx, _what: str, _name: str, _value: object, _options: object, lines: list[str]) -> None:
    lines[:] = converted("\n".join(lines)).split("\n")


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx. Runs before napoleon, which reads the sections Args, Returns and Raises."""
    app.connect("autodoc-process-docstring", _process, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
