"""`oneloop docs`: shows the documents that are installed with the package."""

from __future__ import annotations

import argparse
import difflib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import oneloop
from oneloop.cli import markdown

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["find", "folder", "main", "pages", "parser"]

_ORDER = ("", "tutorial", "how-to", "reference", "explanation", "how-to/recipes")
"""Folders, in the order of the list. A name that is in several folders means the page of the first."""


def folder() -> Path:
    """Return the folder of the pages. In a checkout it has links to the folder `docs`."""
    return Path(oneloop.__file__).parent / "documents"


def pages() -> dict[str, Path]:
    """Return each page's file by its name, such as `how-to/serve`, in the order of the list."""
    root = folder()
    # followlinks: the folders of a checkout are links.
    files = [Path(top) / name for top, _, names in os.walk(root, followlinks=True) for name in names]
    found = {file.relative_to(root).with_suffix("").as_posix(): file for file in files if file.suffix == ".md"}
    return {name: found[name] for name in sorted(found, key=_place)}


def _place(name: str) -> tuple[int, str]:
    parent = name.rpartition("/")[0]
    return (_ORDER.index(parent) if parent in _ORDER else len(_ORDER), name)


def find(asked: str, names: Sequence[str]) -> list[str]:
    """Return the pages that a word may mean, the likeliest first.

    Args:
        asked: a name as in the list, or its end; with or without `docs/` and `.md`.
        names: the names of all pages, in the order of the list.
    """
    word = asked.removeprefix("docs/").removesuffix(".md").strip("/").casefold()
    return [name for name in names if name.casefold() == word or name.casefold().endswith(f"/{word}")]


def parser() -> argparse.ArgumentParser:
    """Return the parser."""
    made = argparse.ArgumentParser(
        prog="oneloop docs",
        usage="oneloop docs [--open] [PAGE]",
        description="Show a page of the documents that are installed with oneloop: as text in a terminal, as Markdown"
        " in a pipe. Without PAGE: the list of pages.",
        allow_abbrev=False,
    )
    made.add_argument("page", nargs="?", metavar="PAGE", help="a page's name, such as serve or reference/serve")
    made.add_argument("--open", action="store_true", help="open the page in a browser")
    return made


def main(arguments: list[str]) -> None:
    """Run `oneloop docs`.

    Args:
        arguments: the command line after `oneloop docs`.

    Raises:
        SystemExit: 0; 1 if no browser can be opened or stdout cannot be written; 2 if there is no such page.
    """
    given = parser().parse_args(arguments)
    known = pages()
    try:
        if given.page is None and not given.open:
            _write(_list(known))
            raise SystemExit(0)
        found = find(given.page or "README", list(known))
        if not found:
            _refuse(given.page or "README", known)
        if given.open:
            raise SystemExit(_open(found[0], known[found[0]]))
        text = known[found[0]].read_text(encoding="utf-8")
        _write(markdown.as_text(text, shutil.get_terminal_size().columns) if sys.stdout.isatty() else text)
        if len(found) > 1:
            others = " and ".join(f"oneloop docs {name}" for name in found[1:])
            print(f"This is {found[0]}. See also: {others}", file=sys.stderr)
    except BrokenPipeError:
        # The reader, such as head, has ended. The interpreter would write again at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise SystemExit(1) from None
    except OSError as error:
        print(f"oneloop docs: {error}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise SystemExit(1) from None
    raise SystemExit(0)


def _list(known: dict[str, Path]) -> str:
    lines = ["Pages of the documents. Write `oneloop docs PAGE` to read one.", ""]
    width = max((len(name) for name in known), default=0)
    section = ""
    for name, path in known.items():
        if name.rpartition("/")[0] != section:
            section = name.rpartition("/")[0]
            lines.append("")
        lines.append(f"  {name:{width}}  {markdown.title(path.read_text(encoding='utf-8')).replace('`', '')}")
    return "\n".join([*lines, ""])


def _write(text: str) -> None:
    """Print, on a terminal in pages if the text is longer than the screen."""
    if sys.stdout.isatty() and text.count("\n") >= shutil.get_terminal_size().lines:
        import pydoc

        os.environ.setdefault("LESS", "-RFX")
        pydoc.pager(text)
    else:
        sys.stdout.write(text)
        sys.stdout.flush()


def _refuse(asked: str, known: dict[str, Path]) -> None:
    """Name pages that may be meant: those with a similar name, and those that contain the word."""
    ends = {name.rpartition("/")[2]: name for name in reversed(known)}
    near = [ends[end] for end in difflib.get_close_matches(asked, ends, n=3)]
    word = asked.casefold()
    near = near or [name for name, path in known.items() if word in path.read_text(encoding="utf-8").casefold()]
    hint = f" These may be meant: {', '.join(list(dict.fromkeys(near))[:8])}." if near else ""
    print(f"oneloop docs: there is no page {asked!r}.{hint}\nTry 'oneloop docs' for the list.", file=sys.stderr)
    raise SystemExit(2)


def _open(name: str, path: Path) -> int:
    """Open the page of the site if it is built here, or else a temporary file. Return the exit status."""
    import webbrowser

    # In a checkout, `make docs` writes the site. README is its start page.
    site = folder().parents[2] / ".build/docs/html"
    page = site / ("index.html" if name == "README" else f"docs/{name}.html")
    if not page.is_file():
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", prefix=f"oneloop-{name.replace('/', '-')}-", suffix=".html", delete=False
        ) as file:
            file.write(markdown.as_html(path.read_text(encoding="utf-8")))
        page = Path(file.name)
    print(page)
    if webbrowser.open(page.resolve().as_uri()):
        return 0
    print("oneloop docs: no browser could be started. The page is in the file above.", file=sys.stderr)
    return 1
