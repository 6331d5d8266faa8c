"""Importing the package is cheap and silent, and what an optional part needs is asked for only where it is used."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

from tests import programs


def run(program: str, *options: str) -> subprocess.CompletedProcess[str]:
    return programs.run_command(sys.executable, *options, "-c", dedent(program))


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


def without(*modules: str) -> str:
    """A line that makes these modules impossible to import."""
    return f"import sys; sys.modules.update(dict.fromkeys({modules!r}))\n"


@pytest.mark.parametrize(
    ("missing", "lost"),
    [("_ssl", ["tls"]), ("greenlet", ["green"]), ("zlib", [])],
)
def test_what_python_was_built_without_is_no_attribute(missing: str, lost: list[str]) -> None:
    done = run(
        without(missing)
        + """
import asyncio, oneloop
names = [*oneloop.__all__, "aio", "check", "compat", "files", "green", "http", "testing", "tls"]
print(*[name for name in names if not hasattr(oneloop, name)])
async def main():
    ours, theirs = __import__("socket").socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(ours, b"sent")
        return await loop.sock_recv(theirs, 10)
print(oneloop.run(main()))
"""
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [" ".join(lost), "b'sent'"]


def test_import_of_what_is_missing_says_why() -> None:
    done = run(
        without("greenlet")
        + """
import oneloop
for statement in ("import oneloop.green", "from oneloop import green"):
    try:
        exec(statement)
    except ImportError as error:
        print(error)
try:
    oneloop.green
except AttributeError as error:
    print(error)
"""
    )
    text = "oneloop.green needs the greenlet package: pip install 'oneloop[green]'"
    assert done.stdout.splitlines() == [text, text, f"oneloop.green cannot be imported: {text}"], done.stderr
