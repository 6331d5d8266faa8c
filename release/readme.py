"""Prepares the README for package indexes, which have no other files: relative links become their text.

There is no repository yet that absolute links could lead to. `oneloop docs` shows the pages.
"""

from __future__ import annotations

import re

_PICTURE = re.compile(r"<picture>.*?</picture>\n*|!\[[^]]*\]\((?!\w+:)[^)]*\)\n*", re.DOTALL)
_LINK = re.compile(r"\[((?:[^]\[`]|`[^`]*`)+)\]\((?!\w+:|#)[^)\s]+\)")


def without_relative_links(text: str) -> str:
    """Return a Markdown text without pictures and links that are relative.

    Args:
        text: the document.

    Returns:
        The text, in which a link to another file is the link's text. Links inside the document stay.
    """
    return _LINK.sub(r"\1", _PICTURE.sub("", text))


def links(text: str) -> list[str]:
    """Return the target of each link."""
    return re.findall(r"\]\(([^)\s]+)\)", text)
