"""After a crash a file is the old or the new one, and what fsync has confirmed is there.

Programs run on a disk that records (tests/faults/disk.py); then every state that a crash could have left is looked at.
The last tests show that the states are found: without an fsync, there is one that is wrong.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.crashes import State, states
from tests.faults.disk import MARK, ROOT, Names, Operation, Sync, Write, can_mount, mounted
from tests.programs import ROOT as REPOSITORY

pytestmark = pytest.mark.skipif(
    not can_mount(), reason="no /dev/fuse, or not the superuser: no filesystem can be mounted"
)

OLD, NEW = b"old" * 4000, bytes(range(1, 251)) * 200
ENGINES = ("ring", "aio", "threads")

BEGIN = f"""
import asyncio, contextlib, os, sys
import oneloop
from oneloop import files
OLD, NEW = b"old" * 4000, bytes(range(1, 251)) * 200
def mark(name):
    with contextlib.suppress(FileNotFoundError):
        os.stat("{MARK}" + name)
def sync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
async def main():
    os.chdir(sys.argv[2])
    if sys.argv[1]:
        files.use_engine(sys.argv[1])
"""


def recorded(folder: Path, program: str, engine: str = "", *, old: bool = True) -> list[Operation]:
    """Run the lines of a program in a new disk, after whose preparation the record begins."""
    folder.mkdir(exist_ok=True)
    lines = [*(["with open('file', 'wb') as old: old.write(OLD)", "sync('file')"] if old else []), "sync('.')"]
    lines += ["mark('begin')", *program.strip().splitlines()]
    source = BEGIN + "".join(f"    {line}\n" for line in lines) + "oneloop.run(main())\n"
    with mounted(folder) as disk:
        command = [sys.executable, "-c", source, engine, str(folder)]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return disk.record


def wrong(record: list[Operation], check: Callable[[State], bool]) -> tuple[list[str], int]:
    """Return the states that are not allowed, and how many there were since the beginning."""
    found, count = [], 0
    for state in states(record):
        if "begin" in state.marks:
            count += 1
            if not check(state):
                found.append(str(state))
    return found, count


def _old_or_new(state: State) -> bool:
    content = state.files.get("file")
    return content == NEW if "done" in state.marks else content in (OLD, NEW)


def _none_or_new(state: State) -> bool:
    content = state.files.get("file")
    return content == NEW if "done" in state.marks else content in (None, NEW)


TEXT = "await files.write_text('file', NEW.decode('latin-1'), 'latin-1', atomic=True, newline='')\nmark('done')"
ATOMIC = "await files.write_file('file', NEW, atomic=True)\nmark('done')"
MOVED = """
async with files.NamedTemporaryFile(dir='.', delete=False) as new:
    await new.write(NEW)
    await new.flush()
    await new.fsync()
await files.replace(new.name, 'file')
await asyncio.to_thread(sync, '.')
mark('done')
"""
APPENDED = """
async with files.open('file', 'ab') as file:
    await file.write(NEW)
    await file.flush()
    await file.fsync()
    mark('first')
    await file.write(OLD)
    await file.flush()
    await file.fdatasync()
    mark('second')
    await file.write(NEW)
mark('closed')
"""
CHANGED = """
async with files.open('file', 'r+b', buffering=0) as file:
    await file.truncate(3000)
    await file.seek(3000)
    view = memoryview(NEW)
    while view:
        view = view[await file.write(view):]
    await file.fsync()
    mark('first')
"""


def _is_appended(state: State) -> bool:
    content = state.files.get("file", b"")
    wanted = OLD
    if "first" in state.marks:
        wanted += NEW
    if "second" in state.marks:
        wanted += OLD
    return content.startswith(wanted)


def _is_changed(state: State) -> bool:
    content = state.files.get("file", b"")
    return content == OLD[:3000] + NEW if "first" in state.marks else content.startswith(OLD[:3000])


@pytest.mark.parametrize(
    ("program", "is_right"),
    [(ATOMIC, _old_or_new), (TEXT, _old_or_new), (ATOMIC, _none_or_new)],
    ids=["a file is replaced", "text is replaced", "a new file is there whole or not at all"],
)
def test_atomic_writes(tmp_path: Path, program: str, is_right: Callable[[State], bool]) -> None:
    found, count = wrong(recorded(tmp_path / "disk", program, old=is_right is not _none_or_new), is_right)
    assert not found, found[:3]
    assert count > 40


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("program", "is_right"),
    [(MOVED, _old_or_new), (APPENDED, _is_appended), (CHANGED, _is_changed)],
    ids=["a temporary file is moved", "what fsync has confirmed is there", "an unbuffered file"],
)
def test_files_that_are_flushed(tmp_path: Path, program: str, is_right: Callable[[State], bool], engine: str) -> None:
    found, count = wrong(recorded(tmp_path / "disk", program, engine), is_right)
    assert not found, found[:3]
    assert count > 40


def test_what_is_recorded(tmp_path: Path) -> None:
    """Each operation once, a rename as one step; from another process, because this one answers the kernel."""
    steps = "import os; open('a', 'wb').close(); os.truncate('a', 3); os.rename('a', 'b'); os.unlink('b')"
    (tmp_path / "disk").mkdir()
    with mounted(tmp_path / "disk") as disk:
        subprocess.run([sys.executable, "-c", steps], cwd=tmp_path / "disk", check=True, timeout=60)
        node = ROOT + 1
        assert disk.record == [
            Names(((ROOT, "a", node),)),
            Write(node, 3, None),
            Names(((ROOT, "b", node), (ROOT, "a", None))),
            Names(((ROOT, "b", None),)),
        ]


@pytest.mark.parametrize("of_folder", [False, True])
def test_a_missing_fsync_would_be_found(tmp_path: Path, of_folder: bool) -> None:
    record = recorded(tmp_path / "disk", ATOMIC)
    begin = next(at for at, each in enumerate(record) if getattr(each, "name", "") == "begin")
    without = [
        each
        for at, each in enumerate(record)
        if at < begin or not isinstance(each, Sync) or (each.node == ROOT) != of_folder
    ]
    assert len(without) == len(record) - 1
    found, _ = wrong(without, _old_or_new)
    assert found
