"""Marked regions of a document, whose content is generated: `<!-- record: NAME ARGUMENTS -->…<!-- end record -->`.

A region may be a block of lines or a part of a sentence. Everything outside of the regions is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_REGION = re.compile(r"<!-- record: ([a-z]+)(.*?)-->(.*?)<!-- end record -->", re.DOTALL)
_BEGIN = re.compile(r"<!-- record: [a-z]")


@dataclass(frozen=True)
class Region:
    """The marker of a region. A marker of several lines has an argument in each of its further lines."""

    name: str
    arguments: str

    @property
    def lines(self) -> list[str]:
        """The arguments, one for each line."""
        return [line.strip() for line in self.arguments.splitlines() if line.strip()]


def regions(text: str) -> list[Region]:
    """The regions of a document. Raises ValueError for one that has no end."""
    found = [Region(match[1], match[2]) for match in _REGION.finditer(text)]
    if len(found) != len(_BEGIN.findall(text)):
        raise ValueError("a region has no end, or begins in another region")
    return found


def filled(text: str, content: Callable[[Region], str]) -> str:
    """The document with the content of each region made anew."""
    regions(text)

    def replaced(match: re.Match[str]) -> str:
        made = content(Region(match[1], match[2]))
        return f"{match[0][: match.start(3) - match.start()]}{made}<!-- end record -->"

    return _REGION.sub(replaced, text)
