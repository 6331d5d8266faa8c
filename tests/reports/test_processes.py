"""Child processes. The sources are in `records/processes.toml`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest


async def test_an_inheritable_descriptor_that_was_not_passed(loop: asyncio.AbstractEventLoop) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    program = "import os, sys; print(os.path.exists(f'/proc/self/fd/{sys.argv[1]}'))"
    for passed, answer in (((), b"False\n"), ((writing,), b"True\n")):
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, str(writing), stdout=subprocess.PIPE, pass_fds=passed
        )
        assert (await child.communicate())[0] == answer
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (("program\0of another name",), {}),
        ((sys.executable, "-c", "\0"), {}),
        ((sys.executable,), {"env": {"NAME": "va\0lue"}}),
        ((sys.executable,), {"env": {"NA\0ME": "value"}}),
        ((sys.executable,), {"env": {"NAME=": "value"}}),
        ((sys.executable,), {"cwd": "fol\0der"}),
    ],
)
async def test_strings_that_a_system_call_would_cut(
    loop: asyncio.AbstractEventLoop, arguments: tuple[str, ...], options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"null byte|null character|illegal environment variable name"):
        await asyncio.create_subprocess_exec(*arguments, **options)
