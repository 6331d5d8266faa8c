"""Takes the examples out of the documents.

A fenced block ```python is a program. One whose first line is `# name.py` is written to a file of
that name, for the blocks after it; any other runs by itself. A block ```console holds commands
behind `$ ` with what they print behind them (`...` stands for anything). Both run in a folder that
the document's blocks share, in order. Blocks of other languages are text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w./-]+\.py)\n")


@dataclass(frozen=True)
class Example:
    """One block of a document."""

    language: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The name of the file that it is to become."""
        named = _FILE.match(self.text)
        return named.group(1) if named and self.language == "python" else None

    @property
    def commands(self) -> list[tuple[str, str]]:
        """Each command with the output that is expected of it."""
        found: list[tuple[str, str]] = []
        for line in self.text.splitlines(keepends=True):
            if line.startswith("$ "):
                found.append((line[2:].strip(), ""))
            else:
                command, output = found[-1]
                found[-1] = (command, output + line)
        return found


def documents() -> list[Path]:
    """Every document of the project."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def examples(document: Path) -> list[Example]:
    """The blocks that can be run, in order."""
    text = document.read_text(encoding="utf-8")
    return [
        Example(found.group(1), found.group(2), text.count("\n", 0, found.start()) + 1)
        for found in _BLOCK.finditer(text)
    ]
