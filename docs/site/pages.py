"""What the site contains: the sections of its navigation, and the modules of the API reference.

A pattern takes every page that it matches, so a new page needs no change here. The first section that matches a page
lists it.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Caption of a section of the navigation, and patterns of its pages.
SECTIONS: dict[str, list[str]] = {
    "Tutorial": ["docs/tutorial/first-program.md", "docs/tutorial/*.md"],
    "Examples": ["examples/README.md", "examples/*/README.md"],
    "How to": ["docs/how-to/choose.md", "docs/how-to/*.md"],
    "Recipes": ["docs/how-to/recipes/README.md", "docs/how-to/**/*.md"],
    "Reference": ["docs/reference/loop.md", "docs/reference/*.md", "docs/glossary.md"],
    "Explanation": ["docs/explanation/is-it-safe.md", "docs/explanation/*.md"],
    "Benchmarks": ["docs/benchmarks.md", "docs/benchmarks-method.md", "docs/benchmarks-raw.md"],
    "Design": ["ARCHITECTURE.md", "SAFETY.md", "docs/design/README.md", "docs/design/*.md"],
    "The project": ["CONTRIBUTING.md", "CHANGELOG.md", "changes/README.md", "docs/*.md", "docs/**/*.md"],
}

#: Public modules, in the order of the API reference. tests/package/test_names.py checks their names.
MODULES = [
    "oneloop",
    "oneloop.files",
    "oneloop.tls",
    "oneloop.http",
    "oneloop.http.logs",
    "oneloop.gunicorn",
    "oneloop.check",
    "oneloop.testing",
    "oneloop.stats_socket",
    "oneloop.aio",
    "oneloop.green",
    "oneloop.green.core",
    "oneloop.green.event",
    "oneloop.green.exceptions",
    "oneloop.green.greenlet",
    "oneloop.green.hub",
    "oneloop.green.local",
    "oneloop.green.lock",
    "oneloop.green.pool",
    "oneloop.green.queue",
    "oneloop.green.threadpool",
    "oneloop.green.timeout",
    "oneloop.green.waiter",
    "oneloop.green.watchers",
    "oneloop.compat",
    "oneloop.compat.aiofiles",
    "oneloop.compat.gevent.modules",
    "oneloop.compat.httpcore",
    "oneloop.compat.httptools",
    "oneloop.compat.httptools.parser",
    "oneloop.compat.linux_aio",
    "oneloop.compat.linux_aio.block",
    "oneloop.compat.linux_aio_bind",
    "oneloop.compat.uvloop",
]

#: Bases whose members are documented elsewhere; the members of all other bases are shown with the class.
FOREIGN_BASES = ["BaseEventLoop", "BaseDefaultEventLoopPolicy", "DefaultEventLoopPolicy", "object"]


def sections() -> dict[str, list[str]]:
    """The pages of each section as paths from the root, each page once. Sections without pages are left out."""
    listed: set[Path] = set()
    found: dict[str, list[str]] = {}
    for caption, patterns in SECTIONS.items():
        pages = [page for pattern in patterns for page in sorted(ROOT.glob(pattern))]
        new = [page for page in dict.fromkeys(pages) if page not in listed]
        listed.update(new)
        if new:
            found[caption] = [page.relative_to(ROOT).as_posix() for page in new]
    return found


def navigation() -> str:
    """The tables of contents, which follow the README on the start page."""
    parts = []
    for caption, pages in {**sections(), "API": ["api/index.md"]}.items():
        names = "\n".join(page.removesuffix(".md") for page in pages)
        parts.append(f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{names}\n```\n")
    return "".join(parts)


def api_pages() -> dict[str, str]:
    """The text of each page of the API reference, by its path."""
    names = "\n".join(MODULES)
    pages = {
        "api/index.md": "# API reference\n\nThe public modules, from their docstrings and from the stubs of the native "
        f"module.\n\n```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n"
    }
    described: dict[int, str] = {}
    for module in MODULES:
        pages[f"api/{module}.rst"] = _api_page(module, described)
    return pages


def is_foreign(module: str, value: object) -> bool:
    """Whether a facade passes on what is the original's."""
    package = str(getattr(value, "__module__", "")).partition(".")[0]
    return module.startswith("oneloop.compat.") and package == module.rpartition(".")[2]


def _api_page(module: str, described: dict[int, str]) -> str:
    """One module. `described`: the page of each object by its id; an object that several modules export has one."""
    public = importlib.import_module(module)
    repeated = []
    foreign = []
    for name in public.__all__:
        value = getattr(public, name)
        if is_foreign(module, value):
            foreign.append(name)
        elif inspect.isclass(value) or inspect.isroutine(value):
            full_name = described.setdefault(id(value), f"{module}.{name}")
            if full_name != f"{module}.{name}":
                repeated.append((name, full_name))
    lines = [module, "=" * len(module), "", f".. automodule:: {module}"]
    if module == "oneloop":
        lines.append(f"   :inherited-members: {', '.join(FOREIGN_BASES)}")
    left_out = [*foreign, *(name for name, _ in repeated)]
    if left_out:
        lines += [f"   :exclude-members: {', '.join(left_out)}", ""]
    if repeated:
        lines += ["Described on other pages:", ""]
        lines += [f"- ``{name}``: :py:obj:`{full_name}`" for name, full_name in repeated]
    if foreign:
        original = module.rpartition(".")[2]
        lines += ["", f"Those of {original} itself: {', '.join(f'``{name}``' for name in foreign)}"]
    return "\n".join(lines) + "\n"
