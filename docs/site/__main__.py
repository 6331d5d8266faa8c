"""Builds the site: stages the sources in .build/docs/source, then runs Sphinx. A warning is an error.

The staged tree has the repository's layout, so relative links between Markdown files lead to the same pages on the site
and on a code host. The README is the start page. Files that did not change are not written, so that Sphinx only reads
what changed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path

from docs.site.pages import ROOT, api_pages, navigation, sections

BUILD = ROOT / ".build/docs"
PICTURES = "docs/pictures"

_LINK = re.compile(r"\]\(((?:\.\./)*)README\.md(#[^)]*)?\)")


def staged() -> dict[str, bytes]:
    """Every source of the site by its path: pages, pictures, the API reference's pages."""
    files = {"index.md": ((ROOT / "README.md").read_text(encoding="utf-8") + navigation()).encode()}
    for page in (page for pages in sections().values() for page in pages):
        files[page] = _with_start_page((ROOT / page).read_text(encoding="utf-8"), page).encode()
    for picture in sorted((ROOT / PICTURES).glob("*.svg")):
        files[f"{PICTURES}/{picture.name}"] = picture.read_bytes()
    return files | {name: text.encode() for name, text in api_pages().items()}


def _with_start_page(text: str, page: str) -> str:
    """Leads links to the root's README.md to the page that it has become."""
    depth = page.count("/")

    def lead(found: re.Match[str]) -> str:
        is_root = found[1].count("../") == depth
        return f"]({found[1]}index.md{found[2] or ''})" if is_root else found[0]

    return _LINK.sub(lead, text)


def stage(folder: Path) -> None:
    """Makes the folder hold exactly the sources."""
    files = staged()
    for name, data in files.items():
        target = folder / name
        if not target.exists() or target.read_bytes() != data:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if path.relative_to(folder).as_posix() not in files:
            path.unlink()


def build(target: Path, *, is_clean: bool = False) -> int:
    """Builds the site in target/html; returns Sphinx's exit status."""
    from sphinx.cmd.build import build_main

    if is_clean:
        shutil.rmtree(target, ignore_errors=True)
    stage(target / "source")
    options = ["-q", "-W", "--keep-going", "-b", "html", "-c", str(Path(__file__).parent), "-d", str(target / "cache")]
    return int(build_main([*options, str(target / "source"), str(target / "html")]))


def main(args: list[str]) -> int:
    """Builds the site and prints the path of its start page."""
    parser = argparse.ArgumentParser(prog="python -m docs.site", description="Builds the documentation site.")
    parser.add_argument("--clean", action="store_true", help="build everything again")
    parser.add_argument("--out", type=Path, default=BUILD, help="the folder for the site (default: .build/docs)")
    options = parser.parse_args(args)
    target = options.out.resolve()
    status = build(target, is_clean=options.clean)
    if status == 0:
        print(target / "html/index.html")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
