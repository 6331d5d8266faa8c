"""Importing the package is cheap and silent; on other systems it is asyncio under our names."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent


def run(program: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_import_loads_neither_asyncio_nor_the_native_core() -> None:
    done = run(
        """
        import sys
        import oneloop
        print([m for m in ("asyncio", "oneloop._native", "socket", "ssl") if m in sys.modules])
        """
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_every_name_loads_with_warnings_as_errors() -> None:
    done = run("import oneloop\nfrom oneloop import *\nimport oneloop.testing", "-W", "error")
    assert (done.returncode, done.stderr) == (0, "")


def test_submodule_does_not_hide_the_function_of_its_name() -> None:
    done = run(
        """
        import importlib, pkgutil
        import oneloop
        from tests.package.needs import can_import
        for found in pkgutil.walk_packages(oneloop.__path__, "oneloop."):
            if not found.name.endswith("__main__") and can_import(found.name):
                importlib.import_module(found.name)
        async def main():
            return "ran"
        print(oneloop.run(main()), oneloop.Loop.__name__, oneloop.Statistics.__name__)
        """
    )
    assert (done.stdout, done.stderr) == ("ran Loop Statistics\n", "")


# asyncio must be loaded as what the system really is.
ELSEWHERE = """
    import asyncio, sys, warnings
    sys.platform = "darwin"
    import oneloop

    async def which():
        return type(asyncio.get_running_loop()).__module__
"""


def test_elsewhere_run_is_asyncios_with_one_warning() -> None:
    done = run(
        ELSEWHERE
        + """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        print(oneloop.run(which()), oneloop.run(which()))
        oneloop.install()
        loop = oneloop.new_event_loop()
        loop.close()
    print([(w.category.__name__, str(w.message), w.filename) for w in caught])
    print("oneloop._native" in sys.modules)
    """
    )
    assert done.stderr == ""
    loops, warned, is_loaded = done.stdout.splitlines()
    assert loops == "asyncio.unix_events asyncio.unix_events"
    text = "the event loop of oneloop needs Linux: on darwin, oneloop runs on plain asyncio"
    assert warned == f"[('RuntimeWarning', '{text}', '<string>')]"
    assert is_loaded == "False"


def test_elsewhere_what_only_the_loop_has_says_so() -> None:
    done = run(
        ELSEWHERE
        + """
    try:
        oneloop.Loop
    except ImportError as error:
        print(error)
    """
    )
    assert done.stdout == "oneloop.Loop is available on Linux only (this platform is darwin)\n", done.stderr


def test_elsewhere_the_command_runs_the_program() -> None:
    done = run(
        ELSEWHERE
        + """
    from oneloop.cli import main
    main(["run", "-m", "platform"])
    """
    )
    assert done.returncode == 0
    assert done.stdout
    assert done.stderr.count("the event loop of oneloop needs Linux") == 1
