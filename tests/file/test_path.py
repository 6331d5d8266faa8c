"""`Path`: every public method of this Python's pathlib.Path, and what each returns or raises."""

from __future__ import annotations

import inspect
import os
import pathlib
import pickle
import sys
from collections.abc import AsyncIterator
from pathlib import Path as Model
from typing import Any

import pytest

from oneloop import files
from oneloop.files import Path
from tests.file.models import of_error, plant, snapshot

pytestmark = pytest.mark.usefixtures("engine")

PUBLIC = sorted(name for name in dir(pathlib.Path) if not name.startswith("_"))
IO = [name for name in PUBLIC if name not in dir(pathlib.PurePath)]
# What asks nobody, and what gives an iterator or a file to be opened.
PLAIN = {"from_uri", "info", "glob", "rglob", "iterdir", "walk", "open"}


def test_no_method_of_pathlib_is_missing() -> None:
    assert [name for name in PUBLIC if not hasattr(Path, name)] == []


@pytest.mark.parametrize("name", [name for name in IO if name != "info"])
def test_signatures_agree(name: str) -> None:
    model = inspect.signature(getattr(pathlib.Path, name)).parameters
    ours = inspect.signature(getattr(Path, name)).parameters
    for parameter in model.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            # copy(target, **kwargs): follow_symlinks and preserve_metadata.
            continue
        mine = ours[parameter.name]
        assert (mine.kind, mine.default) == (parameter.kind, parameter.default), parameter
    positional = [parameter.name for parameter in model.values() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    assert list(ours)[: len(positional)] == positional
    more = set(ours) - set(model)
    assert all(ours[extra].kind is inspect.Parameter.KEYWORD_ONLY or extra == "newline" for extra in more)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="inspect cannot be told before Python 3.12")
def test_what_asks_the_kernel_is_a_coroutine_function() -> None:
    for name in IO:
        if name not in PLAIN:
            assert inspect.iscoroutinefunction(getattr(Path, name)), name


def test_pure_methods_are_pathlibs() -> None:
    path = Path("/a") / "b.txt"
    assert type(path) is Path
    assert path == pathlib.PurePath("/a/b.txt")
    assert hash(path) == hash(Model("/a/b.txt"))
    assert isinstance(path, pathlib.PurePath)
    assert not isinstance(path, pathlib.Path)
    assert [type(p) for p in (path.parent, path.with_suffix(".x"), path.relative_to("/a"), path / "x")] == [Path] * 4
    assert (path.name, path.suffix, os.fspath(path), repr(path)) == ("b.txt", ".txt", "/a/b.txt", "Path('/a/b.txt')")
    assert pickle.loads(pickle.dumps(path)) == path
    assert pathlib.Path(path) == Model("/a/b.txt")


class Sub(Path):
    pass


async def result(path: Any, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """What a method of either kind of path comes to, with paths as strings."""
    try:
        value = getattr(path, name)(*arguments, **keywords)
        if inspect.isawaitable(value):
            value = await value
        elif isinstance(value, AsyncIterator):
            value = [item async for item in value]
        elif inspect.isgenerator(value) or hasattr(value, "__next__"):
            value = list(value)
    except Exception as error:
        # The kind of the path is in some messages.
        return [str(part).replace("PosixPath", "Path") for part in of_error(error)]
    return shown(value, type(path))


def shown(value: Any, kind: type) -> Any:
    if isinstance(value, pathlib.PurePath):
        if issubclass(kind, Path):
            assert isinstance(value, kind)
        return ("path", str(value))
    if isinstance(value, tuple) and not isinstance(value, os.stat_result):
        return tuple(shown(item, kind) for item in value)
    if isinstance(value, list):
        return sorted((shown(item, kind) for item in value), key=repr)
    return value


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("absolute", (), {}),
    ("resolve", (), {}),
    ("resolve", (True,), {}),
    ("expanduser", (), {}),
    ("readlink", (), {}),
    ("exists", (), {}),
    ("is_dir", (), {}),
    ("is_file", (), {}),
    ("is_symlink", (), {}),
    ("is_fifo", (), {}),
    ("is_socket", (), {}),
    ("is_block_device", (), {}),
    ("is_char_device", (), {}),
    ("is_mount", (), {}),
    ("lstat", (), {}),
    ("stat", (), {}),
    ("stat", (), {"follow_symlinks": False}),
    ("owner", (), {}),
    ("group", (), {}),
    ("samefile", ("file",), {}),
    ("iterdir", (), {}),
    ("glob", ("*",), {}),
    ("glob", ("**/*",), {}),
    ("glob", ("",), {}),
    ("glob", ("/x",), {}),
    ("rglob", ("*.py",), {}),
    ("read_bytes", (), {}),
    ("read_text", (), {"encoding": "utf-8"}),
    ("write_bytes", (b"new",), {}),
    ("write_bytes", ("text",), {}),
    ("write_text", ("new", "utf-8"), {"newline": "\r\n"}),
    ("write_text", (b"bytes",), {}),
    ("mkdir", (), {}),
    ("mkdir", (0o700,), {"exist_ok": True}),
    ("mkdir", (), {"parents": True}),
    ("rmdir", (), {}),
    ("touch", (), {}),
    ("touch", (), {"exist_ok": False}),
    ("chmod", (0o700,), {}),
    ("unlink", (), {}),
    ("unlink", (True,), {}),
    ("rename", ("renamed",), {}),
    ("replace", ("a/one.txt",), {}),
    ("symlink_to", ("file",), {}),
    ("hardlink_to", ("file",), {}),
]
if sys.version_info >= (3, 12):
    CALLS += [
        ("is_junction", (), {}),
        ("exists", (), {"follow_symlinks": False}),
        ("glob", ("F*",), {"case_sensitive": False}),
        ("walk", (), {}),
        ("walk", (False,), {}),
        ("walk", (), {"follow_symlinks": True}),
    ]
if sys.version_info >= (3, 13):
    CALLS += [
        ("is_dir", (), {"follow_symlinks": False}),
        ("is_file", (), {"follow_symlinks": False}),
        ("owner", (), {"follow_symlinks": False}),
        ("rglob", ("*",), {"recurse_symlinks": True}),
        ("read_text", (), {"encoding": "utf-8", "newline": ""}),
    ]
if sys.version_info >= (3, 14):
    CALLS += [
        ("copy", ("copied",), {}),
        ("copy", ("copied",), {"follow_symlinks": False}),
        ("copy", ("a",), {}),
        ("copy", ("file",), {}),
        ("copy", ("a/b/c/d",), {}),
        ("copy_into", ("empty",), {}),
        ("move", ("moved",), {}),
        ("move", ("file",), {}),
        ("move_into", ("empty",), {}),
        ("move_into", ("missing",), {}),
    ]

NAMES = ["file", "a", "link", "to_a", "broken", "missing", "missing/x", "file/x", "."]


def comparable(told: Any) -> Any:
    if isinstance(told, os.stat_result):
        return told.st_mode, told.st_size
    return told


@pytest.mark.parametrize(("name", "arguments", "keywords"), CALLS, ids=lambda value: str(value)[:24])
async def test_methods_do_what_pathlibs_do(
    tmp_path: Model,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    name: str,
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
) -> None:
    for number, target in enumerate(NAMES):
        if (name, target, *arguments) == ("copy", "to_a", "a/b/c/d"):
            # A link to a folder above the copy: pathlib copies until the recursion limit, and so does ours.
            continue
        results = []
        for kind in (Path, pathlib.Path):
            # The same path for both: it is in what they return.
            top = tmp_path / f"{number}"
            top.mkdir()
            monkeypatch.chdir(plant(top))
            told = await result(kind(target), name, arguments, keywords)
            monkeypatch.chdir(tmp_path)
            results.append((comparable(told), snapshot(top)))
            top.rename(tmp_path / f"{number}{kind.__module__}")
        assert results[0] == results[1], target


async def test_classmethods(monkeypatch: pytest.MonkeyPatch, tmp_path: Model) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert Model(await Path.home()) == tmp_path
    assert Model(await Path("~/x").expanduser()) == tmp_path / "x"
    cwd = await Sub.cwd()
    assert (Model(cwd), type(cwd)) == (tmp_path, Sub)
    assert type(await Sub.home(timeout=60)) is Sub
    if sys.version_info >= (3, 13):
        assert Model(Path.from_uri("file:///a/b")) == Model("/a/b")


async def test_subclasses_give_their_own_kind(tmp_path: Model) -> None:
    plant(tmp_path)
    top = Sub(tmp_path)
    assert {type(path) async for path in top.iterdir()} == {Sub}
    assert type(await top.resolve()) is Sub
    assert type(await (top / "file").rename(tmp_path / "renamed")) is Sub


async def test_copy_and_move_on_every_version(tmp_path: Model) -> None:
    plant(tmp_path)
    top = Path(tmp_path)
    copied = await (top / "a").copy(tmp_path / "copied")
    assert copied == top / "copied"
    assert snapshot(tmp_path / "copied") == snapshot(tmp_path / "a")
    os.utime(tmp_path / "file", (1, 2))
    assert (await (await (top / "file").copy_into(top / "empty", preserve_metadata=True)).stat()).st_mtime == 2
    moved = await (top / "a").move(top / "moved")
    assert await moved.is_dir()
    assert await (top / "file").move_into(moved) == moved / "file"
    with pytest.raises(ValueError, match="empty name"):
        await Path("/").copy_into("x")


async def test_move_across_filesystems(tmp_path: Model) -> None:
    other = Model("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("the machine has no second filesystem")
    plant(tmp_path)
    before = snapshot(tmp_path / "a")
    target = Path(other) / f"oneloop-{os.getpid()}"
    try:
        await Path(tmp_path / "a").move(target)
        assert snapshot(Model(target)) == before
        assert not (tmp_path / "a").exists()
    finally:
        await files.rmtree(target)


async def test_open_reads_and_writes(tmp_path: Model) -> None:
    path = Path(tmp_path / "file")
    async with path.open("w", encoding="utf-8") as file:
        await file.write("text")
    async with path.open("rb") as file:
        assert await file.read() == b"text"
    assert await path.read_text(encoding="utf-8") == "text"
    await path.write_text("atomic", encoding="utf-8", atomic=True)
    assert (tmp_path / "file").read_text() == "atomic"


async def test_info_is_asked_once(tmp_path: Model) -> None:
    plant(tmp_path)
    info = Path(tmp_path / "to_a").info
    assert await info.exists()
    assert await info.is_dir()
    assert not await info.is_dir(follow_symlinks=False)
    assert not await info.is_file()
    assert await info.is_symlink()
    (tmp_path / "to_a").unlink()
    assert await info.is_dir()
    assert not await Path(tmp_path / "to_a").info.exists()


async def test_timeout(tmp_path: Model) -> None:
    path = Path(tmp_path)
    assert await path.exists(timeout=60)
    assert [found async for found in path.glob("*", timeout=60)] == []
    assert [found async for found in path.iterdir(timeout=60)] == []
