"""`await_` in odd places: an eager task factory, futures of other loops, the end of the loop."""

from __future__ import annotations

import asyncio

import pytest

import oneloop
from oneloop import green


@pytest.mark.skipif(not hasattr(asyncio, "eager_task_factory"), reason="Python before 3.12 has no eager tasks")
def test_await_with_an_eager_task_factory() -> None:
    async def work() -> int:
        await asyncio.sleep(0.001)
        return id(asyncio.get_running_loop())

    async def main() -> bool:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(asyncio.eager_task_factory)
        return await loop.run_green(green.await_, work()) == id(loop)  # type: ignore[attr-defined, no-any-return]

    assert oneloop.run(main())


@pytest.mark.filterwarnings("ignore:There is no current event loop:DeprecationWarning")
def test_a_future_of_another_loop_is_refused_with_advice() -> None:
    other = asyncio.new_event_loop()
    future = other.create_future()
    with pytest.raises(ValueError, match=r"asyncio\.gather\(\) or ensure_future\(\) was called in a green thread"):
        green.await_(future)
    other.close()


def test_many_that_await_one_future_at_the_end_of_the_loop(capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()
        for _ in range(5):
            green.spawn(green.await_, future)
        await asyncio.sleep(0.001)

    oneloop.run(main())
    assert capsys.readouterr().err == ""
