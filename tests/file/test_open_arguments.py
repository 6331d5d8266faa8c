"""The arguments of open() that are wrong, doubtful or defaults: told as the built-in tells them."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from typing import Any

import pytest

from oneloop import files
from tests.file.conftest import told


def same_refusal(*arguments: Any, **keywords: Any) -> None:
    def builtin() -> None:
        open(*arguments, **keywords).close()

    expected = told(builtin)
    assert expected is not None
    assert told(lambda: files.open(*arguments, **keywords)) == expected


def test_modes_are_refused_as_open_refuses_them() -> None:
    for size in range(4):
        for letters in itertools.product("rwaxbt+U", repeat=size):
            mode = "".join(letters)
            expected = told(lambda mode=mode: open(os.devnull, mode).close())
            if expected is None or expected[0] is FileExistsError or issubclass(expected[0], OSError):
                # io.UnsupportedOperation is told when the file is there.
                continue
            assert told(lambda mode=mode: files.open(os.devnull, mode)) == expected, mode


@pytest.mark.parametrize(
    "arguments",
    [
        (1.5,),
        (None,),
        (-1,),
        (2**100,),
        ("a\0b",),
        (b"a\0b",),
        (os.devnull, 3),
        (os.devnull, "r", "y"),
        (os.devnull, "r", 0),
        (os.devnull, "r", -1, 3),
        (os.devnull, "r", -1, "nope"),
        (os.devnull, "r", -1, "hex"),
        (os.devnull, "r", -1, "utf-8", 3),
        (os.devnull, "r", -1, "utf-8", None, "q"),
        (os.devnull, "r", -1, "utf-8", None, 3),
        (os.devnull, "rb", -1, "utf-8"),
        (os.devnull, "rb", -1, None, "strict"),
        (os.devnull, "rb", -1, None, None, "\n"),
        (os.devnull, "rb", -1, None, None, None, False),
    ],
    ids=repr,
)
def test_arguments_are_refused_as_open_refuses_them(arguments: tuple[Any, ...]) -> None:
    same_refusal(*arguments)


def test_line_buffering_of_bytes_is_warned_of() -> None:
    with pytest.warns(RuntimeWarning, match="line buffering") as caught:
        files.open(os.devnull, "rb", 1)
    assert caught[0].filename == __file__


@pytest.mark.skipif(sys.version_info < (3, 13), reason="Python 3.13 was the first to warn")
def test_a_bool_is_no_descriptor() -> None:
    with pytest.warns(RuntimeWarning, match="bool is used as a file descriptor") as caught:
        files.open(True, "wb", closefd=False)
    assert caught[0].filename == __file__


def test_an_encoding_that_is_not_said_is_warned_of_if_asked() -> None:
    program = "from oneloop import files\nfiles.open('/dev/null')\nfiles.open('/dev/null', encoding='locale')\n"
    done = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr.count("EncodingWarning") == 1
    assert "<string>:2: EncodingWarning" in done.stderr


@pytest.mark.parametrize("flags", [["-X", "utf8=1"], ["-X", "utf8=0"], []], ids=str)
def test_the_encoding_is_what_open_would_take(flags: list[str]) -> None:
    program = (
        "import os, oneloop\nfrom oneloop import files\n"
        "async def main():\n"
        "    async with files.open(os.devnull) as file:\n"
        "        with open(os.devnull) as model:\n"
        "            assert (file.encoding, file.errors) == (model.encoding, model.errors), (file, model)\n"
        "oneloop.run(main())\n"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, *flags, "-c", program], env=environment, check=True)


@pytest.mark.parametrize("path", [os.devnull])
def test_direct_needs_bytes(path: str) -> None:
    with pytest.raises(ValueError, match="binary mode and no buffering"):
        files.open(path, "r", direct=True)
    with pytest.raises(ValueError, match="binary mode and no buffering"):
        files.open(path, "rb", 4096, direct=True)
