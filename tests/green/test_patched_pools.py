"""Pools of real threads in patched programs, which several green threads use."""

from __future__ import annotations

import sys

import pytest

from tests.green.patched import patched


@pytest.mark.skipif(sys.version_info < (3, 14), reason="InterpreterPoolExecutor came with Python 3.14")
def test_green_threads_share_a_pool_of_interpreters() -> None:
    out = patched("""
        import concurrent.futures
        from oneloop import green

        with concurrent.futures.InterpreterPoolExecutor(2) as pool:
            futures = [green.spawn(pool.submit, len, "ab") for _ in range(4)]
            print([future.get().result() for future in futures])
    """)
    assert out == "[2, 2, 2, 2]\n"


def test_green_threads_share_the_locks_of_default_executors() -> None:
    out = patched("""
        import asyncio
        from oneloop import green

        async def main():
            return sum([await asyncio.to_thread(len, "ab") for _ in range(20)])

        runs = [green.spawn(asyncio.run, main()) for _ in range(4)]
        print([run.get() for run in runs])
    """)
    assert out == "[40, 40, 40, 40]\n"
