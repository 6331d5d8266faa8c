"""oneloop.run, install, the policy, and uvloop's names, each in a process of its own."""

from __future__ import annotations

import sys

import pytest

from tests import programs

WHERE = """
import oneloop
async def main():
    return type(asyncio.get_running_loop()).__module__.split(".")[0]
"""

QUIET = ("-W", "ignore::DeprecationWarning")


def ours(body: str) -> list[str]:
    return programs.run_ok("oneloop", WHERE + body, options=QUIET).split()


def test_run() -> None:
    assert ours("print(oneloop.run(main()))") == ["oneloop"]


def test_run_takes_a_loop_factory() -> None:
    assert ours("print(oneloop.run(main(), loop_factory=asyncio.SelectorEventLoop))") == ["asyncio"]


def test_run_debug() -> None:
    body = """
async def debug():
    return asyncio.get_running_loop().get_debug()
print(oneloop.run(debug()), oneloop.run(debug(), debug=True))
"""
    assert ours(body) == ["False", "True"]


def test_run_refuses_what_asyncio_refuses() -> None:
    body = """
try:
    oneloop.run(5)
except (TypeError, ValueError) as error:
    print(type(error).__name__)
async def nested():
    coroutine = main()
    try:
        oneloop.run(coroutine)
    except RuntimeError:
        print("nested")
    finally:
        coroutine.close()
oneloop.run(nested())
"""
    out = ours(body)
    assert out[0] in ("ValueError", "TypeError")
    assert out[1] == "nested"


def test_new_event_loop() -> None:
    assert ours("loop = oneloop.new_event_loop(); print(loop.run_until_complete(main())); loop.close()") == ["oneloop"]
    assert ours("loop = oneloop.Loop(); print(loop.run_until_complete(main())); loop.close()") == ["oneloop"]


def test_install() -> None:
    body = """
oneloop.install()
print(asyncio.run(main()))
loop = asyncio.new_event_loop()
print(loop.run_until_complete(main()))
loop.close()
with asyncio.Runner() as runner:
    print(runner.run(main()))
"""
    assert ours(body) == ["oneloop"] * 3


@pytest.mark.skipif(sys.version_info >= (3, 16), reason="policies are gone since Python 3.16")
def test_the_policy() -> None:
    body = """
asyncio.set_event_loop_policy(oneloop.EventLoopPolicy())
print(asyncio.run(main()))
loop = asyncio.get_event_loop_policy().new_event_loop()
print(loop.run_until_complete(main()))
loop.close()
asyncio.set_event_loop_policy(None)
print(asyncio.run(main()))
"""
    assert ours(body) == ["oneloop", "oneloop", "asyncio"]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="child watchers are gone since Python 3.14")
def test_subprocesses_under_the_policy() -> None:
    body = """
asyncio.set_event_loop_policy(oneloop.EventLoopPolicy())
async def child():
    process = await asyncio.create_subprocess_exec("true")
    print(await process.wait())
asyncio.run(child())
"""
    assert ours(body) == ["0"]


def test_uvloops_names() -> None:
    body = """
import oneloop.compat.uvloop as uvloop
for name in ("install", "new_event_loop", "EventLoopPolicy", "Loop", "run", "__version__"):
    assert hasattr(uvloop, name), name
print(uvloop.run(main()))
loop = uvloop.new_event_loop()
assert isinstance(loop, uvloop.Loop)
print(loop.run_until_complete(main()))
loop.close()
uvloop.install()
print(asyncio.run(main()))
"""
    assert ours(body) == ["oneloop"] * 3
