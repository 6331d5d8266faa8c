"""The tests of the documents themselves: what is taken from a page, and what fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.examples import Example, blocks, examples
from tests.docs.terminal import Terminal

PAGE = """
```
pip install oneloop
```

```ini
# app.ini
[app]
```

`kernels/kernel.json`:

```json
{}
```

<!-- not run: needs root -->
```sh
reboot
```

```text
$ never
```

```python
# not_a_file
```

```console
$ python a.py \\
    --port 8000 &
ready
$ python b.py
```
"""


def test_what_is_taken_from_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert [block.language for block in blocks(page)] == ["", "ini", "json", "sh", "text", "python", "console"]
    assert [block.not_run for block in blocks(page) if block.not_run] == ["needs root"]
    taken = examples(page)
    assert [example.file for example in taken] == ["app.ini", "kernels/kernel.json", None, None]
    assert taken[-1].commands == [("python a.py --port 8000 &", "ready\n"), ("python b.py", "")]


def run(terminal: Terminal, text: str) -> None:
    for command, expected in Example("console", text, 1).commands:
        terminal.check(command, expected)


def test_other_output_than_expected_fails(tmp_path: Path) -> None:
    with Terminal(tmp_path, {}) as terminal:
        run(terminal, "$ python -c 'print(1)'\n1\n")
        with pytest.raises(AssertionError, match="got:\n1"):
            run(terminal, "$ python -c 'print(1)'\n2\n")
        with pytest.raises(AssertionError, match="other"):
            run(terminal, "$ python -c 'print(\"other\")' &\nready\n")


def test_a_script_that_fails(tmp_path: Path) -> None:
    with Terminal(tmp_path, {}) as terminal:
        terminal.script("true\n")
        with pytest.raises(AssertionError):
            terminal.script("false\ntrue\n")


def test_a_traceback_of_a_server_fails(tmp_path: Path) -> None:
    with Terminal(tmp_path, {}) as terminal:
        run(terminal, "$ python -c '1 / 0' &\n...ZeroDivisionError...\n")
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        terminal.check_logs()


def test_servers_are_ended_and_have_the_ports_of_the_page(tmp_path: Path) -> None:
    with Terminal(tmp_path, {}) as terminal:
        run(terminal, "$ python -m http.server --bind 127.0.0.1 8000 &\nServing HTTP on 127.0.0.1 port 8000...\n")
        (tmp_path / "file").write_text("content")
        run(terminal, "$ curl http://127.0.0.1:8000/file\ncontent\n")
        [(process, _)] = terminal._running
    assert process.returncode is not None
    assert terminal.text("18000 8000") != "18000 8000"
    assert terminal.text("18000 8000").startswith("18000 ")
