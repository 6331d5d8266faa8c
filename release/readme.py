"""The README as package indexes show it: links into the repository become addresses of the released version's files."""

from __future__ import annotations

import re

_LINK = re.compile(r"(\]\()(?!\w+:|#)([^)\s]+\))")


def with_absolute_links(text: str, repository: str, version: str) -> str:
    """Replace each relative link of a Markdown text.

    Args:
        text: the document, which is at the root of the repository.
        repository: the address of the repository.
        version: the released version; the links lead to its tag.

    Returns:
        The text with absolute links.
    """
    return _LINK.sub(rf"\g<1>{repository}/blob/v{version}/\g<2>", text)


def links(text: str) -> list[str]:
    """Every target of a link."""
    return re.findall(r"\]\(([^)\s]+)\)", text)
