"""Layers: a file uses only files of its own room and of rooms below, and never in a circle.

For the native extension, the other crates and the Python package; and ARCHITECTURE.md says the same.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest

from tests.package.circles import circles
from tests.package.native_imports import NativeImports
from tests.package.python_imports import PythonImports

ROOT = Path(__file__).parents[2]
CRATES = sorted(path.parent for path in ROOT.glob("crates/*/Cargo.toml") if path.parent.name != "native")

# Files that any room may use.
EVERYWHERE = {"address", "errors", "imports", "ffi"}

# Room → the rooms that its files may use. ARCHITECTURE.md draws it.
LAYERS: dict[str, set[str]] = {
    "ffi": set(),
    "address": set(),
    "errors": set(),
    "imports": set(),
    "watching": set(),
    # Only in a build with the feature of that name.
    "faults": set(),
    "aio": set(),
    "httptools": set(),
    "event_loop": set(),
    "transport": {"event_loop"},
    "sockets": {"event_loop"},
    "file": {"event_loop"},
    "green": {"event_loop", "sockets"},
    "tls": {"event_loop", "transport"},
    "client": {"event_loop", "transport", "tls", "green"},
    "http::exchange": {"event_loop", "green"},
    "http::application": {"event_loop", "green", "file", "http::exchange"},
    "http::connection": {"event_loop", "transport", "tls", "http::exchange"},
    "http::server": {"event_loop", "http::exchange", "http::connection", "http::application"},
    # Registers the classes of its rooms.
    "http": set(),
}


def room(file: str) -> str:
    """Return the room of a file: its folder, and for `http` the folder in it."""
    parts = file.split("::")
    return "::".join(parts[:2]) if parts[0] == "http" else parts[0]


def upward(imports: NativeImports) -> list[str]:
    """Return the uses that the layers do not allow."""
    return [
        f"{file} uses {used}"
        for file, all_used in imports.uses.items()
        for used in sorted(all_used)
        if room(used) not in {room(file)} | EVERYWHERE | LAYERS.get(room(file), set())
    ]


@pytest.fixture(scope="module")
def native() -> NativeImports:
    return NativeImports()


def test_every_room_has_its_layer(native: NativeImports) -> None:
    assert {room(file) for file in native.uses} == set(LAYERS)


def test_no_layer_points_upwards(native: NativeImports) -> None:
    assert upward(native) == []


def test_what_is_used_everywhere_uses_only_such_files(native: NativeImports) -> None:
    used = {room(used) for file, all_used in native.uses.items() if room(file) in EVERYWHERE for used in all_used}
    assert used <= EVERYWHERE


def test_the_layers_themselves_have_no_circle() -> None:
    left = {name: used - EVERYWHERE for name, used in LAYERS.items()}
    while lowest := {name for name, used in left.items() if not used}:
        left = {name: used - lowest for name, used in left.items() if name not in lowest}
    assert left == {}


def test_no_circle(native: NativeImports) -> None:
    assert circles(native.uses) == []


@pytest.mark.parametrize("root", CRATES, ids=lambda path: path.name)
def test_no_circle_in_the_other_crates(root: Path) -> None:
    uses = NativeImports(root / "src").uses
    assert len(uses) > 5
    assert circles(uses) == []


def test_no_circle_in_the_package() -> None:
    uses = PythonImports().uses
    assert len(uses) > 300
    assert circles(uses) == []


def architecture() -> str:
    return (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def rooms_used(native: NativeImports) -> dict[str, set[str]]:
    """Return the rooms that each room uses; `http` is one."""
    uses: dict[str, set[str]] = {}
    for file, used in native.uses.items():
        top = file.split("::")[0]
        uses.setdefault(top, set()).update(name.split("::")[0] for name in used if name.split("::")[0] != top)
    return uses


def test_the_text_of_the_architecture_names_what_each_room_uses(native: NativeImports) -> None:
    text = re.search(r"A layer depends only on layers below it\.(.*?)\n\n", architecture(), re.DOTALL)
    assert text is not None
    stated: dict[str, set[str]] = {}
    for user, used in re.findall(r"`(\w+)` uses ((?:`\w+`(?:, | and )?)+)", " ".join(text[1].split())):
        stated[user] = set(re.findall(r"`(\w+)`", used))
    below = EVERYWHERE | {"event_loop", "faults", "watching"}
    actual = {name: used - below for name, used in rooms_used(native).items() if name not in below}
    assert stated == {name: used for name, used in actual.items() if used}


def test_the_picture_of_the_architecture_has_each_room_above_what_it_uses(native: NativeImports) -> None:
    picture = re.search(r"^crates/native (.*?)^crates/engine", architecture(), re.DOTALL | re.MULTILINE)
    assert picture is not None
    uses = rooms_used(native)
    row = {
        name: number
        for number, line in enumerate(picture[1].splitlines())
        for name in re.match(r"(?:\s*\b\w+\b(?=\s))*", line[:40] + " ")[0].split()  # type: ignore[index]
        if name in uses
    }
    assert set(row) == set(uses) - {"address", "errors", "imports", "faults", "watching", "httptools"}
    upwards = [f"{user} uses {used}" for user in row for used in uses[user] & set(row) if row[used] < row[user]]
    assert upwards == []


def crate(root: Path, **files: str) -> NativeImports:
    """Write a crate whose file names have `__` for `/`, and read it."""
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.rs"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return NativeImports(root)


@pytest.mark.parametrize(
    "use",
    [
        "use crate::transport::stream::Stream;",
        "use super::super::transport::stream::Stream;",
        "use crate::{ffi::Object, transport::{self, stream::{Stream, Other as Name}}};",
        "use crate::transport::Stream;",
        "use crate::transport::Free;",
        "use crate::transport::*;",
        "pub(crate) use crate::transport::Stream;",
        "use crate::transport;\nfn f() { transport::stream::go() }",
        "fn f() { crate::transport::stream::go() }",
        "fn f() -> super::super::transport::Stream {}",
    ],
)
def test_a_use_upwards_is_found(tmp_path: Path, use: str) -> None:
    imports = crate(
        tmp_path,
        lib="mod transport; mod event_loop; mod ffi;",
        transport__mod="mod stream;\npub use stream::Stream;\npub use self::stream::*;\npub struct Kept;",
        transport__stream="pub struct Stream; pub struct Free; pub fn go() {}",
        event_loop__mod="mod core;",
        event_loop__core=use,
        ffi="pub struct Object;",
    )
    assert [line for line in upward(imports) if line.startswith("event_loop::core uses transport")]


@pytest.mark.parametrize(
    "text",
    ["// use crate::transport::Stream;", "/// `crate::transport::Stream`", "use other::transport::Stream;"],
)
def test_what_is_no_use_is_not_found(tmp_path: Path, text: str) -> None:
    imports = crate(tmp_path, lib="", transport__mod="pub struct Stream;", event_loop__core=text)
    assert upward(imports) == []


def test_a_circle_through_exports_and_super_is_found(tmp_path: Path) -> None:
    imports = crate(
        tmp_path,
        lib="mod a;",
        a__mod="mod one; mod two; mod three;\npub use one::One;",
        a__one="use super::two::{Two, more};\npub struct One;",
        a__two="pub struct Two; pub fn more(_: super::three::Three) {}",
        a__three="use crate::a::One;\npub struct Three;",
    )
    assert circles(imports.uses) == [frozenset({"a::one", "a::two", "a::three"})]


def test_a_circle_of_python_modules_is_found(tmp_path: Path) -> None:
    texts = {
        "__init__": "from pack.one import One",
        "one": "from pack import two\nclass One: ...",
        "two": "from typing import TYPE_CHECKING\ndef f():\n    from . import three",
        "three": "try:\n    from pack import One\nfinally:\n    pass",
        "four": "if TYPE_CHECKING:\n    from pack.five import Five\nimport os",
        "five": "import pack.four",
    }
    (tmp_path / "pack").mkdir()
    for name, text in texts.items():
        (tmp_path / "pack" / f"{name}.py").write_text(text)
    uses = PythonImports(tmp_path, "pack").uses
    assert uses["pack.five"] == {"pack.four"}
    assert uses["pack.four"] == set()
    assert circles(uses) == [frozenset({"pack.one", "pack.two", "pack.three"})]
