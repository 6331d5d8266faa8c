"""The pytest plugin: its option, its fixtures, and pytest-asyncio and anyio beside it."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.cli.command import run

# Each test starts several interpreters.
pytestmark = pytest.mark.time_limit(180)

SUITE = """
import asyncio

import pytest

def where():
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]

async def hour():
    await asyncio.sleep(3600)
    return asyncio.get_running_loop().time()

async def broken(scope, receive, send):
    raise RuntimeError("broken")

def test_plain():
    async def main():
        return where()
    assert asyncio.run(main()) == EXPECTED

def test_virtual(virtual_time):
    assert virtual_time(hour()) == 3600

async def app(scope, receive, send):
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})

def test_served(oneloop_serve):
    from oneloop.http import Client
    with Client() as client:
        one, other = oneloop_serve(app), oneloop_serve(app)
        assert one != other
        assert client.get(one).text == client.get(other).text == "ok"

def test_server_that_cannot_start(oneloop_serve):
    with pytest.raises(ValueError, match="port must be"):
        oneloop_serve(app, port=-1)
"""
ASYNCIO = "\n@pytest.mark.asyncio\nasync def test_asyncio():\n    assert where() == EXPECTED\n"
ANYIO = """
@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_anyio():
    assert where() == EXPECTED
"""


def suite(folder: Path, text: str, *options: str) -> str:
    (folder / "test_suite.py").write_text(text)
    is_installed = any(one.value == "oneloop.pytest_plugin" for one in metadata.entry_points(group="pytest11"))
    plugin = () if is_installed else ("-p", "oneloop.pytest_plugin")
    done = run(sys.executable, "-m", "pytest", "-q", *plugin, *options, "test_suite.py", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("is_asked", [True, False])
def test_option_and_fixtures(tmp_path: Path, is_asked: bool) -> None:
    name = "oneloop" if is_asked else "asyncio"
    shown = suite(tmp_path, SUITE.replace("EXPECTED", repr(name)), *(["--oneloop"] if is_asked else []))
    assert "4 passed" in shown


def test_setting(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\noneloop = true\n")
    assert "4 passed" in suite(tmp_path, SUITE.replace("EXPECTED", "'oneloop'"))


@pytest.mark.parametrize(("package", "text"), [("pytest_asyncio", ASYNCIO), ("anyio", ANYIO)])
def test_other_plugins_keep_working(tmp_path: Path, package: str, text: str) -> None:
    pytest.importorskip(package)
    for name, options in (("oneloop", ["--oneloop"]), ("asyncio", [])):
        whole = (SUITE + text).replace("EXPECTED", repr(name))
        assert "5 passed" in suite(tmp_path, whole, "-W", "ignore::pytest.PytestDeprecationWarning", *options)
