"""`oneloop run`: an unmodified program gets a oneloop loop wherever it makes one."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests import programs

PROGRAM = """
import asyncio, sys

async def main():
    return type(asyncio.get_running_loop()).__module__.split(".")[0]

print(__name__, sys.argv[1:])
print("run", asyncio.run(main()))
with asyncio.Runner() as runner:
    print("runner", runner.run(main()))
loop = asyncio.new_event_loop()
print("new", loop.run_until_complete(main()))
loop.close()
"""


def oneloop(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return programs.run_command(sys.executable, "-m", "oneloop", *arguments, cwd=cwd)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(PROGRAM)
    return tmp_path


@pytest.mark.parametrize("target", [("program.py",), ("-m", "program"), ("-m", "package")])
def test_every_loop_is_ours(program: Path, target: tuple[str, ...]) -> None:
    done = oneloop("run", *target, "one", "--two", cwd=program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["__main__ ['one', '--two']", "run oneloop", "runner oneloop", "new oneloop"]
    assert done.stderr == ""


def test_the_console_script_does_the_same(program: Path) -> None:
    script = Path(sys.executable).with_name("oneloop")
    done = subprocess.run(
        [script, "run", "program.py"], cwd=program, capture_output=True, text=True, timeout=60, check=False
    )
    assert "run oneloop" in done.stdout, done.stderr


def test_modules_beside_the_script_are_found(program: Path) -> None:
    (program / "beside.py").write_text("VALUE = 42\n")
    (program / "imports.py").write_text("import beside\nprint(beside.VALUE)\n")
    done = oneloop("run", str(program / "imports.py"), cwd=Path("/"))
    assert done.stdout.strip() == "42", done.stderr


@pytest.mark.parametrize(
    ("body", "status"),
    [("raise SystemExit(3)", 3), ("raise SystemExit('text')", 1), ("raise LookupError('x')", 1), ("pass", 0)],
)
def test_the_exit_status_is_the_programs(program: Path, body: str, status: int) -> None:
    (program / "exits.py").write_text(body)
    done = oneloop("run", "exits.py", cwd=program)
    assert done.returncode == status
    if "LookupError" in body:
        # The traceback is the program's, without ours.
        assert "LookupError: x" in done.stderr
        assert "exits.py" in done.stderr


def test_debug(program: Path) -> None:
    (program / "debug.py").write_text(
        textwrap.dedent("""
        import asyncio
        async def main():
            print(asyncio.get_running_loop().get_debug())
        asyncio.run(main())
        """)
    )
    assert oneloop("run", "debug.py", cwd=program).stdout.strip() == "False"
    assert oneloop("run", "--debug", "debug.py", cwd=program).stdout.strip() == "True"


def test_stats_go_to_stderr(program: Path) -> None:
    done = oneloop("run", "--stats", "program.py", cwd=program)
    assert done.returncode == 0
    assert "run oneloop" in done.stdout
    for word in ("ticks", "callbacks"):
        assert word in done.stderr
        assert word not in done.stdout


@pytest.mark.parametrize("arguments", [(), ("run",), ("nonsense",), ("run", "--nonsense", "x.py"), ("run", "-m")])
def test_wrong_command_lines(program: Path, arguments: tuple[str, ...]) -> None:
    done = oneloop(*arguments, cwd=program)
    assert done.returncode == 2
    assert "usage" in done.stderr.lower()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("target", [("missing.py",), ("-m", "missing_module")])
def test_what_does_not_exist(program: Path, target: tuple[str, ...]) -> None:
    done = oneloop("run", *target, cwd=program)
    assert done.returncode != 0
    assert "missing" in done.stderr


def test_help(program: Path) -> None:
    done = oneloop("--help", cwd=program)
    assert done.returncode == 0
    assert "run" in done.stdout


@pytest.mark.parametrize("option", [("--patch",), ("--replace", "gevent")])
def test_what_green_threads_need_is_said(program: Path, option: tuple[str, ...]) -> None:
    source = "import sys; sys.modules['greenlet'] = None; from oneloop.cli import main; main(sys.argv[1:])"
    done = programs.run_command(sys.executable, "-c", source, "run", *option, str(program))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "oneloop run: oneloop.green needs the greenlet package: pip install 'oneloop[green]'\n"
