"""How the command line restricts a suite, and which loops and servers are measured in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.catalogue import FLOOR, SERVERS, SUBJECT, TLS_SERVERS, URING
from bench.clients import COROUTINES, FACADE
from bench.http_servers import HTTP_SERVERS

#: A rival under a second name; measured only if it is named on the command line.
LOOP_RIVALS = ("asyncio", "uvloop", "rloop", SUBJECT)
#: Loops of 2026, each for one or two versions of Python.
YOUNG_LOOPS = ("blazio", "zloop", "zuvloop")
ALL_LOOPS = (*LOOP_RIVALS, *YOUNG_LOOPS)
ALIASES = ("uvloop-again",)
SERVER_RIVALS = tuple(name for name in SERVERS if name not in ALIASES)

#: Rivals that are in no suite of servers.
FILE_RIVALS = ("open", "os", "executor", "aiofiles", "aiofile", "libaio", "turbofile", "asyncfiles", "fio")
HTTP_RIVALS = tuple(part for name in HTTP_SERVERS for part in name.split(" on "))
URL_RIVALS = ("check", "aiohttp", "oneloop check", "muffet", "lychee", "linkchecker")
CLIENT_RIVALS = (
    "httpx",
    "httpx2",
    "requests",
    "urllib3",
    "niquests",
    "pycurl",
    "pyreqwest",
    "wreq",
    "rqx",
    COROUTINES,
    FACADE,
)
GREEN_RIVALS = ("threads", "select", "greenlet", "tasks")
#: The rivals of a quick run, in addition to a suite's own.
QUICK_RIVALS = {FLOOR, *TLS_SERVERS, "asyncio", "uvloop", SUBJECT, "granian", "open", "fio", "greenlet"}


@dataclass(frozen=True)
class Options:
    """The restrictions. An empty tuple means the suite's default."""

    sizes: tuple[int, ...] = ()
    connections: tuple[int, ...] = ()
    only: tuple[str, ...] = ()
    quick: bool = False
    core: bool = False
    long: bool = False

    def pick_sizes(self, *natural: int, core: tuple[int, ...] = ()) -> tuple[int, ...]:
        """The given sizes, or the suite's own: fewer for a core run, one for a quick run."""
        chosen = core if self.core and core else natural
        return self.sizes or (natural[:1] if self.quick else chosen)

    def pick_connections(self, *natural: int, quick: int = 10, core: tuple[int, ...] = (10,)) -> tuple[int, ...]:
        """The given numbers of connections, or the suite's own."""
        chosen = core if self.core else natural
        return self.connections or ((quick,) if self.quick else chosen)

    def pick_rivals(self, offered: Iterable[str]) -> tuple[str, ...]:
        """The rivals to measure, in the suite's order, including second names of rivals."""
        rivals = tuple(offered)
        if self.core and URING not in self.only:
            # A second floor, and no rival.
            rivals = tuple(name for name in rivals if name != URING)
        if self.only:
            extra = tuple(name for name in self.only if name in ALIASES and "uvloop" in rivals)
            chosen = tuple(name for name in rivals if {name, *_parts(name)} & set(self.only))
            return chosen + extra
        if self.quick:
            return tuple(name for name in rivals if set(_parts(name)) & QUICK_RIVALS)
        return rivals


def _parts(name: str) -> tuple[str, ...]:
    """The parts of a name: `aiohttp on uvloop` is found under aiohttp and under uvloop."""
    return tuple(name.split(" on "))


def size_text(size_bytes: int) -> str:
    """1024 -> 1 KiB."""
    if size_bytes % 1024 == 0:
        return f"{size_bytes // 1024} KiB"
    return f"{size_bytes} B"


ALL_RIVALS = tuple(
    dict.fromkeys(
        (
            *SERVERS,
            *TLS_SERVERS,
            *ALIASES,
            *FILE_RIVALS,
            *HTTP_RIVALS,
            *GREEN_RIVALS,
            *URL_RIVALS,
            *CLIENT_RIVALS,
            URING,
        )
    )
)
