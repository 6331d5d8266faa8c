"""Prepares the README for package indexes: relative links become links to the released version in the repository."""

from __future__ import annotations

import re

_LINK = re.compile(r"(\]\()(?!\w+:|#)([^)\s]+\))")


def with_absolute_links(text: str, repository: str, version: str) -> str:
    """Replace each relative link of a Markdown text.

    Args:
        text: the document, whose links are relative to the root of the repository.
        repository: the address of the repository.
        version: the released version. The links lead to its tag.

    Returns:
        The text with absolute links.
    """
    return _LINK.sub(rf"\g<1>{repository}/blob/v{version}/\g<2>", text)


def links(text: str) -> list[str]:
    """Return the target of each link."""
    return re.findall(r"\]\(([^)\s]+)\)", text)
