"""Which file of the native extension uses which other file, read from the imports and paths in its source.

A name that a `mod.rs` exports counts as a use of the file that defines it. What `mod.rs` files themselves use of their
own folder does not count: they list and register it. `lib.rs` does the same for all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "crates/native/src"

Module = tuple[str, ...]
_COMMENT = re.compile(r"//[^\n]*")
_USE = re.compile(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
_PATH = re.compile(r"(?<![\w:])(?:crate|super|self)(?:::\w+)+")
_DEFINED = r"\b(?:fn|struct|enum|trait|const|static|type)\s+{}\b"


@dataclass
class _Source:
    module: Module
    is_folder: bool
    text: str
    """Without comments and imports."""
    imports: list[tuple[str, list[str]]] = field(default_factory=list)
    """Each name that is imported, with its path."""
    exports: dict[str, list[str]] = field(default_factory=dict)
    globs: list[list[str]] = field(default_factory=list)


def _leaves(tree: str) -> list[tuple[str, list[str]]]:
    """Return the names that a `use` makes, with their paths: `a::{b, c as d}` has two."""
    tree = tree.strip()
    if not tree:
        return []
    head, brace, rest = tree.partition("{")
    if not brace:
        path, _, name = tree.partition(" as ")
        parts: list[str] = path.strip().split("::")
        if parts[-1] == "self" and len(parts) > 1:
            parts.pop()
        return [(name or parts[-1], parts)]
    prefix = [part for part in head.strip().split("::") if part]
    inner, depth, start = rest.rstrip()[:-1], 0, 0
    pieces: list[str] = []
    for at, letter in enumerate(inner):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            pieces.append(inner[start:at])
            start = at + 1
    pieces.append(inner[start:])
    leaves: list[tuple[str, list[str]]] = []
    for piece in pieces:
        for name, end in _leaves(piece):
            if end == ["self"]:
                leaves.append((prefix[-1] if name == "self" else name, prefix))
            else:
                leaves.append((name, prefix + end))
    return leaves


class NativeImports:
    """The files of a crate and their uses of each other. A file's name is its module: `http::server::options`.

    Args:
        root: the folder with `lib.rs`.
    """

    def __init__(self, root: Path = SOURCE) -> None:
        self._sources: dict[Module, _Source] = {}
        for path in sorted(root.rglob("*.rs")):
            parts = path.relative_to(root).with_suffix("").parts
            is_folder = parts[-1] in {"mod", "lib"}
            module = parts[:-1] if is_folder else parts
            self._sources[module] = self._read(path.read_text(), module, is_folder)
        self.uses: dict[str, set[str]] = {
            "::".join(module): self._uses_of(module) for module in self._sources if module
        }

    @staticmethod
    def _read(text: str, module: Module, is_folder: bool) -> _Source:
        text = _COMMENT.sub("", text)
        source = _Source(module, is_folder, _USE.sub("", text))
        for public, tree in _USE.findall(text):
            for name, leaf in _leaves(" ".join(tree.split())):
                path = leaf[:-1] if name == "*" else leaf
                source.imports.append((name, path))
                if public and name == "*":
                    source.globs.append(path)
                elif public:
                    source.exports[name] = path
        return source

    def _absolute(self, source: _Source, path: list[str]) -> Module | None:
        """Return the path from the crate's root; None if it leads to another crate."""
        # `super` of a file is its folder.
        at = source.module
        first, *rest = path
        if first == "crate":
            return tuple(rest)
        if first == "self":
            return (*at, *rest)
        if first == "super":
            while path and path[0] == "super":
                at, path = at[:-1], path[1:]
            return (*at, *path)
        if source.is_folder and (*at, first) in self._sources:
            return (*at, *path)
        return None

    def _home(self, path: Module, seen: frozenset[Module] = frozenset()) -> Module | None:
        """Return the module that defines what an absolute path names."""
        if path in seen:
            return None
        length = next((n for n in range(len(path), 0, -1) if path[:n] in self._sources), 0)
        module, item = path[:length], path[length : length + 1]
        source = self._sources[module]
        if not item or not source.is_folder:
            return module
        if item[0] in source.exports:
            target = self._absolute(source, source.exports[item[0]])
            return self._home(target, seen | {path}) if target is not None else None
        for glob in source.globs:
            target = self._absolute(source, glob)
            if target is not None and re.search(_DEFINED.format(item[0]), self._sources[target].text):
                return target
        return module

    def _uses_of(self, module: Module) -> set[str]:
        source = self._sources[module]
        paths = [path for _, path in source.imports]
        paths += [found.split("::") for found in _PATH.findall(source.text)]
        for name, path in source.imports:
            target = self._absolute(source, path)
            if target in self._sources and self._sources[target].is_folder:
                # A folder was imported: what is used of it follows in the text.
                for used in re.findall(rf"(?<![\w:]){name}((?:::\w+)+)", source.text):
                    paths.append(path + used.split("::")[1:])
        homes = set()
        for path in paths:
            target = self._absolute(source, path)
            home = self._home(target) if target is not None else None
            is_own_folder = home is not None and source.is_folder and home[: len(module)] == module
            if home and home != module and not is_own_folder:
                homes.add("::".join(home))
        return homes
