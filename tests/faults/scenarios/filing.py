"""Files, on each engine: written, appended, flushed, synchronized, read, renamed, replaced, copied, removed, watched.

After each step plain system calls, which no fault concerns, look at the disk: what an operation has confirmed is there,
and an operation that failed has left the old content or a part of the new one, as its documentation says.
"""

from __future__ import annotations

import asyncio
import functools
import os
import tempfile
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import oneloop
from oneloop import files
from tests.faults.evidence import Evidence, ViolationError
from tests.faults.runs import Scenario

OLD, NEW = b"old" * 3000, b"new!" * 50_000


def _expect(what: str, found: bytes, *allowed: bytes) -> None:
    if found not in allowed:
        raise ViolationError(f"{what}: {len(found)} bytes, of which the first are {found[:12]!r}")


async def _tried(evidence: Evidence, what: str, doing: Awaitable[Any]) -> Any:
    """Return the result, or None after an error."""
    try:
        return await doing
    except OSError as error:
        evidence.errors.append(error)
        evidence.damaged.append(what)
        return None


async def _whole(evidence: Evidence, folder: Path) -> None:
    path = folder / "whole"
    path.write_bytes(OLD)
    content = await _tried(evidence, "read_file", files.read_file(path))
    if content is not None:
        _expect("read_file", content, OLD)
    written = await _tried(evidence, "write_file", files.write_file(path, NEW))
    found = path.read_bytes()
    if written is None and evidence.damaged[-1:] == ["write_file"]:
        if not NEW.startswith(found) and found != OLD:
            raise ViolationError("write_file left what nobody wrote")
    else:
        _expect("write_file", found, NEW)
    path.write_bytes(OLD)
    await _tried(evidence, "atomic", files.write_file(path, NEW, atomic=True))
    _expect("write_file(atomic=True)", path.read_bytes(), *([NEW] if "atomic" not in evidence.damaged else [OLD, NEW]))
    left = sorted(os.listdir(folder))
    if left != ["whole"]:
        raise ViolationError(f"write_file(atomic=True) left {left}")


async def _opened(evidence: Evidence, folder: Path) -> None:
    """Through an open file. The first error ends it; then what was confirmed before is there."""
    path = folder / "opened"
    confirmed = b""
    try:
        async with files.open(path, "wb") as file:
            await file.write(OLD)
            await file.flush()
            confirmed = OLD
            await file.write(NEW)
            await file.flush()
            confirmed = OLD + NEW
        async with files.open(path, "ab") as file:
            await file.write(OLD)
        confirmed += OLD
        async with files.open(path, "rb") as file:
            start = await file.read(10)
            rest = await file.read()
        _expect("read", start + rest, confirmed)
        async with files.open(path, "r+b", buffering=0) as raw:
            await raw.seek(5)
            count = await raw.write(b"12345")
            confirmed = confirmed[:5] + b"12345"[:count] + confirmed[5 + count :]
            await raw.seek(0)
            got = await raw.read(10)
            if not confirmed.startswith(got):
                raise ViolationError(f"an unbuffered read gives {got!r}")
            await raw.truncate(len(OLD))
        confirmed = confirmed[: len(OLD)]
        async with files.open(path) as text:
            lines = [line async for line in text]
        _expect("text", "".join(lines).encode(), confirmed)
    except OSError as error:
        evidence.errors.append(error)
        evidence.damaged.append("the file")
    found = path.read_bytes() if path.exists() else b""
    everything = OLD + NEW + OLD
    if not evidence.damaged:
        _expect("the file", found, confirmed)
    elif len(found) < min(len(confirmed), len(OLD)) or found[10:] != everything[10 : len(found)]:
        raise ViolationError(f"of {len(confirmed)} confirmed bytes, {len(found)} are there")


async def _names(evidence: Evidence, folder: Path) -> None:
    source, target, tree = folder / "source", folder / "target", folder / "tree"
    source.write_bytes(NEW)
    await _tried(evidence, "copy", files.copyfile(source, target))
    if "copy" not in evidence.damaged:
        _expect("copyfile", target.read_bytes(), NEW)
    await _tried(evidence, "rename", files.rename(source, folder / "renamed"))
    if (folder / "renamed").exists() == source.exists():
        raise ViolationError("rename left both names or none")
    await _tried(evidence, "tree", files.makedirs(tree / "a" / "b"))
    if "tree" not in evidence.damaged:
        for name in ("a/1", "a/b/2", "3"):
            (tree / name).write_bytes(OLD)
        await _tried(evidence, "copytree", files.copytree(tree, folder / "copy"))
        if "copytree" not in evidence.damaged:
            _expect("copytree", (folder / "copy" / "a" / "b" / "2").read_bytes(), OLD)
        listed = await _tried(evidence, "listdir", files.listdir(tree))
        if listed is not None and sorted(listed) != ["3", "a"]:
            raise ViolationError(f"listdir: {listed}")
        await _tried(evidence, "rmtree", files.rmtree(tree))
        if "rmtree" not in evidence.damaged and tree.exists():
            raise ViolationError("rmtree left the tree")
    if "rename" not in evidence.damaged:
        await _tried(evidence, "link", files.link(folder / "renamed", folder / "linked"))
    await _tried(evidence, "stat", files.stat(folder))
    await _tried(evidence, "symlink", files.symlink("renamed", folder / "symbolic"))
    if "symlink" not in evidence.damaged:
        await _tried(evidence, "unlink", files.unlink(folder / "symbolic"))


async def _synced(evidence: Evidence, folder: Path) -> None:
    """Synchronize an open file and a text file, and move a temporary file."""
    path = folder / "synced"
    done = b""
    try:
        async with files.open(path, "wb") as file:
            for part in (OLD, NEW, OLD):
                await file.write(part)
                await file.flush()
                await file.fsync()
                done += part
            await file.fdatasync()
        async with files.open(path, "a", encoding="ascii") as text:
            await text.write(OLD.decode())
            await text.flush()
            await text.fsync()
            done += OLD
        async with files.TemporaryFile(dir=folder) as unnamed:
            await unnamed.write(NEW)
            await unnamed.flush()
            await unnamed.seek(0)
            _expect("a temporary file", await unnamed.read(), NEW)
        async with files.NamedTemporaryFile(dir=folder, delete=False) as named:
            await named.write(NEW)
            await named.flush()
            await named.fsync()
        await files.replace(named.name, folder / "moved")
        _expect("a moved file", (folder / "moved").read_bytes(), NEW)
    except OSError as error:
        evidence.errors.append(error)
        evidence.damaged.append("the file")
    found = path.read_bytes() if path.exists() else b""
    if not found.startswith(done):
        raise ViolationError(f"of {len(done)} synchronized bytes, {len(found)} are there")


async def _watched(evidence: Evidence, folder: Path) -> None:
    path = folder / "seen"
    async with files.watch(folder) as watch:
        path.write_bytes(OLD)
        try:
            async with asyncio.timeout(2):
                async for change in watch:
                    if "seen" in str(change):
                        break
        except TimeoutError:
            raise ViolationError("a change is not reported") from None


async def _main(evidence: Evidence, engine: str, program: Any) -> None:
    asyncio.get_running_loop().set_exception_handler(evidence.handler)
    files.use_engine(engine)
    # A folder on a disk: a filesystem in memory would leave the engines with less to do.
    with tempfile.TemporaryDirectory(dir=".build", ignore_cleanup_errors=True) as folder:
        await program(evidence, Path(folder))


def _run(engine: str, program: Any, evidence: Evidence) -> None:
    oneloop.run(_main(evidence, engine, program))


SCENARIOS = tuple(
    Scenario(f"files {name} {engine}", functools.partial(_run, engine, program))
    for engine in ("ring", "aio", "threads")
    for name, program in (
        ("whole", _whole),
        ("open", _opened),
        ("names", _names),
        ("sync", _synced),
        ("watch", _watched),
    )
)
