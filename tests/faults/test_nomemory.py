"""A part of `make nomemory`. Hangs and crashes are not judged: asyncio and CPython have some of their own."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.programs import ROOT

pytest.importorskip("_testcapi", reason="this interpreter has no _testcapi")

from tests.faults import excuses, proofs

FORBIDDEN = ("Panic", "SystemError", "nobody was told", "does not go well any more")


@pytest.mark.time_limit(300)
@pytest.mark.parametrize(("program", "total"), [("timers", 260), ("tcp", 300)])
def test_some_allocations(program: str, total: int) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.faults.nomemory", program]
    command += ["--every", "20", "--total", str(total)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert f"{program}: {total} allocations, {total // 20} runs" in done.stdout, done.stdout + done.stderr
    assert not any(word in done.stdout for word in FORBIDDEN), done.stdout


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("extra_none", "[2, 1]", r"\[2, 1, None\]"),
        ("null_without_exception", "[1]", r"SystemError: .* returned NULL without setting an exception"),
        ("greenlet_switch", "[1, 1, 2]", r"it ends with -(6|11)"),
    ],
)
def test_what_is_excused_happens_without_oneloop(name: str, right: str, wrong: str) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.faults.proofs", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=True)
    ends = [line[5:] for line in done.stdout.splitlines()]
    assert right in ends
    assert "MemoryError: " in ends
    others = [end for end in ends if end not in (right, "MemoryError: ")]
    if sys.version_info[:2] == (3, 13):
        assert any(re.fullmatch(wrong, end) for end in others), ends


def test_each_proof_is_run() -> None:
    assert set(proofs.PROGRAMS) == {"extra_none", "null_without_exception", "greenlet_switch"}


class PanicException(BaseException):
    """PyO3's is not importable before the first panic."""


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (PanicException("PyObject pointer is null"), ""),
        (SystemError("a new kind"), ""),
        (SystemError("<function f at 0x1> returned NULL without setting an exception"), "lost exception"),
        (SystemError("error return without exception set"), "lost exception"),
        (
            SystemError("<built-in function get_running_loop> returned a result with an exception set"),
            "stray exception",
        ),
        (RuntimeError("can't allocate lock"), "no lock"),
        (RuntimeError("another"), ""),
        (excuses.ExtraNoneError(), "lost exception"),
        (ValueError("x"), ""),
    ],
)
def test_what_is_new_is_not_excused(error: BaseException, name: str) -> None:
    assert excuses.of_exception(error) == name
    assert not name or name in excuses.REASONS


def test_a_crash_is_excused_by_its_innermost_frames_only() -> None:
    theirs = "#0  0x01 in greenlet::Greenlet::expose_frames (this=0x0) at src/greenlet/TGreenlet.cpp:701"
    assert excuses.of_frames(theirs) == "greenlet"
    function = "#0  PyFunction_NewWithQualName (code=0x1) at Objects/funcobject.c:150"
    assert excuses.of_frames(function) == "no function"
    ours = "#0  0x01 in park () at crates/native/src/green/hub.rs:126"
    assert excuses.of_frames(ours) == ""
    assert excuses.of_frames(f"{ours}\n{ours}\n{ours}\n{theirs}") == ""
    assert excuses.of_frames(f"{ours}\n{ours}\n{ours}\n#3  <signal handler called>\n{theirs}") == "greenlet"
