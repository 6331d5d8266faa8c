"""reading: small reads of cached files, lines, gathered reads and stat; time and CPU time per operation.

Reads from the disk and linux_aio's experiment are in the suite `files`.

Both sides: the same call of each library (`bench.rivals.file_calls`); open() blocks, the executor passes the blocking
call to a thread, the others are awaited.
Kept: the open file in the rows of `readline` and of gathered reads; the results of gathered calls until the last.
Thrown away: all other results, at once.
Window: the calls, repeated for at least `--duration`; for awaited calls until the loop rests.
"""

from __future__ import annotations

from bench.catalogue import SUBJECT
from bench.model import Case
from bench.rivals.file_calls import PREADS
from bench.suites.file_call import FileCall
from bench.suites.files import FOLDER, made
from bench.suites.options import Options

#: Of the file whose lines are read in one go, and of that whose lines are read by single calls.
LINES, SINGLE_LINES = 12_000, 400_000
FILES = 5000
LONG_LINE = "readline of one line of {} MiB, r+"
NO_LINES_AS_THEY_ARE = (("aiofile", "aiofile has no newline"),)


def _small() -> str:
    return str(made(FOLDER / "cached-4096-0", 4096))


def _written(name: str, content: bytes) -> str:
    """A file with this content, kept for the next run."""
    path = FOLDER / name
    if not path.exists() or path.stat().st_size != len(content):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return str(path)


def _small_text() -> str:
    return _written("small.txt", b"." * 4095 + b"\n")


def _lines() -> str:
    return _written("few-lines.txt", (b"." * 79 + b"\n") * LINES)


def _single_lines() -> str:
    return _written("single-lines.txt", (b"." * 79 + b"\n") * SINGLE_LINES)


def _line(mib: int) -> str:
    return _written(f"line-{mib}.txt", b"." * ((mib << 20) - 1) + b"\n")


def _blocks() -> str:
    return str(made(FOLDER / "blocks", 16 << 20))


def _many() -> str:
    folder = FOLDER / "many"
    for number in range(FILES):
        made(folder / f"{number:04d}", 4096)
    return str(folder)


def _long_line(mib: int) -> FileCall:
    return FileCall(
        "long-line",
        LONG_LINE.format(mib),
        lambda: _line(mib),
        1,
        "linear cost (per MiB the same for 16 MiB as for one)",
        unit="time per MiB",
        per_round=mib,
    )


def _many_files(work: str, name: str, wanted: str) -> FileCall:
    return FileCall(work, name, _many, 1, wanted, unit="time per file", per_round=FILES, descriptors=1024)


CALLS = (
    FileCall("read-file", "read_file, 4 KiB", _small, 10_000, "1.0 x open()"),
    FileCall("open-read-close", "open, read 4 KiB, close", _small, 10_000, "1.4 x open()"),
    FileCall("open-read-close-text", "open, read 4 KiB of text, close", _small_text, 10_000, "1.5 x open()"),
    FileCall(
        "readline",
        "readline of 80 characters",
        _single_lines,
        SINGLE_LINES - 1,
        "0.25 us",
        unit="time per line",
        reopens=True,
    ),
    FileCall("lines", "lines of 80 characters", _lines, 1, "1.4 x open()", unit="time per line", per_round=LINES),
    FileCall(
        "lines-as-they-are",
        'lines of 80 characters, newline=""',
        _lines,
        1,
        "1.5 x open()",
        unit="time per line",
        per_round=LINES,
        cannot=NO_LINES_AS_THEY_ARE,
    ),
    _long_line(1),
    _long_line(16),
    FileCall(
        "preads",
        "4000 reads of 4 KiB gathered",
        _blocks,
        4,
        "2.0 x open()",
        unit="time per read",
        per_round=PREADS,
        rivals=("open", "executor", "aiofiles", "aiofile", "libaio", SUBJECT),
        cannot=(("aiofiles", "aiofiles has one position per file"),),
    ),
    FileCall("stat", "stat", _small, 20_000, "1.5 x open()", cannot=(("aiofile", "aiofile has no stat"),)),
    _many_files("in-sequence", "5000 files of 4 KiB one after the other, ulimit -n 1024", "1.0 x open()"),
    _many_files("gathered", "5000 files of 4 KiB gathered, ulimit -n 1024", "about the same as one after the other"),
)


#: Variations of rows that a core run has.
NOT_CORE = frozenset({LONG_LINE.format(16), 'lines of 80 characters, newline=""'})


def cases(options: Options) -> list[Case]:
    calls: tuple[FileCall, ...] = CALLS[:2] if options.quick else CALLS
    if options.core:
        calls = tuple(call for call in calls if call.name not in NOT_CORE)
    return [call.case("reading", options) for call in calls]
