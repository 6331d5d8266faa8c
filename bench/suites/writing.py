"""writing: small writes to files, opened for each and kept open; time and CPU time per call.

Both sides: the same call of each library (`bench.rivals.file_writers`); open() blocks, the executor passes the
blocking call to a thread, the others are awaited. Nobody calls fsync: the data is in the cache of the kernel when a
call returns, or in the buffer of the file in the buffered row.
Kept: the open file in the rows that keep it open.
Thrown away: the number of bytes that a call returns.
Window: the calls, repeated for at least `--duration`; for awaited calls until the loop rests.
"""

from __future__ import annotations

from functools import partial

from bench.catalogue import SUBJECT
from bench.model import Case
from bench.suites.file_call import ON_THREADS, FileCall
from bench.suites.files import FOLDER
from bench.suites.options import Options

WRITERS = ("open", "executor", "aiofiles", "aiofile", "turbofile", "asyncfiles", SUBJECT)


def _fresh(size: int) -> str:
    """A file with this number of bytes, whatever its content was after an earlier run."""
    path = FOLDER / "written"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    return str(path)


EXISTING = partial(_fresh, 4096)
EMPTY = partial(_fresh, 0)
CALLS = (
    FileCall("write-file", "write_file, 4 KiB over an existing file", EXISTING, 4000, "1.2 x open()"),
    FileCall("open-write-close", "open, write 4 KiB, close: wb over an existing file", EXISTING, 4000, "1.4 x open()"),
    FileCall("open-append-close", "open, append 100 B, close", EMPTY, 4000, "1.6 x open()"),
    FileCall(
        "append-flush",
        "append 100 B and flush, kept open",
        EMPTY,
        20_000,
        "open() + 4 us; on threads less than aiofiles",
        rivals=(*WRITERS, ON_THREADS),
    ),
    FileCall(
        "text-append",
        "append a line of 80 characters, buffered, kept open",
        EMPTY,
        400_000,
        "0.5 us",
        reopens=True,
        cannot=(("aiofile", "aiofile has no buffer"),),
    ),
    FileCall("line-append", "append a line of 80 characters, line-buffered, kept open", EMPTY, 20_000, "open() + 4 us"),
)


def cases(options: Options) -> list[Case]:
    calls = CALLS[:1] if options.quick else CALLS
    return [call.case("writing", options) for call in calls]
