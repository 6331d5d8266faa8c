"""`python -m asyncio ps PID` of Python 3.14 and later sees the tasks of a program on the loop."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import programs

BODY = """
async def sleeper_of_the_test():
    await asyncio.sleep(1000)

async def main():
    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper_of_the_test(), name="named-by-the-test")
        await asyncio.sleep(0)
        print("ready", flush=True)
        loop = asyncio.get_running_loop()
        loop.add_reader(0, os._exit, 0)

with asyncio.Runner(loop_factory=new_loop) as runner:
    runner.run(main())
"""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="asyncio ps came with Python 3.14")
@pytest.mark.parametrize("command", ["ps", "pstree"])
def test_it_sees_our_tasks(loop_name: str, command: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", programs.source(loop_name, BODY)],
        cwd=programs.ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        done = programs.run_command(
            sys.executable, "-m", "asyncio", command, str(process.pid), env={"PYTHONWARNINGS": "ignore"}
        )
        process.stdin.close()
        process.wait(60)
    if "ermission" in done.stderr:
        pytest.skip("this system does not permit reading another process's memory")
    assert "named-by-the-test" in done.stdout, done.stdout + done.stderr
    assert "sleeper_of_the_test" in done.stdout
