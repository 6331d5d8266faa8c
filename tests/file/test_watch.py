"""watch: every change is reported once, in its order, wherever it happens in the tree."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oneloop import files
from oneloop.files import Change, watch, watching
from oneloop.files.inotify import IN_OVERFLOW, Queue, RawEvent
from tests.conftest import settle
from tests.file.models import cancelled_after, plant

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture(params=["threads"])
def engine(request: pytest.FixtureRequest) -> str:
    """Of the engine, a watch uses the pool alone, which is the same for all."""
    return str(request.param)


QUIET_S = 0.05


async def drain(watching: Any, top: Path, *kinds: Change) -> list[tuple[Any, ...]]:
    """What is reported until nothing more comes: change and relative path, and where it was."""
    told: list[tuple[Any, ...]] = []
    while True:
        try:
            async with asyncio.timeout(QUIET_S):
                event = await anext(watching)
        except (TimeoutError, StopAsyncIteration):
            return told
        if kinds and event.change not in kinds:
            continue
        path = os.path.relpath(event.path, top)
        if event.source is None:
            told.append((event.change, path))
        else:
            told.append((event.change, path, os.path.relpath(event.source, top)))


NAMES_ONLY = (Change.CREATED, Change.MOVED, Change.DELETED)
LAST = "last"


async def drain_to_last(watching: Any, top: Path) -> list[tuple[Any, ...]]:
    """What is reported of names until the file LAST, which is made here: everything that was done before."""
    (top / LAST).touch()
    told: list[tuple[Any, ...]] = []
    async with asyncio.timeout(60):
        while (Change.CREATED, LAST) not in told[-1:]:
            event = await anext(watching)
            if event.change in (*NAMES_ONLY, Change.OVERFLOW):
                source = () if event.source is None else (os.path.relpath(event.source, top),)
                told.append((event.change, os.path.relpath(event.path, top), *source))
    return told


async def test_life_of_a_file(tmp_path: Path) -> None:
    async with watch(tmp_path) as watching:
        path = tmp_path / "file"
        path.write_text("x")
        path.chmod(0o600)
        path.rename(tmp_path / "other")
        (tmp_path / "other").unlink()
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder/unseen").touch()
        assert await drain(watching, tmp_path) == [
            (Change.CREATED, "file"),
            (Change.MODIFIED, "file"),
            (Change.CLOSED, "file"),
            (Change.ATTRIBUTES, "file"),
            (Change.MOVED, "other", "file"),
            (Change.DELETED, "other"),
            (Change.CREATED, "folder"),
        ]


async def test_events_say_what_they_are_of(tmp_path: Path) -> None:
    async with watch(os.fsencode(tmp_path)) as watching:
        (tmp_path / "folder").mkdir()
        event = await anext(watching)
    assert event == files.Event(Change.CREATED, os.fsencode(tmp_path / "folder"), True)
    assert repr(event).startswith("Event(change=<Change.CREATED")
    with pytest.raises(AttributeError):
        event.path = b""  # type: ignore[misc]


async def test_tree_is_watched_with_what_appears_in_it(tmp_path: Path) -> None:
    plant(tmp_path)
    async with watch(tmp_path, recursive=True) as watching:
        (tmp_path / "a/b/c/file").touch()
        (tmp_path / "x/y").mkdir(parents=True)
        (tmp_path / "x/one").touch()
        told = await drain(watching, tmp_path, *NAMES_ONLY)
        assert told[:2] == [(Change.CREATED, "a/b/c/file"), (Change.CREATED, "x")]
        assert sorted(path for _, path in told[2:]) == ["x/one", "x/y"]
        (tmp_path / "x/y/two").touch()
        (tmp_path / "to_a/through_link").touch()
        assert await drain(watching, tmp_path, *NAMES_ONLY) == [
            (Change.CREATED, "x/y/two"),
            (Change.CREATED, "a/through_link"),
        ]


async def test_nothing_is_lost_or_told_twice_while_a_tree_grows(tmp_path: Path) -> None:
    def grow() -> None:
        for number in range(40):
            folder = tmp_path / f"{number}/in/the/deep"
            folder.mkdir(parents=True)
            for name in range(5):
                (folder / str(name)).touch()
            (tmp_path / f"{number}/late").touch()

    async with watch(tmp_path, recursive=True) as watching:
        growing = asyncio.get_running_loop().run_in_executor(None, grow)
        told = []
        while not growing.done():
            told += await drain(watching, tmp_path, *NAMES_ONLY)
        await growing
        told += await drain_to_last(watching, tmp_path)
    expected = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    assert sorted(path for _, path in told) == sorted(expected)


async def test_moved_directories_keep_being_watched(tmp_path: Path) -> None:
    top, outside = tmp_path / "top", tmp_path / "outside"
    top.mkdir()
    plant(top)
    outside.mkdir()
    plant(outside)
    async with watch(top, recursive=True) as watching:
        (top / "a").rename(top / "moved")
        (top / "moved/b/new").touch()
        assert await drain(watching, top, *NAMES_ONLY) == [
            (Change.MOVED, "moved", "a"),
            (Change.CREATED, "moved/b/new"),
        ]
        (top / "moved").rename(outside / "gone")
        (outside / "gone/b/unseen").touch()
        (top / "seen").touch()
        assert await drain(watching, top, *NAMES_ONLY) == [(Change.DELETED, "moved"), (Change.CREATED, "seen")]
        (outside / "a").rename(top / "came")
        told = await drain(watching, top, *NAMES_ONLY)
        assert told[0] == (Change.CREATED, "came")
        inside = {f"came/{path.relative_to(top / 'came')}" for path in (top / "came").rglob("*")}
        assert sorted(path for _, path in told[1:]) == sorted(inside)
        (top / "came/b/c/later").touch()
        assert await drain(watching, top, *NAMES_ONLY) == [(Change.CREATED, "came/b/c/later")]


async def test_directory_that_is_renamed_before_it_is_watched(tmp_path: Path) -> None:
    async with watch(tmp_path, recursive=True) as watching:
        (tmp_path / "a").mkdir()
        (tmp_path / "a").rename(tmp_path / "b")
        (tmp_path / "b/file").touch()
        told = await drain(watching, tmp_path, *NAMES_ONLY)
        assert told == [(Change.CREATED, "a"), (Change.MOVED, "b", "a"), (Change.CREATED, "b/file")]
        (tmp_path / "b/later").touch()
        assert await drain(watching, tmp_path, *NAMES_ONLY) == [(Change.CREATED, "b/later")]


@pytest.mark.parametrize("end", ["removed", "renamed"])
@pytest.mark.parametrize("is_file", [False, True])
async def test_watch_ends_with_its_path(tmp_path: Path, end: str, is_file: bool) -> None:
    top = tmp_path / "top"
    if is_file:
        top.touch()
    else:
        top.mkdir()
    async with watch(top, recursive=not is_file) as watching:
        if end == "renamed":
            top.rename(tmp_path / "elsewhere")
        elif is_file:
            top.unlink()
        else:
            shutil.rmtree(top)
        told = await drain_all(watching)
    assert told[-1].change is Change.DELETED
    assert told[-1].path == str(top)


async def test_file_is_watched(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    async with watch(str(path)) as watching:
        path.write_text("x")
        told = await drain(watching, tmp_path)
    assert (Change.MODIFIED, "file") in told
    assert (Change.CLOSED, "file") in told


async def test_overflow_is_told_and_new_directories_are_watched_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_read = Queue.read_nowait
    lost: list[Any] = []

    def read_nowait(queue: Queue) -> list[RawEvent]:
        events = real_read(queue)
        if events and not lost:
            lost.extend(events)
            return [RawEvent(-1, IN_OVERFLOW, 0, b"", 0.0)]
        return events

    monkeypatch.setattr(Queue, "read_nowait", read_nowait)
    async with watch(tmp_path, recursive=True) as watching:
        (tmp_path / "unseen").mkdir()
        assert await drain(watching, tmp_path) == [(Change.OVERFLOW, ".")]
        (tmp_path / "unseen/file").touch()
        assert await drain(watching, tmp_path, *NAMES_ONLY) == [(Change.CREATED, "unseen/file")]


async def test_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        async with watch(tmp_path / "missing"):
            pytest.fail("entered")
    assert caught.value.filename == str(tmp_path / "missing")
    with pytest.raises(FileNotFoundError):
        async for _ in watch(tmp_path / "missing", recursive=True):
            pytest.fail("iterated")
    with pytest.raises(ValueError, match="embedded null byte"):
        watch("a\0b")
    with pytest.raises(TypeError):
        watch(1)  # type: ignore[type-var]


async def test_exhausted_watches_have_the_path_in_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watch(tmp_path, recursive=True) as watching:

        def add(queue: Queue, path: bytes, mask: int) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Queue, "add", add)
        (tmp_path / "new").mkdir()
        with pytest.raises(OSError, match="No space left") as caught:
            await anext(watching)
        assert caught.value.filename == str(tmp_path / "new")
        with pytest.raises(StopAsyncIteration):
            await anext(watching)


async def test_cancelling_the_wait_for_an_event_loses_none(tmp_path: Path) -> None:
    async with watch(tmp_path, recursive=True) as watching:
        told = []
        for number in range(10):
            (tmp_path / f"{number}/in").mkdir(parents=True)
            (tmp_path / f"{number}").rename(tmp_path / f"{number}.moved")
            for ticks in range(6):
                task = asyncio.ensure_future(anext(watching))
                await settle(ticks)
                task.cancel()
                try:
                    event = await task
                except asyncio.CancelledError:
                    continue
                told.append(event.path)
        told += [str(tmp_path / event[1]) for event in await drain(watching, tmp_path, *NAMES_ONLY)]
    assert {f"{tmp_path}/{number}.moved/in" for number in range(10)} <= set(told) | {
        path.replace("/in", ".moved/in") for path in told
    }


async def test_closing_ends_the_iteration(tmp_path: Path) -> None:
    watching = watch(tmp_path)
    task = asyncio.ensure_future(drain_all(watching))
    await asyncio.sleep(0.02)
    await watching.close()
    assert await task == []
    await watching.close()


async def drain_all(watching: Any) -> list[Any]:
    return [event async for event in watching]


async def test_cancelled_start_leaves_no_descriptor(tmp_path: Path) -> None:
    plant(tmp_path)
    for ticks in range(6):
        await cancelled_after(watched(tmp_path), ticks)


async def watched(top: Path) -> None:
    async with watch(top, recursive=True) as watching:
        await drain_all(watching)


async def test_one_task_at_a_time(tmp_path: Path) -> None:
    async with watch(tmp_path) as watching:
        task = asyncio.ensure_future(anext(watching))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="another task"):
            await anext(watching)
        (tmp_path / "file").touch()
        assert (await task).change is Change.CREATED


async def test_forgotten_watch_warns(tmp_path: Path) -> None:
    watching = watch(tmp_path)
    async with asyncio.timeout(60):
        (tmp_path / "file").touch()
        starting: Callable[[], Any] = watching._start
        await starting()
    with pytest.warns(ResourceWarning, match="unclosed watch"):
        del watching, starting


def replayed(events: list[tuple[Any, ...]]) -> set[str]:
    """The names that somebody knows who believes the events."""
    known: set[str] = set()
    for change, path, *source in events:
        below = {name for name in known if name == (source[0] if source else path) or name.startswith(f"{path}/")}
        if source:
            below |= {name for name in known if name.startswith(f"{source[0]}/")}
        if change is Change.CREATED:
            known.add(path)
        elif change is Change.DELETED:
            known -= below
        elif change is Change.MOVED:
            known = (known - below) | {path + name[len(source[0]) :] for name in below} | {path}
    return known


@pytest.mark.parametrize(
    "steps",
    [
        "mkdir c; mv c a; rm a; mkdir a; touch a/z",
        "mkdir b; touch b/x; rm b; mkdir b; mkdir b/c; touch b/c/y",
        "mkdir b; touch b/x; rm b; mkdir b; touch b/x",
        "mkdir a; touch a/x; mv a b; touch b/y; mv b c; touch c/z",
        "mkdir a; mkdir a/b; touch a/b/x; mv a/b b; touch b/y",
        "mkdir a; mkdir a/old; mv a moved; mkdir a; mkdir a/new",
        "mkdir a; mkdir a/b; mkdir a/b/old; mv a/b a/c; mkdir a/b; touch a/b/new",
    ],
)
async def test_who_believes_the_events_knows_what_is_there(tmp_path: Path, steps: str) -> None:
    """Also of what was made, renamed and removed before anybody looked."""
    async with watch(tmp_path, recursive=True) as watching:
        await drain(watching, tmp_path)
        for step in steps.split("; "):
            name, *arguments = step.split()
            paths = [tmp_path / argument for argument in arguments]
            if name == "mkdir":
                paths[0].mkdir()
            elif name == "touch":
                paths[0].touch()
            elif name == "rm":
                shutil.rmtree(paths[0])
            else:
                paths[0].rename(paths[1])
        events = await drain_to_last(watching, tmp_path)
        there = {os.path.relpath(path, tmp_path) for path in tmp_path.rglob("*")}
        assert replayed(events) == there, events


async def test_many_moves_outside_wait_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one after the other, each for the second half of a rename that never comes."""
    inside, outside, count = tmp_path / "inside", tmp_path / "outside", 200
    inside.mkdir()
    outside.mkdir()
    for number in range(count):
        (inside / str(number)).touch()
    wait_s = 0.5
    monkeypatch.setattr(watching, "HALF_RENAME_S", wait_s)
    loop = asyncio.get_running_loop()
    async with files.watch(inside) as events:
        began_s = loop.time()
        for number in range(count):
            (inside / str(number)).rename(outside / str(number))
        seen = [await anext(events) for _ in range(count)]
    assert [event.change for event in seen] == [files.Change.DELETED] * count
    assert loop.time() - began_s < count * wait_s / 4


STEPS_COUNT = 600


def disturb(top: Path, seed: int) -> None:
    """Make, rename and remove directories and files in a small tree, quickly and at random."""
    chance = random.Random(seed)
    folders = [top]
    for number in range(STEPS_COUNT):
        name = chance.choice("abcdef") if number % 3 else str(number)
        path = chance.choice(folders) / name
        kind = chance.choice(["mkdir", "mkdir", "touch", "rename", "rename", "remove"])
        try:
            if kind == "mkdir":
                path.mkdir()
            elif kind == "touch":
                path.touch()
            elif kind == "rename":
                chance.choice(folders[1:] or [path]).rename(path)
            elif chance.random() < 0.3:
                shutil.rmtree(chance.choice(folders[1:] or [path]))
        except OSError:
            # The random step is impossible here: a name that is taken, a directory in itself.
            continue
        folders = [top, *(Path(folder) for folder, _, _ in os.walk(top) if folder != str(top))]


@pytest.mark.parametrize("seed", range(6))
async def test_random_changes_are_known(tmp_path: Path, seed: int) -> None:
    """Whatever happens while directories are surveyed: the events tell what is on the disk."""
    async with watch(tmp_path, recursive=True) as watching:
        disturbing = asyncio.get_running_loop().run_in_executor(None, disturb, tmp_path, seed)
        events = []
        while not disturbing.done():
            events += await drain(watching, tmp_path, *NAMES_ONLY, Change.OVERFLOW)
        await disturbing
        events += await drain_to_last(watching, tmp_path)
    assert Change.OVERFLOW not in {event[0] for event in events}
    there = {os.path.relpath(path, tmp_path) for path in tmp_path.rglob("*")}
    known = replayed(events)
    assert sorted(there - known) == []
    assert sorted(known - there) == []
