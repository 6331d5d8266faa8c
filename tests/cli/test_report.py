"""The warning of `oneloop run` about loops that are not oneloop's: when it comes, and what it advises."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.cli.command import ONELOOP_RUN, run

OWN = """
import asyncio, selectors, sys

class Own(asyncio.SelectorEventLoop):
    pass

class Other(asyncio.SelectorEventLoop):
    pass

def use(factory):
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(asyncio.sleep(0))
"""


def warnings(folder: Path, text: str, *options: str) -> list[str]:
    """The lines on stderr of a program that ends well."""
    (folder / "own.py").write_text(OWN)
    (folder / "program.py").write_text("from own import *\n" + dedent(text))
    done = run(*ONELOOP_RUN, *options, "program.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def test_program_that_has_run_on_oneloop_is_not_warned(tmp_path: Path) -> None:
    assert warnings(tmp_path, "asyncio.run(asyncio.sleep(0))\nuse(Own)") == []


def test_program_is_warned_once(tmp_path: Path) -> None:
    [line] = warnings(tmp_path, "use(Own)\nuse(Other)")
    assert line.startswith("oneloop run: this program does not run on oneloop: program.py, line 2, uses own.Own.")


@pytest.mark.parametrize("options", [(), ("--keep-named",)])
def test_loop_with_a_selector(tmp_path: Path, options: tuple[str, ...]) -> None:
    text = """
        loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    """
    [line] = warnings(tmp_path, text, *options)
    advice = (
        "Leave out --keep-named to replace it."
        if options
        else "It was created with a selector. Leave out the selector, and oneloop replaces it."
    )
    assert line == (
        "oneloop run: this program does not run on oneloop: "
        f"program.py, line 4, uses asyncio.SelectorEventLoop. {advice}"
    )


def test_loop_of_no_known_kind(tmp_path: Path) -> None:
    text = """
        class Strange(asyncio.BaseEventLoop):
            def _process_events(self, events): ...
            def _write_to_self(self): ...
            class _selector:
                @staticmethod
                def select(timeout): return []
        loop = Strange()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    """
    [line] = warnings(tmp_path, text)
    assert "program.py, line 10, uses Strange. If the program has an option for the loop, choose asyncio" in line


def test_child_is_named(tmp_path: Path) -> None:
    text = """
        import subprocess
        child = subprocess.Popen([sys.executable, "-c", "from own import *; use(Own)"])
        child.wait()
        print(child.pid, file=sys.stderr)
    """
    line, pid = warnings(tmp_path, text)
    assert line.startswith(f"oneloop run: process {pid} of this program does not run on oneloop: ")


def test_loops_of_green_threads_are_ours(tmp_path: Path) -> None:
    pytest.importorskip("greenlet")
    text = """
        from oneloop.green.facade import FacadeLoop
        # Without a green thread there is no other loop below it.
        use(FacadeLoop)
        use(Own)
    """
    assert warnings(tmp_path, text) == []


def test_stderr_that_is_full(tmp_path: Path) -> None:
    text = """
        class Full:
            def write(self, text):
                raise OSError(28, "No space left on device")

        sys.stderr = Full()
        use(Own)
        sys.stderr = None
    """
    assert warnings(tmp_path, text) == []
