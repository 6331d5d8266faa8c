"""What the hooks of `oneloop run` change in a process: its environment, its imports, and when they begin."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from oneloop import factories
from oneloop.running import hooks, report
from tests.cli.command import ONELOOP_RUN, PYTHON, run

CHILDREN = str(Path(hooks.__file__).with_name("children"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # An empty entry would be the current folder of each child.
        (None, CHILDREN),
        ("", CHILDREN),
        ("/x", f"{CHILDREN}:/x"),
        (f"{CHILDREN}:/x", f"{CHILDREN}:/x"),
        # A sitecustomize in /x would be the only one that runs.
        (f"/x:{CHILDREN}", f"{CHILDREN}:/x:{CHILDREN}"),
    ],
)
def test_folder_of_children_is_the_first_of_pythonpath(
    monkeypatch: pytest.MonkeyPatch, before: str | None, after: str
) -> None:
    monkeypatch.setenv(hooks.VARIABLE, "")
    monkeypatch.setenv("PYTHONPATH", before or "")
    if before is None:
        monkeypatch.delenv("PYTHONPATH")
    hooks.carry(hooks.Settings(stats=True))
    assert os.environ["PYTHONPATH"] == after
    assert os.environ[hooks.VARIABLE] == "on stats"


def test_settings_of_another_version_are_read() -> None:
    text = hooks.Settings(replace=["gevent", "uvloop"], keep_named=True, patch=True, stats=True).text()
    found = hooks.Settings.of(f"{text} new new=1")
    assert vars(found) == {"replace": ("gevent", "uvloop"), "keep_named": True, "patch": True, "stats": True}
    assert vars(hooks.Settings.of("on")) == {"replace": (), "keep_named": False, "patch": False, "stats": False}


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in which the hooks have not begun."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(hooks._State, "settings", None)
    monkeypatch.setattr(hooks._State, "is_active", False)
    monkeypatch.setattr(hooks._State, "is_waiting", False)


def within_site(function: Callable[[], object]) -> None:
    """Call a function as `site` does when it imports sitecustomize."""
    exec("function()", {"__name__": "site", "function": function})


def test_hooks_wait_for_the_end_of_site_in_3_15(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(hooks, "_activate", lambda: begun.append("begun"))
    monkeypatch.setattr(sys, "hexversion", 0x030F00A1)
    finder = hooks.Finder()
    within_site(lambda: hooks.enter(hooks.Settings()))
    within_site(lambda: finder.find_spec("of_site"))
    # oneloop itself is imported to begin.
    finder.find_spec("oneloop.running")
    assert begun == []
    finder.find_spec("of_the_program")
    finder.find_spec("another")
    assert begun == ["begun"]


def test_hooks_begin_at_once_before_3_15(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(hooks, "_activate", lambda: begun.append("begun"))
    monkeypatch.setattr(sys, "hexversion", 0x030E0000)
    within_site(lambda: hooks.enter(hooks.Settings()))
    assert begun == ["begun"]


def test_loops_are_replaced_once(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr(factories, "replace_factories", lambda *, named: calls.append(named))
    monkeypatch.setattr(report, "watch", lambda **_: calls.append("watch"))
    hooks.enter(hooks.Settings(keep_named=True))
    hooks.enter(hooks.Settings())
    assert calls == [False, "watch"]


LOOP = """
import asyncio

async def which():
    print(type(asyncio.get_running_loop()).__module__, flush=True)
"""


def test_child_finds_oneloop_wherever_its_path_leads(tmp_path: Path) -> None:
    child = """
        import os, sys
        sys.path[:] = [entry for entry in sys.path if not os.path.exists(os.path.join(entry, "oneloop"))]
        sys.path[:] = [entry for entry in sys.path if not entry.endswith("site-packages")]
        import asyncio
        asyncio.run(asyncio.sleep(0))
        print(type(asyncio.new_event_loop()).__module__)
    """
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {dedent(child)!r}], check=True)"
    done = run(*ONELOOP_RUN, "-c", code, cwd=tmp_path, env={"PYTHONWARNINGS": "ignore"})
    assert (done.stdout, done.stderr) == ("oneloop.loop\n", "")


def test_uvloop_that_is_not_installed_is_not_found(tmp_path: Path) -> None:
    code = """
        import sys
        sys.path[:] = [entry for entry in sys.path if not entry.endswith("site-packages")]
        try:
            import uvloop
        except ModuleNotFoundError:
            print("not found")
    """
    done = run(*ONELOOP_RUN, "-c", dedent(code).strip(), cwd=tmp_path)
    assert done.stdout == "not found\n", done.stderr


def test_asyncio_that_sitecustomize_has_imported_is_changed(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(LOOP)
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    code = "import asyncio, sitecustomize; asyncio.run(sitecustomize.which())"
    done = run(*ONELOOP_RUN, "-c", code, cwd=tmp_path, env=env)
    assert (done.stdout, done.stderr) == ("oneloop.loop\n", "")


@pytest.mark.parametrize("first", ["from oneloop import Loop", "import oneloop.loop", "import oneloop.green"])
def test_oneloop_may_be_the_first_import_of_a_program(tmp_path: Path, first: str) -> None:
    code = f"{first}\nimport asyncio\nprint(type(asyncio.new_event_loop()).__module__)"
    done = run(*ONELOOP_RUN, "-c", code, cwd=tmp_path, env={"PYTHONWARNINGS": "ignore"})
    assert (done.stdout, done.stderr) == ("oneloop.loop\n", "")


def test_asyncio_that_is_loaded_again_stays_changed(tmp_path: Path) -> None:
    code = LOOP + "import importlib\nimportlib.reload(asyncio)\nasyncio.run(which())\nprint(type(asyncio.__loader__))"
    stock, ours = (run(*command, "-c", code, cwd=tmp_path) for command in (PYTHON, ONELOOP_RUN))
    assert ours.stdout == stock.stdout.replace("asyncio.unix_events", "oneloop.loop")
    assert ours.stderr == ""


SITE = """
import sys
sys.modules.pop("sitecustomize", None)
{change}
try:
    import sitecustomize
except ImportError as error:
    assert error.name == "sitecustomize", error
print("oneloop.running.hooks" in sys.modules, [entry for entry in sys.path if entry.endswith("children")])
"""


@pytest.mark.parametrize(
    ("change", "settings"),
    [("sys.version_info = (3, 10, 9)", "on"), ("sys.platform = 'darwin'", "on"), ("", ""), ("", None)],
)
def test_child_that_oneloop_does_not_support_starts_as_ever(tmp_path: Path, change: str, settings: str | None) -> None:
    (tmp_path / "start.py").write_text(SITE.format(change=change))
    path = os.pathsep.join([CHILDREN, os.environ.get("PYTHONPATH", "")])
    variable = {} if settings is None else {hooks.VARIABLE: settings}
    done = run(*PYTHON, "-S", "start.py", cwd=tmp_path, env={"PYTHONPATH": path, **variable})
    assert (done.stdout, done.stderr) == ("False []\n", "")


def test_child_in_which_oneloop_fails_runs_the_users_sitecustomize(tmp_path: Path) -> None:
    folder = tmp_path / "customs"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("print('customized')")
    (tmp_path / "start.py").write_text(
        SITE.format(change="import importlib.machinery\ndel importlib.machinery.SourceFileLoader")
    )
    path = os.pathsep.join([CHILDREN, str(folder), os.environ.get("PYTHONPATH", "")])
    done = run(*PYTHON, "-S", "start.py", cwd=tmp_path, env={"PYTHONPATH": path, hooks.VARIABLE: "on"})
    assert done.stdout.startswith("customized\n"), done.stderr
