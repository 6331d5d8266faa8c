"""The journal: cut at every byte, killed at random, damaged, shared, another's."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import random
import subprocess
import sys
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from oneloop.check.journal import Journal, JournalError
from oneloop.check.record import record_of, result_of
from oneloop.check.result import ERRORS, Hop, Result, Target
from tests.check import writing_journal
from tests.check.full_disk import FullDisk
from tests.check.writing_journal import result_for


def opened(path: Path, source: str = "urls.txt", **options: Any) -> tuple[Journal, list[Result]]:
    journal = Journal(path, source, options)
    try:
        return journal, list(journal.open())
    except BaseException:
        journal.close()
        raise


def write(path: Path, numbers: range) -> None:
    journal, _ = opened(path)
    for number in numbers:
        assert journal.add(result_for(number))
    journal.close()


FULL = Result(
    number=7,
    url="http://a.example/ü\ud800",
    status=404,
    error="timeout",
    error_text="a\nb\x00\u2028",
    final_url="http://b.example/",
    redirects=(Hop(301, "http://a.example/"), Hop(302, "http://c.example/")),
    attempts=3,
    dns_s=0.1,
    connect_s=1e-9,
    tls_s=0.0,
    first_byte_s=1 / 3,
    total_s=2 / 3,
    body_bytes=1 << 40,
    certificate_end="2027-01-31T12:00:00Z",
)


@pytest.mark.parametrize(
    "result", [FULL, Result(1, "x"), Result(1, ""), *[Result(2, "y", error=error) for error in ERRORS]]
)
def test_a_result_comes_back_as_it_was(tmp_path: Path, result: Result) -> None:
    assert result_of(json.loads(json.dumps(record_of(result)))) == result
    journal, earlier = opened(tmp_path / "journal")
    assert earlier == []
    journal.add(result)
    journal.close()
    journal, earlier = opened(tmp_path / "journal")
    assert earlier == [result]
    assert journal.is_done(Target(result.number, result.url))
    assert not journal.is_done(Target(result.number + 1, result.url))
    assert len(journal) == 1
    journal.close()


def test_cut_at_every_byte_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # the machine goes on here
    path = tmp_path / "journal"
    count = 9
    write(path, range(1, count + 1))
    content = path.read_bytes()
    for length in range(len(content) + 1):
        path.write_bytes(content[:length])
        journal, earlier = opened(path)
        assert len(earlier) == max(0, content[:length].count(b"\n") - 1)
        for number in range(1, count + 1):
            if not journal.is_done(Target(number, f"http://a.example/{number}")):
                journal.add(result_for(number))
        journal.close()
        assert path.read_bytes() == content


@pytest.mark.time_limit(120)
def test_killed_at_random_every_url_is_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    randomness = random.Random(13)
    count = 3000
    kills = 0
    for seed in range(1000):
        command = [sys.executable, "-P", writing_journal.__file__, str(path), str(count), str(seed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            for _ in range(randomness.randrange(0, 120)):
                if not process.stdout.readline():
                    break
            process.kill()
            process.stdout.read()
        if process.returncode == 0:
            break
        kills += 1
        if randomness.random() < 0.3 and path.exists():
            os.truncate(path, max(0, path.stat().st_size - randomness.randrange(300)))
    assert kills > 5
    journal, earlier = opened(path)
    journal.close()
    assert Counter(result.number for result in earlier) == Counter(range(1, count + 1))
    assert sorted(earlier, key=lambda result: result.number) == [result_for(number) for number in range(1, count + 1)]


def test_what_is_done_is_not_written_twice(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal, _ = opened(path)
    assert journal.add(result_for(1)) is True
    assert journal.add(result_for(1)) is False
    journal.close()
    path.write_bytes(path.read_bytes() + path.read_bytes().splitlines(keepends=True)[1])
    journal, earlier = opened(path)
    assert earlier == [result_for(1)]
    journal.close()
    journal.close()


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "\0\0",
        "[]",
        "{}",
        '{"number":1}',
        '{"number":0,"url":"x"}',
        '{"number":true,"url":"x"}',
        '{"number":-1,"url":"x"}',
        '{"number":99999999999999999999,"url":"x"}',
        '{"number":3,"url":7}',
        '{"number":3,"url":"x","colour":1}',
        '{"number":3,"url":"x","error":"no"}',
        '{"number":3,"url":"x","error":[]}',
        '{"number":3,"url":"x","redirects":[[1]]}',
        '{"number":3,"url":"x","total_s":null}',
        '{"number":3,"url":"x","status":"200"}',
        '{"number":4,"url":"x","attempts":true}',
        '{"number":4,"url":"x","body_bytes":-1}',
        '{"number":4,"url":"x","dns_s":true}',
        '{"number":1,"url":"http://another.example/"}',
        "[" * 100_000,
        "\udcff",
    ],
)
def test_a_damaged_line_is_named_and_nothing_changed(tmp_path: Path, line: str) -> None:
    path = tmp_path / "journal"
    write(path, range(1, 4))
    lines = path.read_bytes().splitlines(keepends=True)
    lines.insert(3, line.encode("utf-8", "surrogateescape") + b"\n")
    path.write_bytes(b"".join(lines))
    with pytest.raises(JournalError, match=r"journal: line 4 is damaged .*: remove this line"):
        opened(path)
    assert path.read_bytes() == b"".join(lines)
    del lines[3]
    path.write_bytes(b"".join(lines))
    journal, earlier = opened(path)
    assert len(earlier) == 3
    journal.close()


@pytest.mark.parametrize(
    "content", [b"http://a.example/", b"http://a.example/\n", b"\n", b"{}\n", b"\0" * 50, b'{"kind": "x']
)
def test_another_file_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "urls.txt"
    path.write_bytes(content)
    with pytest.raises(JournalError, match="not a journal of oneloop check: use another file"):
        opened(path)
    assert path.read_bytes() == content


def test_another_input_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    write(path, range(1, 3))
    path.write_bytes(path.read_bytes() + b"torn")
    before = path.read_bytes()
    with pytest.raises(JournalError, match=r"the journal of urls.txt, not b.txt: use another"):
        opened(path, "b.txt")
    with pytest.raises(JournalError, match="with another --method"):
        opened(path, method="GET")
    assert path.read_bytes() == before
    for version in (0, 2):
        path.write_bytes(before.replace(b'"version": 1', b'"version": %d' % version))
        with pytest.raises(JournalError, match=f"has version {version}, but this oneloop reads version 1"):
            opened(path)
    path.write_bytes(before.replace(b"}\n", b"\n", 1))
    with pytest.raises(JournalError, match="line 1 is damaged"):
        opened(path)


def test_the_order_of_options_does_not_matter(tmp_path: Path) -> None:
    for options in ({"a": 1, "b": 2}, {"b": 2, "a": 1}):
        journal = Journal(tmp_path / "journal", "urls.txt", options)
        assert list(journal.open()) == []
        journal.close()


def test_one_that_is_refused_is_given_free(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    write(path, range(1, 3))
    refused = Journal(path, "b.txt")
    with pytest.raises(JournalError, match=r"not b\.txt"):
        refused.open()
    opened(path)[0].close()


def test_a_look_into_the_file_does_not_move_its_end(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    write(path, range(1, 3000))
    journal, _ = opened(path)
    with pytest.raises(JournalError, match=r"was http://a\.example/1:"):
        journal.is_done(Target(1, "http://b.example/"))
    journal.add(result_for(3000))
    journal.close()
    journal, earlier = opened(path)
    assert earlier == [result_for(number) for number in range(1, 3001)]
    journal.close()


def test_an_input_that_has_changed_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    write(path, range(1, 4))
    journal, _ = opened(path)
    with pytest.raises(JournalError, match=r"entry 2 is http://b.example/ now, and was http://a.example/2"):
        journal.is_done(Target(2, "http://b.example/"))
    with pytest.raises(JournalError, match="entry 2 has two URLs"):
        journal.add(Result(2, "http://b.example/"))
    journal.add(result_for(4))
    with pytest.raises(JournalError, match=r"was http://a.example/4"):
        journal.is_done(Target(4, "http://b.example/"))
    assert journal.is_done(Target(4, "http://a.example/4"))
    journal.close()


def test_two_runs_cannot_share_it(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal, _ = opened(path)
    with pytest.raises(JournalError, match="in use by another run"):
        opened(path)
    with pytest.raises(RuntimeError, match="open already"):
        journal.open()
    journal.add(result_for(1))
    journal.close()
    journal, earlier = opened(path)
    assert len(earlier) == 1
    journal.close()


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_file_that_goes_while_it_is_opened_is_not_written(
    is_replaced: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal"
    lock = fcntl.flock
    has_gone = False

    def late(fd: int, operation: int) -> None:
        nonlocal has_gone
        if not has_gone:
            has_gone = True
            path.unlink()
            if is_replaced:
                path.touch()
        lock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    write(path, range(1, 3))
    assert path.read_bytes().count(b"\n") == 3


def test_it_is_on_the_disk_when_it_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal"
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_size))
    write(path, range(1, 3))
    assert synced == [path.stat().st_size]


def test_a_long_turn_is_written_on_the_way(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal, _ = opened(path)
    journal.add(Result(1, "http://a.example/" + "x" * (1 << 20)))
    assert path.stat().st_size > 1 << 20
    journal.close()


def test_it_is_a_file_that_can_be_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path, error in [
        (tmp_path, IsADirectoryError),
        (tmp_path / "no" / "journal", FileNotFoundError),
        (tmp_path / "fifo", JournalError),
        (Path("/dev/null"), JournalError),
    ]:
        with pytest.raises(error):
            opened(path)


def test_results_are_used_up_first(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    write(path, range(1, 4))
    journal = Journal(path, "urls.txt")
    results = journal.open()
    next(results)
    with pytest.raises(RuntimeError, match="read all of its results before"):
        journal.add(result_for(9))
    results.close()  # type: ignore[attr-defined]
    journal.close()


@pytest.mark.usefixtures("loop")
async def test_a_turn_of_the_loop_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal"
    journal, _ = opened(path)
    writes: list[int] = []
    written = os.write

    def noted(fd: int, data: bytes) -> int:
        writes.append(len(data))
        return written(fd, data)

    monkeypatch.setattr(os, "write", noted)
    for number in range(1, 101):
        journal.add(result_for(number))
    assert writes == []
    await asyncio.sleep(0)
    assert len(writes) == 1
    assert path.read_bytes().count(b"\n") == 101
    journal.flush()
    journal.add(result_for(101))
    await asyncio.sleep(0)
    assert len(writes) == 2
    journal.add(result_for(102))
    journal.close()
    await asyncio.sleep(0)
    assert len(writes) == 3


@pytest.mark.usefixtures("loop")
async def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal"
    journal, _ = opened(path)
    disk = FullDisk(monkeypatch, 50)
    journal.add(result_for(1))
    journal.add(result_for(2))
    await asyncio.sleep(0)
    with pytest.raises(OSError, match="No space left"):
        journal.add(result_for(3))
    with pytest.raises(OSError, match="No space left"):
        journal.flush()
    disk.room_bytes = 1 << 20
    journal.add(result_for(3))
    journal.close()
    journal, earlier = opened(path)
    assert earlier == [result_for(1), result_for(2), result_for(3)]
    journal.close()


def test_memory_is_eight_bytes_for_each(tmp_path: Path) -> None:
    journal, _ = opened(tmp_path / "journal")
    tracemalloc.start()
    try:
        for number in range(1, 30_001):
            journal.add(Result(number, f"http://a.example/{number}", status=200))
        journal.flush()
        assert tracemalloc.get_traced_memory()[0] < 8 * 33_000 + 50_000
    finally:
        tracemalloc.stop()
    journal.close()


def test_a_long_first_line_is_not_taken_for_an_incomplete_one(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    content = b'{"kind": "oneloop check journal", "source": "' + b"x" * 70_000 + b'"}\n{}\n'
    path.write_bytes(content)
    with pytest.raises(JournalError, match="not a journal"):
        opened(path)
    assert path.read_bytes() == content


def test_a_deeply_nested_first_line_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(b'{"kind": "oneloop check journal", "source": ' + b"[" * 60_000 + b"\n")
    with pytest.raises(JournalError, match="line 1 is damaged"):
        opened(path)
