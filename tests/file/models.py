"""The blocking functions as models: what they return or raise, ours must."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.conftest import settle

# What a call has come to: its value, or the type, text and filenames of its error.
Outcome = tuple[Any, ...]


def of_error(error: Exception) -> Outcome:
    if isinstance(error, OSError):
        return type(error), str(error), error.errno, error.filename, error.filename2
    return type(error), error.args


def outcome(function: Callable[[], Any]) -> Outcome:
    try:
        return "value", function()
    except Exception as error:
        return of_error(error)


async def awaited(waiting: Callable[[], Awaitable[Any]]) -> Outcome:
    try:
        return "value", await waiting()
    except Exception as error:
        return of_error(error)


def snapshot(top: Path) -> dict[str, Any]:
    """Every name below a directory with its type, permissions and content."""
    found: dict[str, Any] = {}
    for path in sorted(top.rglob("*")):
        name = str(path.relative_to(top))
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[name] = ("directory", path.stat().st_mode)
        else:
            found[name] = (path.stat().st_mode, path.read_bytes())
    return found


def plant(top: Path) -> Path:
    """A small tree with everything in it that trees have."""
    (top / "a/b/c").mkdir(parents=True)
    (top / "a/one.txt").write_text("one")
    (top / "a/b/two.py").write_bytes(b"2" * 5000)
    (top / "a/b/.hidden").write_text("")
    (top / "empty").mkdir()
    (top / "file").write_text("file")
    (top / "file").chmod(0o640)
    (top / "link").symlink_to("file")
    (top / "to_a").symlink_to("a")
    (top / "broken").symlink_to("nowhere")
    return top


async def cancelled_after(waiting: Awaitable[Any], ticks: int) -> bool:
    """Cancel an operation after so many ticks; False if it had ended before."""
    task = asyncio.ensure_future(waiting)
    await settle(ticks)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False
