"""The suites reading and writing: every form that a rival is said to have does its work, and what it lacks is named."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from bench.model import RivalMissingError, Settings
from bench.rivals import file_calls, file_writers
from bench.rivals.file_calls_program import BLOCKING, can, in_thread
from bench.suites import file_call, reading, writing
from bench.suites.file_call import ON_THREADS, FileCall

CALLS = (*reading.CALLS, *writing.CALLS)
#: How many bytes each work adds to an empty file, or leaves of an old content of 4096.
WRITTEN = {
    "write-file": 4096,
    "open-write-close": 4096,
    "open-append-close": 4196,
    "append-flush": 4196,
    "text-append": 4176,
    "line-append": 4176,
}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A file of 4096 bytes."""
    path = tmp_path / "written"
    path.write_bytes(bytes(4096))
    return path


def test_what_a_rival_has_no_form_of_is_said() -> None:
    for call in CALLS:
        for rival in call.rivals:
            has_form = can(rival.partition(" on ")[0], call.work)
            is_said = rival in dict(call.cannot) or (call.work, rival) in file_call.CANNOT
            assert has_form != is_said, (call.work, rival)


def test_a_rival_without_a_form_is_missing_by_name(short: Settings) -> None:
    (call,) = (call for call in CALLS if call.work == "stat")
    with pytest.raises(RivalMissingError, match="aiofile has no stat"):
        call.measured("aiofile", short)


@pytest.mark.parametrize("work", WRITTEN)
def test_open_and_the_executor_write_what_the_row_says(work: str, written: Path) -> None:
    with BLOCKING["open"][work](str(written)) as call:
        call()
    assert written.stat().st_size == WRITTEN[work]

    async def main() -> None:
        async with in_thread(work, str(written)) as awaited:
            await awaited()

    written.write_bytes(bytes(4096))
    asyncio.run(main())
    assert written.stat().st_size == WRITTEN[work]


@pytest.mark.parametrize("work", WRITTEN)
def test_oneloop_writes_what_the_row_says(work: str, written: Path) -> None:
    oneloop = pytest.importorskip("oneloop")

    async def main() -> None:
        async with file_writers.ONELOOP[work](str(written)) as call:
            await call()

    oneloop.run(main())
    assert written.stat().st_size == WRITTEN[work]


@pytest.mark.parametrize("work", WRITTEN)
@pytest.mark.parametrize("package", ["aiofiles", "aiofile"])
def test_a_package_writes_what_the_row_says(package: str, work: str, written: Path) -> None:
    pytest.importorskip(package)
    table = {"aiofiles": file_writers.AIOFILES, "aiofile": file_writers.AIOFILE}[package]
    if work not in table:
        assert not can(package, work)
        return

    async def main() -> None:
        async with table[work](str(written)) as call:
            await call()

    asyncio.run(main())
    assert written.stat().st_size == WRITTEN[work]


@pytest.mark.parametrize("rival", ["open", "executor", "oneloop", ON_THREADS])
@pytest.mark.parametrize("work", ["read-file", "open-read-close-text", "readline", "lines", "long-line", "stat"])
def test_the_program_tells_time_and_cpu_time(rival: str, work: str, tmp_path: Path, short: Settings) -> None:
    path = tmp_path / "lines"
    path.write_bytes((b"." * 79 + b"\n") * 100)
    call = FileCall(work, "lines", lambda: str(path), 1000, "", per_round=1)
    figures = call.measured(rival, short).metrics
    assert figures["ns_per_op"] > 0
    assert figures["cpu_ns_per_op"] > 0


def test_the_files_of_a_folder_are_read_under_a_limit_of_descriptors(tmp_path: Path, short: Settings) -> None:
    for number in range(100):
        (tmp_path / str(number)).write_bytes(b".")
    call = FileCall("in-sequence", "files", lambda: str(tmp_path), 1, "", per_round=100, descriptors=64)
    assert call.measured("open", short).metrics["ns_per_op"] > 0
    assert file_calls.paths_in(str(tmp_path))[0] == os.path.join(tmp_path, "0")
