"""Options of `oneloop serve` in a file: the same names, values and messages as on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from oneloop.cli import serve


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(*words: str) -> dict[str, Any]:
    return serve._read(serve.parser(), list(words))


OPTIONS = """
app = "shop:app"
port = 8001
workers = 4
access-log = false
reload = false
limit_memory = "500m"
header = ["A:1", "B:2"]
timeout-keep-alive = 2.5
stats-socket = true
ws-per-message-deflate = true
"""
MEANING = {
    "app": "shop:app",
    "port": 8001,
    "workers": 4,
    "access_log": False,
    "limit_memory": 500 << 20,
    "headers": [("A", "1"), ("B", "2")],
    "timeout_keep_alive": 2.5,
    "stats_socket": "1",
    "ws_per_message_deflate": True,
}


def test_file_that_is_named() -> None:
    Path("oneloop.toml").write_text(f"[serve]{OPTIONS}")
    assert read("--config", "oneloop.toml") == MEANING
    # It is not read unless it is named.
    assert read("other:app") == {"app": "other:app"}


def test_table_of_the_project() -> None:
    Path("pyproject.toml").write_text(f"[tool.oneloop.serve]{OPTIONS}")
    assert read() == MEANING
    Path("empty.toml").touch()
    assert read("--config", "empty.toml", "a:b") == {"app": "a:b"}


def test_the_command_line_wins() -> None:
    Path("pyproject.toml").write_text(f"[tool.oneloop.serve]{OPTIONS}")
    words = ["other:app", "--port", "9", "--access-log", "--header", "C:3", "--stats-socket=/x.sock"]
    changed = {"app": "other:app", "port": 9, "access_log": True, "headers": [("C", "3")], "stats_socket": "/x.sock"}
    assert read(*words) == {**MEANING, **changed}


@pytest.mark.parametrize("table", ["project", "tool.oneloop"])
def test_project_without_a_table(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("pyproject.toml").write_text(f"[{table}]\nname = 'x'\n")
    assert read("a:b") == {"app": "a:b"}
    with pytest.raises(SystemExit, match="2"):
        read("--config", "pyproject.toml", "a:b")
    assert "pyproject.toml has no table [tool.oneloop.serve]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[serve]\nporrt = 1", "there is no option porrt. Did you mean port?"),
        ("port = 1", "oneloop.toml has no table [serve]: write this line above the options"),
        ("[tool.oneloop.serve]\nport = 1", "oneloop.toml has no table [serve]: write this line above the options"),
        ("[serve]\nport = [1, 2]", "port takes one value, not a list"),
        ("[serve]\nport = 'x'", "argument --port: invalid int value: 'x'"),
        ("[serve]\nreload = 1", "reload must be true or false, not 1"),
        ("[serve]\nport = 1979-05-27", "port must be a text, a number, true or false, not datetime.date(1979, 5, 27)"),
        ("[serve]\nheader = {A = '1'}", "header must be a text or a list of texts, such as ['NAME:VALUE'], not {'A': "),
        ("[serve]\nheader = [['A', '1']]", "header must be a text or a list of texts, such as ['NAME:VALUE'], not "),
        ("serve = 1", "serve is not a table"),
        ("[serve", "oneloop.toml: "),
        ("[serve]\nconfig = 'x'", "there is no option config"),
    ],
)
def test_errors_say_where(text: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("oneloop.toml").write_text(text)
    with pytest.raises(SystemExit, match="2"):
        read("--config", "oneloop.toml")
    assert says in capsys.readouterr().err


def test_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        read("--config", "oneloop.toml")
    assert "oneloop.toml: No such file" in capsys.readouterr().err


def test_without_an_application(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        serve.main([])
    assert "no application given" in capsys.readouterr().err


def test_every_option_can_be_in_the_file() -> None:
    """Also those that other changes add: the names are the parser's."""
    for action in serve.parser()._actions:
        flags = [flag for flag in action.option_strings if flag.startswith("--") and not flag.startswith("--no-")]
        if not flags or flags[0] in ("--help", "--config") or action.help == argparse.SUPPRESS:
            continue
        from oneloop.cli.config import words_of

        value: Any = True if action.nargs == 0 else (action.choices or ["1"])[0]  # type: ignore[index]
        assert words_of({flags[0][2:]: value}, serve.parser(), "x")[0].startswith(flags[0])
