"""`Watching`: the process that reports changed files to the parent, for `--reload`.

It uses inotify (`oneloop.files.watch`). If the kernel's limit of watches is reached, it polls the files' times instead.
What inotify does not report is polled besides: files behind links (`Links`), and mounts whose files others change.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from oneloop.files import Change, Event, Watch, stat, watch
from oneloop.http.links import Links, silent_mounts
from oneloop.loop import Loop

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from oneloop.http.options import Options

__all__ = ["Watching"]

log = logging.getLogger("oneloop.error")

INCLUDED = ("*.py",)
EXCLUDED = (".*", ".py[cod]", ".sw.*", "~*")
POLL_INTERVAL_S = 1.0


class Watching:
    """The watched directories, and the patterns of relevant file names.

    Args:
        options: has the directories and the patterns.
    """

    def __init__(self, options: Options) -> None:
        includes, excludes = list(options.reload_includes), list(options.reload_excludes)
        given = [Path(one) for one in (*options.reload_dirs, *(one for one in includes if Path(one).is_dir()))]
        given = given or [Path.cwd(), Path(options.app_dir)]
        folders = [one.resolve() for one in given]
        # A directory inside another one is watched together with it.
        self.folders = [one for one in dict.fromkeys(folders) if not any(other in one.parents for other in folders)]
        left_out = [Path(one) for one in excludes if Path(one).is_dir()]
        # Files below a directory that is a link are reported by the link's name.
        self._left_out = [*(one.resolve() for one in left_out), *(one.absolute() for one in left_out)]
        self._excludes = [*excludes, *(one for one in EXCLUDED if one not in includes)]
        self._includes = [*includes, *(one for one in INCLUDED if one not in excludes)]
        self._delay_s = options.reload_delay
        self._links = Links(map(str, self.folders), map(str, given), self.counts)

    def run(self, channel: socket.socket) -> int:
        """Write the paths of changed files to the channel, one per line, until its other end is closed."""
        channel.setblocking(False)
        for folder in self.folders:
            log.info("Will watch for changes in %s", folder)
        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(self._watch_all(channel))
        return 0

    def counts(self, path: str) -> bool:
        """Return True if a change of this file must reload the application."""
        pure = PurePath(path)
        if any(folder == pure or folder in pure.parents for folder in self._left_out):
            return False
        if any(pure.match(pattern) for pattern in self._excludes):
            return False
        return any(pure.match(pattern) for pattern in self._includes)

    async def _watch_all(self, channel: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        changed: asyncio.Queue[str] = asyncio.Queue()
        # Set when there may be other links than before.
        stirred = asyncio.Event()
        tasks = [loop.create_task(self._watch(str(folder), changed, stirred)) for folder in self.folders]
        tasks.append(loop.create_task(self._watch_links(changed, stirred)))
        for folder in self.folders:
            for mount in silent_mounts(str(folder)):
                log.info("Polling %s every second: changes there are not always reported.", mount)
                tasks.append(loop.create_task(self._poll(mount, changed, stirred)))
        telling = loop.create_task(self._tell(channel, changed))
        try:
            # The parent never sends data: this returns when the parent closes the channel.
            await loop.sock_recv(channel, 1)
        except OSError as error:
            log.debug("The parent process has ended: %s", error)
        for task in (*tasks, telling):
            task.cancel()
        await asyncio.gather(*tasks, telling, return_exceptions=True)

    async def _tell(self, channel: socket.socket, changed: asyncio.Queue[str]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            names = {await changed.get()}
            # An editor or a checkout changes several files at a time.
            await asyncio.sleep(self._delay_s)
            while not changed.empty():
                names.add(changed.get_nowait())
            await loop.sock_sendall(channel, "".join(f"{name}\n" for name in sorted(names)).encode(errors="replace"))

    async def _watch_links(self, changed: asyncio.Queue[str], stirred: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        while True:
            stirred.clear()
            has_links = await loop.run_in_executor(None, self._links.find)
            while True:
                # At least once, also if something is made or removed all the time.
                for path in await loop.run_in_executor(None, self._links.changes):
                    changed.put_nowait(path)
                if not has_links:
                    await stirred.wait()
                await asyncio.sleep(POLL_INTERVAL_S)
                if stirred.is_set():
                    break

    async def _watch(self, folder: str, changed: asyncio.Queue[str], stirred: asyncio.Event) -> None:
        """Report the changes in a folder, and in those that take its place."""
        # All that is in another one has changed.
        times: dict[str, int] | None = None
        while True:
            try:
                place = await _place(folder)
                async with watch(folder, recursive=True) as events:
                    if times is not None:
                        log.info("Will watch for changes in %s, which is there again", folder)
                        await self._compare(folder, changed, times)
                    looking = asyncio.create_task(_end_when_elsewhere(folder, place, events))
                    try:
                        async for event in events:
                            self._report(event, folder, changed, stirred)
                    finally:
                        looking.cancel()
            except FileNotFoundError:
                await asyncio.sleep(POLL_INTERVAL_S)
            except OSError as error:
                log.warning("Cannot watch %s with inotify (%s): polling its files every second instead.", folder, error)
                await self._poll(folder, changed, stirred, times)
            else:
                log.warning("%s was removed, moved or replaced: waiting for another one.", folder)
            times = {}
            stirred.set()

    def _report(self, event: Event[str], folder: str, changed: asyncio.Queue[str], stirred: asyncio.Event) -> None:
        if event.change in (Change.CREATED, Change.MOVED, Change.DELETED, Change.OVERFLOW):
            stirred.set()
        if event.change is Change.OVERFLOW:
            changed.put_nowait(folder)
        elif event.change is not Change.ATTRIBUTES and not event.is_directory:
            for path in filter(None, (event.path, event.source)):
                if self.counts(path):
                    changed.put_nowait(path)

    async def _poll(
        self,
        folder: str,
        changed: asyncio.Queue[str],
        stirred: asyncio.Event,
        before: dict[str, int] | None = None,
    ) -> None:
        while True:
            before = await self._compare(folder, changed, before)
            # Which links there are is not reported either.
            stirred.set()
            await asyncio.sleep(POLL_INTERVAL_S)

    async def _compare(self, folder: str, changed: asyncio.Queue[str], before: dict[str, int] | None) -> dict[str, int]:
        """Report the files whose times are others than before, if that is known. Return those of now."""
        now = await asyncio.get_running_loop().run_in_executor(None, lambda: dict(self._times(folder)))
        if before is not None:
            for path in before.keys() | now.keys():
                if before.get(path) != now.get(path):
                    changed.put_nowait(path)
        return now

    def _times(self, folder: str) -> Iterator[tuple[str, int]]:
        for root, folders, names in os.walk(folder):
            folders[:] = [one for one in folders if not one.startswith(".")]
            for name in names:
                path = os.path.join(root, name)  # noqa: PTH118 - as os.walk gives it
                if self.counts(path):
                    # What a link leads to is looked at by `Links`.
                    with contextlib.suppress(OSError):
                        yield path, os.lstat(path).st_mtime_ns


async def _end_when_elsewhere(folder: str, place: tuple[int, int] | None, events: Watch[str]) -> None:
    """End the watch when the name leads elsewhere: inotify does not report that a folder above is moved or replaced."""
    while await _place(folder) == place:
        await asyncio.sleep(POLL_INTERVAL_S)
    await events.close()


async def _place(folder: str) -> tuple[int, int] | None:
    try:
        status = await stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino
