"""What the command line's words mean, and what is said of a run: without a process of its own."""

from __future__ import annotations

import argparse
import errno
import resource
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pycares")

from oneloop.check import BadLine, OptionError, Result, command, descriptors
from oneloop.check.command import Task
from oneloop.check.inputs import Source
from oneloop.check.journal import JournalError
from oneloop.check.spread import WorkerLostError
from oneloop.cli import check as cli
from oneloop.cli import values


def task_of(*arguments: str) -> Task:
    return Task.of(vars(cli.parser().parse_args(["-", *arguments])))


def test_words() -> None:
    assert [cli._seconds(text) for text in ("0", "0.5", "30")] == [None, 0.5, 30]
    assert [values.size(text) for text in ("7", "64k", "64K", "1m", "2G")] == [7, 65536, 65536, 1 << 20, 2 << 30]
    assert cli._names("127.0.0.1, ,::1,") == ("127.0.0.1", "::1")
    assert cli._auth("user:a:b") == ("user", "a:b")
    assert values.header("Name: a:b ") == ("Name", "a:b")
    for text in ("٣", "1.5", "k", "-1", "", "1t"):
        with pytest.raises(argparse.ArgumentTypeError, match="is not a number of bytes"):
            values.size(text)


def test_what_is_not_given_stays_out() -> None:
    assert vars(cli.parser().parse_args(["urls.txt"])) == {"location": "urls.txt"}
    assert task_of("--header", "A:b", "--header", "C:d").options.headers == (("A", "b"), ("C", "d"))
    with pytest.raises(SystemExit, match="2"):
        cli.parser().parse_args(["-", "--concur", "5"])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (WorkerLostError("lost"), "oneloop check: lost\n"),
        (JournalError("another's"), "oneloop check: another's\n"),
        (OSError(28, "No space", "a.csv"), "oneloop check: a.csv: No space\n"),
        (OSError("no name"), "oneloop check: no name\n"),
    ],
)
def test_errors_end_it_with_2(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(task: Task) -> int:
        raise error

    monkeypatch.setattr(command, "run", fail)
    with pytest.raises(SystemExit, match="2"):
        cli.main(["-"])
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("arguments", "is_blocked"),
    [
        (["--input", "sitemap"], True),
        (["--input", "jsonl"], True),
        (["--input", "csv"], False),
        (["--input", "sitemap", "--no-block-private"], False),
        (["--block-private"], True),
    ],
)
def test_lists_that_others_have_written(arguments: list[str], is_blocked: bool) -> None:
    assert task_of(*arguments).options.block_private is is_blocked


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--processes", "0"], "--processes must be at least 1"),
        (["--processes", "2", "--dask", "local:2"], "cannot be combined"),
        (["--input", "jsonl", "--proxy", "http://a"], "private addresses cannot be blocked behind a proxy"),
    ],
)
def test_what_does_not_go_together(arguments: list[str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        task_of(*arguments)


@pytest.mark.parametrize("option", ["--column=b", "--scheme=http", "--input=csv", "--ipv6", "--insecure", "--auth=a:b"])
def test_a_journal_is_of_what_makes_the_answers(option: str, tmp_path: Path) -> None:
    path = str(tmp_path / "journal")
    journal = task_of().make_journal(path)
    assert list(journal.open()) == []
    journal.close()
    name = "--ipv4 or --ipv6" if option == "--ipv6" else option.partition("=")[0]
    with pytest.raises(JournalError, match=f"with another {name}: use another journal"):
        task_of(option).make_journal(path).open()


def test_so_many_bad_lines_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    job = command._Job(task_of())
    for line in range(1, 31):
        job._note(BadLine(line, "x", "no URL"))
    lines = capsys.readouterr().err.splitlines()
    assert lines == [*[f"-:{line}: no URL: x" for line in range(1, 21)], "further bad lines are counted but not shown"]


def test_the_last_words() -> None:
    job = command._Job(task_of("--block-private"))
    for number in (1, 2, 3):
        job._count(Result(number, "http://a/", status=200))
    job._known = 2
    assert job.said(1.0) == ["1 URL in 1.00 s, 2 from the journal"]
    job._count(Result(4, "http://a/", error="blocked"))
    job.counts.add(BadLine(5, "x", "no URL"))
    assert job.said(2.0) == [
        "2 URLs in 2.00 s, 2 from the journal",
        "blocked: to request private addresses, add --no-block-private",
        "1 bad line in the input",
    ]


def test_no_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    job = command._Job(task_of())
    job._count(Result(1, "https://a/", error="tls"))
    assert job.said(1.0) == ["1 URL in 1.00 s"]
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/authorities.pem")
    monkeypatch.setenv("SSL_CERT_DIR", "/nowhere")
    assert "set SSL_CERT_FILE" in job.said(1.0)[1]


@pytest.mark.parametrize(("output", "stream"), [("csv", "err"), ("html", "err"), ("jsonl", "out")])
def test_counts_do_not_damage_a_table(
    output: str, stream: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("oneloop.run", lambda work: work.close())
    command.run(task_of(f"--{output}", "-"))
    shown = capfd.readouterr()
    assert "\n{}\n" in "\n" + getattr(shown, stream)
    assert "{}\n" not in getattr(shown, "out" if stream == "err" else "err")


def test_standard_output_that_is_full_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oneloop.run", lambda work: work.close())
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(OSError, match="standard output") as raised:
            command.run(task_of())
        monkeypatch.undo()
        with suppress(OSError):
            full.close()
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, "standard output")


def test_the_length_of_the_list_is_known(tmp_path: Path) -> None:
    (tmp_path / "urls.csv").write_text("url\nhttp://a/\nhttp://b/\n")
    total = command._total_of
    assert total(replace(task_of("--progress"), source=Source(str(tmp_path / "urls.csv")))) == 2
    assert total(replace(task_of("--progress"), source=Source(str(tmp_path / "urls.csv"), column=1))) == 3
    assert total(replace(task_of("--no-progress"), source=Source(str(tmp_path / "urls.csv")))) is None
    assert total(task_of("--progress")) is None


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt(), 130), (None, 1)])
def test_an_interrupt_is_more_than_a_failure(
    error: BaseException | None, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(work: Any) -> None:
        work.cr_frame.f_locals["self"].counts.add(BadLine(1, "x", "no URL"))
        work.close()
        if error is not None:
            raise error

    monkeypatch.setattr("oneloop.run", interrupt)
    assert command.run(task_of("--fail-on", "bad_line")) == status
    assert capsys.readouterr().out == '{"bad_line": 1}\n'


def test_descriptors_that_do_not_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    descriptors.require(36)
    with pytest.raises(OptionError, match="a concurrency of 37 needs 101 file descriptors"):
        descriptors.require(37)
