"""Takes the examples out of the documents.

A fenced block ```python is a program. One whose first line is `# name.py` is written to a file of that
name, for the blocks after it; any other runs by itself. A block of another language whose first line is
`# name`, or that follows a line "`name`:", is a file, too. A block ```console holds commands behind `$ `
with what they print behind them (`...` stands for anything); `tests/docs/terminal.py` says which commands
there are. A block ```sh is a script. All run in a folder that the document's blocks share, in order.

A block after a line `<!-- not run: reason -->` is text, and so are blocks of other languages. A block
without a language holds `pip install` lines, which tell what the document's examples need.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

FILES = ("dockerfile", "ini", "json", "python", "toml")
RUN = ("console", "python", "sh")

_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n|^`(?P<file>[\w./-]+\.\w+)`:\n\n)?"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(r"# ([\w./-]+)\n")


@dataclass(frozen=True)
class Example:
    """One block of a document."""

    language: str
    text: str
    line: int
    not_run: str = ""
    """The reason, if the block says that it is not run."""
    named: str = ""
    """The file's name, if it stands before the block."""

    @property
    def file(self) -> str | None:
        """The name of the file that it is to become."""
        if self.named:
            return self.named
        named = _FILE.match(self.text)
        if named is None or self.language not in FILES:
            return None
        return named.group(1) if self.language != "python" or named.group(1).endswith(".py") else None

    @property
    def commands(self) -> list[tuple[str, str]]:
        """Each command with the output that is expected of it."""
        found: list[tuple[str, str]] = []
        for line in self.text.splitlines(keepends=True):
            if line.startswith("$ "):
                found.append((line[2:].strip(), ""))
            elif found[-1][0].endswith("\\"):
                command, output = found[-1]
                found[-1] = (command[:-1] + line.strip(), output)
            else:
                command, output = found[-1]
                found[-1] = (command, output + line)
        return found


def documents() -> list[Path]:
    """Every document of the project."""
    return sorted(
        [
            *ROOT.glob("*.md"),
            *(
                path
                for folder in ("changes/README", "docs/**/*", "examples/**/*")
                for path in ROOT.glob(f"{folder}.md")
            ),
        ]
    )


def blocks(document: Path) -> list[Example]:
    """Every fenced block."""
    text = document.read_text(encoding="utf-8")
    return [
        Example(
            found["language"],
            found["text"],
            text.count("\n", 0, found.start("language")) + 1,
            found["reason"] or "",
            found["file"] or "",
        )
        for found in _BLOCK.finditer(text)
    ]


def examples(document: Path) -> list[Example]:
    """The blocks that are run or written to files, in order."""
    return [
        block for block in blocks(document) if not block.not_run and (block.language in RUN or block.file is not None)
    ]
