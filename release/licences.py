"""LICENSE-THIRD-PARTY.txt: the licences of the Rust crates that are linked into the extension module.

It contains the licence files of each crate's package. Crates that are used only during the build are left out.
"""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

NAME = "LICENSE-THIRD-PARTY.txt"

HEAD = """\
The binary distributions of oneloop contain the following Rust crates and the Rust standard library
(https://www.rust-lang.org, MIT OR Apache-2.0). The source distribution names the crates in Cargo.lock.
"""

# Of C sources that a crate contains.
_SOURCES = ("*/COPYING",)
_FILES = ("LICENSE*", "LICENCE*", "COPYING*", "COPYRIGHT*", "NOTICE*", "UNLICENSE*")


def linked_crates(root: Path) -> list[dict[str, Any]]:
    """Return Cargo's description of each third-party crate that the extension module contains, sorted by name."""
    shown = subprocess.run(
        ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-musl"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    described = json.loads(shown.stdout)
    packages = {package["id"]: package for package in described["packages"]}
    nodes = {node["id"]: node for node in described["resolve"]["nodes"]}
    found: set[str] = set()
    waiting = [key for key, package in packages.items() if package["name"] == "oneloop-native"]
    while waiting:
        key = waiting.pop()
        if key in found or _is_macro(packages[key]):
            continue
        found.add(key)
        waiting += [
            dependency["pkg"]
            for dependency in nodes[key]["deps"]
            if any(kind["kind"] is None for kind in dependency["dep_kinds"])
        ]
    crates = [packages[key] for key in found if packages[key]["source"] is not None]
    return sorted(crates, key=lambda crate: (crate["name"], crate["version"]))


def _is_macro(package: dict[str, Any]) -> bool:
    return any("proc-macro" in target["kind"] for target in package["targets"])


def licence_files(crate: dict[str, Any]) -> list[Path]:
    """Return the licence files in a crate's folder."""
    folder = Path(crate["manifest_path"]).parent
    found = {file for pattern in (*_FILES, *_SOURCES) for file in folder.glob(pattern) if file.is_file()}
    if crate["license_file"]:
        found.add(folder / crate["license_file"])
    return sorted(found)


def third_party(root: Path) -> str:
    """Return the text of the file: each licence once, with the crates that have it."""
    crates = linked_crates(root)
    owners: defaultdict[str, list[str]] = defaultdict(list)
    parts = [HEAD]
    for crate in crates:
        name = f"{crate['name']} {crate['version']}"
        parts.append(f"- {name}: {crate['license'] or 'see its licence file'} ({crate['repository'] or 'crates.io'})")
        for file in licence_files(crate):
            owners[file.read_text(encoding="utf-8").strip()].append(name)
    for text, names in owners.items():
        parts.append(f"\n{'=' * 80}\n{', '.join(names)}\n{'=' * 80}\n\n{text}")
    return "\n".join(parts) + "\n"
