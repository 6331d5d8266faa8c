"""The leading arguments of the scheduling methods by name, as asyncio's Python functions take them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

CALLS: dict[str, dict[str, Any]] = {
    "call_soon": {},
    "call_soon_threadsafe": {},
    "call_later": {"delay": 0},
    "call_at": {"when": 0},
}


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("method", CALLS)
async def test_all_by_name(loop: asyncio.AbstractEventLoop, method: str, debug: bool) -> None:
    loop.set_debug(debug)
    done = loop.create_future()
    getattr(loop, method)(**CALLS[method], callback=lambda: done.set_result(1), context=None)
    assert await done == 1
    loop.set_debug(False)


@pytest.mark.parametrize("method", ["call_later", "call_at"])
async def test_the_last_by_name(loop: asyncio.AbstractEventLoop, method: str) -> None:
    done = loop.create_future()
    getattr(loop, method)(0, callback=lambda: done.set_result(1))
    assert await done == 1


@pytest.mark.parametrize(
    ("method", "args", "names"),
    [
        ("call_soon", (), {}),
        ("call_soon", (print,), {"callback": print}),
        ("call_soon", (), {"call": print}),
        ("call_later", (), {"callback": print}),
        ("call_later", (1,), {"delay": 1, "callback": print}),
        ("call_later", (), {"when": 1, "callback": print}),
        ("call_at", (), {"when": 1}),
        ("call_at", (), {"when": 1, "callback": print, "more": 1}),
    ],
)
def test_bad_names(loop: asyncio.AbstractEventLoop, method: str, args: Any, names: Any) -> None:
    with pytest.raises(TypeError):
        getattr(loop, method)(*args, **names)


@pytest.mark.oneloop_only("a subclass of oneloop's")
def test_a_subclass_that_calls_by_name() -> None:
    import oneloop

    class Loop(oneloop.Loop):
        calls = 0

        def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
            self.calls += 1
            return super().call_soon(callback=callback, context=context)

    loop = Loop()
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert loop.calls == 1
    loop.close()
