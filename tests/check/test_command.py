"""`oneloop check` as its users run it: what it prints, how it ends, and that nothing is counted twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("pycares")

from tests.check.site import Site, serving

pytestmark = pytest.mark.time_limit(120)


@dataclass
class Done:
    status: int | None
    output: str
    errors: str

    @property
    def counts(self) -> dict[str, int]:
        found: dict[str, int] = json.loads(self.output.splitlines()[-1])
        return found


COMMAND = ("-m", "oneloop", "check")


@asynccontextmanager
async def checking(*arguments: object, program: tuple[str, ...] = COMMAND) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, *program, *map(str, arguments), stdin=pipe, stdout=pipe, stderr=pipe
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def run(*arguments: object, given: bytes = b"", program: tuple[str, ...] = COMMAND) -> Done:
    async with checking(*arguments, program=program) as process:
        output, errors = await process.communicate(given)
        return Done(process.returncode, output.decode(), errors.decode())


def listed(path: Path, site: Site, count: int, *others: str) -> Path:
    lines = [f"http://127.0.0.{1 + number % 9}:{site.port}/{number}" for number in range(count)]
    path.write_text("\n".join([*lines, *others, ""]))
    return path


async def test_one_json_object(tmp_path: Path) -> None:
    async with serving() as site:
        urls = listed(tmp_path / "urls.txt", site, 31, "# a comment", "", "nothing", "http://127.0.0.1:1/")
        done = await run(urls)
        assert done.status == 0, done.errors
        assert done.output == '{"200": 31, "connect": 1, "bad_line": 1}\n'
        first, *rest = done.errors.splitlines()
        assert first == f"{urls}:34: no scheme: write https://nothing, or use --scheme: nothing"
        assert rest[0].startswith("32 URLs in ")
        assert rest[1:] == ["1 bad line in the input"]
        assert sum(site.asked.values()) == 31


async def test_standard_input_and_outputs(tmp_path: Path) -> None:
    async with serving() as site:
        urls = "".join(f"http://127.0.0.1:{site.port}/{number}\n" for number in range(5))
        files = {kind: tmp_path / f"found.{kind}" for kind in ("jsonl", "csv", "html")}
        options = [part for kind, path in files.items() for part in (f"--{kind}", path)]
        done = await run("-", *options, given=urls.encode())
        assert done.counts == {"200": 5}
        assert {json.loads(line)["status"] for line in files["jsonl"].read_text().splitlines()} == {200}
        assert len(files["csv"].read_text().splitlines()) == 6
        assert "<html" in files["html"].read_text()


@pytest.mark.parametrize(
    ("rules", "status"),
    [("connect", 1), ("error", 1), ("2xx", 1), ("bad_line", 1), ("5xx,dns", 0), ("404", 0), ("nonsense", 2)],
)
async def test_fail_on(tmp_path: Path, rules: str, status: int) -> None:
    async with serving() as site:
        urls = listed(tmp_path / "urls.txt", site, 1, "nothing", "http://127.0.0.1:1/")
        done = await run(urls, "--fail-on", rules, "--retries", 0)
        assert done.status == status
        if status == 2:
            assert "nonsense" in done.errors
            assert done.output == ""
        else:
            assert done.counts == {"200": 1, "connect": 1, "bad_line": 1}


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_interrupted(tmp_path: Path, number: signal.Signals, status: int) -> None:
    """What is known so far is printed, and the outputs hold it."""
    async with serving() as site:
        urls = listed(tmp_path / "urls.txt", site, 100)
        site.gate_after(40)
        async with checking(
            urls, "--concurrency", 4, "--jsonl", tmp_path / "found", "--html", tmp_path / "page"
        ) as process:
            await site.gated.wait()
            process.send_signal(number)
            output, errors = await process.communicate()
        assert "interrupted: the list was not checked completely" in (tmp_path / "page").read_text()
        done = Done(process.returncode, output.decode(), errors.decode())
        assert done.status == status, done.errors
        # Those at the gate are not known; nor may be the last that were answered, read or told.
        assert 40 - 2 * 4 <= done.counts["200"] <= 40
        assert set(done.counts) == {"200"}
        assert len((tmp_path / "found").read_text().splitlines()) == done.counts["200"]
        assert "interrupted" in done.errors
        assert "Traceback" not in done.errors


async def test_a_style_is_ended() -> None:
    """By SIGTERM, as the other way."""
    async with serving() as site:
        site.gate_after(10)
        urls = "".join(f"http://127.0.0.1:{site.port}/{number}\n" for number in range(20))
        async with checking("-", "--style", "threads", "--concurrency", 2) as process:
            assert process.stdin is not None
            process.stdin.write(urls.encode())
            process.stdin.close()
            await site.gated.wait()
            process.send_signal(signal.SIGTERM)
            site.open_gate()
            output, errors = await process.communicate()
        done = Done(process.returncode, output.decode(), errors.decode())
    assert done.status == 143, done.errors
    assert set(done.counts) <= {"200"}
    assert "interrupted" in done.errors


async def test_interrupted_while_it_loads() -> None:
    program = (
        "import signal, sys; sys.modules['oneloop.check.command'] = None;"
        "import oneloop.check.options; from oneloop.cli import main;"
        "sys.meta_path.insert(0, type('Finder', (), {'find_spec': staticmethod(lambda name, *_:"
        " signal.raise_signal(signal.SIGINT) if name.startswith('oneloop.check') else None)}));"
        "del sys.modules['oneloop.check.command']; main(['check', '-'])"
    )
    done = await run(program=("-c", program))
    assert (done.status, done.output) == (130, "")
    assert done.errors == "oneloop check: interrupted before the first request\n"


async def test_killed_at_random_and_counted_once(tmp_path: Path) -> None:
    dice = random.Random(13)
    count = 400
    async with serving(delay_s=0.001) as site:
        urls = listed(tmp_path / "urls.txt", site, count)
        options = (urls, "--concurrency", 4, "--journal", tmp_path / "journal", "--csv", tmp_path / "found.csv")
        kills = 0
        while kills < 6:
            site.gate_after(sum(site.asked.values()) + dice.randrange(1, 60))
            async with checking(*options) as process:
                await site.gated.wait()
                process.kill()
                await process.wait()
            site.open_gate()
            kills += 1
        done = await run(*options)
        assert done.status == 0, done.errors
        assert done.counts == {"200": count}
        assert len((tmp_path / "found.csv").read_text().splitlines()) == count + 1
        # So far as it was known, nothing was asked for again.
        assert sum(site.asked.values()) <= count + kills * 60
        again = await run(*options)
        assert again.counts == {"200": count}
        assert "0 URLs in " in again.errors
        assert f"{count} from the journal" in again.errors


async def test_a_journal_of_other_answers(tmp_path: Path) -> None:
    """What another method, or other redirects, would have answered is not known."""
    async with serving() as site:
        urls = listed(tmp_path / "urls.txt", site, 2)
        assert (await run(urls, "--journal", tmp_path / "journal")).status == 0
        for options in (("--method", "HEAD"), ("--no-follow",), ("--header", "A:b"), ("--scheme", "https")):
            assert (await run(urls, "--journal", tmp_path / "journal", *options)).status == 2
        # How fast it goes is no matter of the journal's.
        done = await run(urls, "--journal", tmp_path / "journal", "--concurrency", 1, "--timeout", 5)
        assert done.counts == {"200": 2}


async def test_a_journal_of_another_list(tmp_path: Path) -> None:
    async with serving() as site:
        first, second = (listed(tmp_path / name, site, 2) for name in ("first", "second"))
        assert (await run(first, "--journal", tmp_path / "journal")).status == 0
        done = await run(second, "--journal", tmp_path / "journal")
        assert done.status == 2
        assert "journal" in done.errors
        assert done.output == ""


async def test_a_damaged_journal_makes_no_whole_page(tmp_path: Path) -> None:
    urls, journal, page = tmp_path / "urls.txt", tmp_path / "journal", tmp_path / "page.html"
    urls.write_text("http://127.0.0.1:1/\n" * 3)
    assert (await run(urls, "--retries", 0, "--journal", journal, "--html", page)).status == 0
    assert "interrupted" not in page.read_text()
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join([*lines[:2], "damaged", *lines[3:], ""]))
    assert (await run(urls, "--retries", 0, "--journal", journal, "--html", page)).status == 2
    assert "interrupted" in page.read_text()


@pytest.mark.parametrize("option", ["--jsonl", "--csv", "--html", "--journal"])
async def test_an_output_does_not_take_the_place_of_the_list(option: str, tmp_path: Path) -> None:
    urls, link = tmp_path / "urls.txt", tmp_path / "link"
    urls.write_text("http://127.0.0.1:1/\n")
    link.hardlink_to(urls)
    for path in (urls, link):
        done = await run(urls, option, path)
        assert (done.status, done.output) == (2, "")
        assert f"FILE and {option} cannot be the same file" in done.errors
    assert urls.read_text() == "http://127.0.0.1:1/\n"


async def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """An output's, and the journal's, for which a limit stands for the disk."""
    urls = tmp_path / "urls.txt"
    urls.write_text("http://127.0.0.1:1/\n" * 100)
    done = await run(urls, "--jsonl", "/dev/full", "--retries", 0)
    assert (done.status, done.output) == (2, "")
    assert "/dev/full: No space left on device" in done.errors
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "from oneloop.cli import main; main(sys.argv[1:])"
    )
    done = await run(urls, "--journal", tmp_path / "journal", "--retries", 0, program=("-c", program, "check"))
    assert (done.status, done.output) == (2, "")
    assert f"{tmp_path / 'journal'}: File too large" in done.errors


async def test_closed_standard_files(tmp_path: Path) -> None:
    """Their numbers go to no file of ours: what is meant for them would be written there."""
    (tmp_path / "urls.txt").write_text("nothing\nhttp://127.0.0.1:1/\n")
    program = "import os, sys; os.close(int(sys.argv[1])); os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
    program_with_full = (
        "import os, sys; os.dup2(os.open('/dev/full', os.O_WRONLY), int(sys.argv[1]));"
        "os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
    )
    arguments = (tmp_path / "urls.txt", "--retries", 0, "--journal", tmp_path / "journal")
    done = await run(1, *COMMAND, *arguments, "--jsonl", "-", program=("-c", program))
    assert done.status == 2
    assert "Bad file descriptor" in done.errors
    done = await run(2, *COMMAND, *arguments, program=("-c", program))
    assert (done.status, done.counts, done.errors) == (0, {"connect": 1, "bad_line": 1}, "")
    # A pipe whose other end is closed.
    program_with_pipe = (
        "import os, sys; ours, theirs = os.pipe(); os.close(ours); os.dup2(theirs, 2);"
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    done = await run(*COMMAND, tmp_path / "urls.txt", "--retries", 0, program=("-c", program_with_pipe))
    assert (done.status, done.counts) == (0, {"connect": 1, "bad_line": 1})
    for program_without in (program, program_with_full):
        # The interpreter would end with 1, as if --fail-on had said so, and with 120.
        done = await run(2, *COMMAND, tmp_path / "missing", program=("-c", program_without))
        assert (done.status, done.output) == (2, "")
        done = await run(2, *COMMAND, "-", "--rate", 0, program=("-c", program_without))
        assert (done.status, done.output) == (2, "")
        done = await run(1, *COMMAND, tmp_path / "urls.txt", "--retries", 0, program=("-c", program_without))
        assert (done.status, done.errors.count("Exception ignored")) == (2, 0), done.errors
        bar = (tmp_path / "urls.txt", "--retries", 0, "--progress")
        done = await run(2, *COMMAND, *bar, program=("-c", program_without))
        assert (done.status, done.counts) == (0, {"connect": 1, "bad_line": 1})
    done = await run(0, *COMMAND, "-", program=("-c", program))
    assert (done.status, done.output) == (2, "")
    # The header, and one result.
    assert len((tmp_path / "journal").read_text().splitlines()) == 2


async def test_lists_of_others_cannot_reach_private_addresses(tmp_path: Path) -> None:
    async with serving() as site:
        url = f"http://127.0.0.1:{site.port}/"
        lines = tmp_path / "urls.jsonl"
        lines.write_text(json.dumps({"url": url}))
        assert (await run(lines)).counts == {"blocked": 1}
        assert not site.asked
        assert (await run(lines, "--no-block-private")).counts == {"200": 1}
        text = tmp_path / "urls.txt"
        text.write_text(url)
        assert (await run(text, "--block-private")).counts == {"blocked": 1}
        proxied = await run(lines, "--proxy", "http://127.0.0.1:1")
        assert proxied.status == 2
        assert "--no-block-private" in proxied.errors


@pytest.mark.parametrize("style", ["green", "threads", "processes"])
async def test_styles(tmp_path: Path, style: str) -> None:
    async with serving() as site:
        urls = listed(tmp_path / "urls.txt", site, 20, "http://127.0.0.1:1/", "http://nothing.invalid/")
        done = await run(urls, "--style", style, "--concurrency", 5)
        assert done.status == 0, done.errors
        assert done.counts == {"200": 20, "dns": 1, "connect": 1}
        refused = await run(urls, "--style", style, "--rate", 5)
        assert refused.status == 2
        assert "rate is supported only by --style coroutines" in refused.errors


async def test_processes(tmp_path: Path) -> None:
    async with serving() as site:
        urls = listed(tmp_path / "urls.txt", site, 200)
        done = await run(urls, "--processes", 2)
        assert done.counts == {"200": 200}, done.errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "required: FILE"),
        (("no-such-file",), "no-such-file: No such file or directory"),
        (("-", "--concurrency", "0"), "--concurrency must be at least 1"),
        (("-", "--timeout", "soon"), "'soon' is not a number of seconds"),
        (("-", "--header", "x"), "'x' is not a header field: write Name:Value"),
        (("-", "--method", "POST"), "--method must be GET or HEAD: 'POST'"),
        (("-", "--timeout", "-1"), "--timeout must be greater than 0, or 0 for no limit"),
        (("-", "--rate", "0"), "--rate must be greater than 0, or leave it out"),
        (("-", "--ipv4", "--ipv6"), "not allowed with"),
        (("-", "--processes", "2", "--style", "threads"), "cannot be combined"),
        (("-", "--jsonl", "a", "--csv", "./a"), "--jsonl and --csv cannot be the same file"),
        (("-", "--jsonl", "-", "--csv", "-"), "--jsonl and --csv cannot be the same file"),
        (("-", "--jsonl", "a", "--journal", "a"), "--jsonl and --journal cannot be the same file"),
        (("-", "--dns-servers", "localhost"), "a name server must be an address"),
        (("-", "--dask", "somewhere"), "--dask must be the address of a scheduler, such as tcp://127.0.0.1:8786"),
        (("-", "--dask", "local:0"), "or local:4 for a cluster"),
        (("-", "--html", "nowhere/a.html"), "nowhere/a.html: No such file or directory"),
        (("http://127.0.0.1:1/sitemap.xml", "--no-block-private"), "http://127.0.0.1:1/sitemap.xml: "),
        (("http://127.0.0.1:1/sitemap.xml",), "not a public address: to request private addresses, add --no-block"),
    ],
)
async def test_wrong_use(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = await run(*arguments)
    assert done.status == 2
    assert said in done.errors
    assert "Traceback" not in done.errors
    assert done.output == ""


@pytest.mark.parametrize("missing", ["pycares"])
async def test_what_it_needs_is_said(missing: str) -> None:
    source = f"import sys; sys.modules[{missing!r}] = None; from oneloop.cli import main; main(['check', '-'])"
    done = await run(program=("-c", source))
    assert done.status == 2
    assert "pip install 'oneloop[check]'" in done.errors


@pytest.mark.parametrize("missing", ["pycares"])
async def test_help_without_what_it_needs(missing: str) -> None:
    source = f"import sys; sys.modules[{missing!r}] = None; from oneloop.cli import main; main(['check', '--help'])"
    done = await run(program=("-c", source))
    assert (done.status, done.errors) == (0, "")
    assert done.output.startswith("usage: oneloop check ")


async def test_what_green_threads_need_is_said() -> None:
    words = ["check", "-", "--style=green"]
    source = f"import sys; sys.modules['greenlet'] = None; from oneloop.cli import main; main({words})"
    done = await run(program=("-c", source))
    said = "oneloop.green needs the greenlet package: pip install 'oneloop[green]'"
    assert (done.status, done.errors) == (2, f"oneloop check: {said}\n")


async def test_a_bar_on_a_terminal(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    async with serving() as site:
        urls = listed(tmp_path / "urls.txt", site, 10)
        ours, theirs = pty.openpty()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "oneloop", "check", urls, stdout=asyncio.subprocess.PIPE, stderr=theirs
            )
            output, _ = await process.communicate()
            assert json.loads(output) == {"200": 10}
            shown = os.read(ours, 1 << 16).decode()
            assert "200 10" in shown
        finally:
            os.close(ours)
            os.close(theirs)
