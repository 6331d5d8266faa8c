"""Which module of the Python package imports which other one when it runs, read from its source.

What only a type checker imports (`if TYPE_CHECKING`) does not count. An import in a function does. A name that a
package takes from one of its modules counts as a use of that module, also if the package loads it on first use.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "python"


class PythonImports:
    """The modules of a package and their imports of each other, by their full names.

    Args:
        root: the folder in which the package is.
        package: its name.
    """

    def __init__(self, root: Path = SOURCE, package: str = "oneloop") -> None:
        self._trees: dict[str, ast.Module] = {}
        self._packages: set[str] = set()
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
                self._packages.add(".".join(parts))
            self._trees[".".join(parts)] = ast.parse(path.read_text(encoding="utf-8"))
        self.uses = {module: self._uses_of(module) for module in self._trees}

    def _uses_of(self, module: str) -> set[str]:
        used = set()
        for node in _run(self._trees[module].body):
            if isinstance(node, ast.Import):
                used |= {alias.name for alias in node.names}
            else:
                base = node.module or ""
                if node.level:
                    parts = module.split(".")
                    kept = len(parts) - node.level + (module in self._packages)
                    base = ".".join([*parts[:kept], base]).rstrip(".")
                used |= {self._home(base, alias.name) for alias in node.names}
        return {name for name in used if name in self._trees and name != module}

    def _home(self, base: str, name: str) -> str:
        """Return the module that defines a name, as far as packages take it from their own modules."""
        while f"{base}.{name}" not in self._trees and base in self._packages:
            for node in ast.walk(self._trees[base]):
                if isinstance(node, ast.ImportFrom) and any(
                    (alias.asname or alias.name) == name for alias in node.names
                ):
                    if node.module is None or not node.module.startswith(base + "."):
                        return base
                    base = node.module
                    break
            else:
                return base
        return f"{base}.{name}" if f"{base}.{name}" in self._trees else base


def _run(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from _run(node.orelse)
        else:
            for name in ("body", "orelse", "finalbody"):
                yield from _run(getattr(node, name, []) if not isinstance(node, ast.expr) else [])
            for part in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
                yield from _run(part.body)
