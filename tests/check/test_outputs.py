"""JSON lines and CSV: fields, hostile texts, a full disk, a kill."""

from __future__ import annotations

import csv
import json
import mmap
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from oneloop.check.outputs import Csv, Html, JsonLines
from oneloop.check.record import FIELDS
from oneloop.check.result import Hop, Result
from tests.check import writing_outputs
from tests.check.full_disk import FullDisk
from tests.check.writing_journal import result_for

ROOT = Path(__file__).parents[2]

FULL = Result(
    number=7,
    url="http://a.example/",
    status=200,
    final_url="http://b.example/",
    redirects=(Hop(301, "http://a.example/"), Hop(302, "http://c.example/")),
    attempts=2,
    dns_s=0.1234567,
    connect_s=0.0,
    first_byte_s=0.25,
    total_s=2 / 3,
    body_bytes=5,
    certificate_end="2027-01-31T12:00:00Z",
)

HOSTILE = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "＝1",
    'a"b,c\nd',
    "\x00",
    "\ud800",
    "\u2028",
    "é",
    "'",
]


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_field(tmp_path: Path) -> None:
    for output in (JsonLines(tmp_path / "a.jsonl"), Csv(tmp_path / "a.csv")):
        output.write(FULL)
        output.write(Result(8, "http://d.example/", error="dns", error_text="no such name"))
        output.close()
        output.close()
    first, second = map(json.loads, (tmp_path / "a.jsonl").read_text().splitlines())
    assert tuple(first) == FIELDS
    assert first["redirects"] == [
        {"status": 301, "url": "http://a.example/"},
        {"status": 302, "url": "http://c.example/"},
    ]
    assert (first["dns_s"], first["connect_s"], first["tls_s"], first["total_s"]) == (0.123457, 0.0, None, 0.666667)
    assert (second["status"], second["error"], second["error_text"]) == (None, "dns", "no such name")
    assert b"\r" not in (tmp_path / "a.csv").read_bytes()
    one, two = table(tmp_path / "a.csv")
    assert tuple(one) == FIELDS
    assert one["redirects"] == "301 http://a.example/ 302 http://c.example/"
    assert (one["status"], one["error"], one["tls_s"], one["connect_s"], one["number"]) == ("200", "", "", "0.0", "7")
    assert (two["status"], two["error"]) == ("", "dns")


def test_nothing_is_an_empty_file_and_a_header(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("of an earlier run")
    JsonLines(tmp_path / "a").close()
    Csv(tmp_path / "b").close()
    assert (tmp_path / "a").read_bytes() == b""
    assert (tmp_path / "b").read_text() == ",".join(FIELDS) + "\n"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts(tmp_path: Path, text: str) -> None:
    result = Result(1, text, error="protocol", error_text=text, final_url=text)
    for output in (JsonLines(tmp_path / "a.jsonl"), Csv(tmp_path / "a.csv")):
        output.write(result)
        output.close()
    (line,) = (tmp_path / "a.jsonl").read_bytes().splitlines()
    assert json.loads(line)["url"] == text
    assert line.isascii()
    (row,) = table(tmp_path / "a.csv")
    for field in ("url", "error_text", "final_url"):
        assert row[field] in {text, "'" + text, "\\ud800"}
        assert row[field][0] not in "=+-@\t\r\n＝"


def test_lines_come_when_they_are_asked_for_or_are_many(tmp_path: Path) -> None:
    output = JsonLines(tmp_path / "a")
    output.write(FULL)
    assert (tmp_path / "a").read_bytes() == b""
    output.flush()
    assert (tmp_path / "a").read_bytes().count(b"\n") == 1
    for number in range(3000):
        output.write(result_for(number))
    assert (tmp_path / "a").read_bytes().count(b"\n") > 1000
    output.close()
    assert (tmp_path / "a").read_bytes().count(b"\n") == 3001


@pytest.mark.parametrize("kind", [JsonLines, Csv, Html])
def test_what_cannot_be_opened_raises_at_once(tmp_path: Path, kind: type) -> None:
    with pytest.raises(FileNotFoundError):
        kind(tmp_path / "no" / "a")
    with pytest.raises(IsADirectoryError):
        kind(tmp_path)


def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = JsonLines(tmp_path / "a")
    disk = FullDisk(monkeypatch, 30)
    output.write(FULL)
    with pytest.raises(OSError, match="No space") as raised:
        output.flush()
    assert raised.value.filename == str(tmp_path / "a")
    disk.room_bytes = 1 << 20
    output.write(FULL)
    output.close()
    assert (tmp_path / "a").read_bytes().count(b"\n") == 2
    assert [json.loads(line)["number"] for line in (tmp_path / "a").read_bytes().splitlines()] == [7, 7]


def test_standard_output_stays_open_and_may_be_slow(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    before = os.dup(1)
    os.dup2(writer, 1)
    os.set_blocking(1, False)
    try:
        with (tmp_path / "a").open("wb") as file:
            process = subprocess.Popen(["cat"], stdin=reader, stdout=file)
        os.close(reader)
        output = JsonLines("-")
        for number in range(2000):
            output.write(result_for(number))
        output.close()
        os.fstat(1)
    finally:
        os.dup2(before, 1)
        os.close(before)
        os.close(writer)
    assert process.wait() == 0
    assert (tmp_path / "a").read_bytes().count(b"\n") == 2000


def whole_lines(path: Path) -> list[str]:
    """The lines of a file whose writer was killed. A kill ends the kernel's copying between two pages."""
    content = path.read_bytes()
    assert content.endswith(b"\n") or len(content) % mmap.PAGESIZE == 0
    return content[: content.rindex(b"\n")].decode().split("\n")


def test_killed_at_random_there_are_whole_lines(tmp_path: Path) -> None:
    randomness = random.Random(13)
    for _ in range(12):
        command = [sys.executable, "-m", writing_outputs.__name__, str(tmp_path / "a"), str(tmp_path / "b")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
            assert process.stdout is not None
            last = 0
            for _ in range(randomness.randrange(1, 100)):
                last = int(process.stdout.readline())
            process.kill()
            process.stdout.read()
        assert len(list(map(json.loads, whole_lines(tmp_path / "a")))) >= last
        assert len(list(csv.DictReader(whole_lines(tmp_path / "b")))) >= last
