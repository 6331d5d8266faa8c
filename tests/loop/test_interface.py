"""The whole interface: every method of this Python version's event loop is there, with its signature."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from tests.loops import LoopFactory

METHODS = sorted(
    name
    for name, value in vars(asyncio.AbstractEventLoop).items()
    if inspect.isfunction(value) and not name.startswith("_")
)

pytestmark = pytest.mark.oneloop_only("it is stock asyncio that the interface is taken from")


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_abstract(loop: Any, method: str) -> None:
    own = getattr(type(loop), method)
    assert own is not getattr(asyncio.AbstractEventLoop, method), f"{method} is not implemented"


@pytest.mark.parametrize("method", METHODS)
def test_coroutine_functions_are_coroutine_functions(loop: Any, method: str) -> None:
    stock = inspect.iscoroutinefunction(getattr(asyncio.SelectorEventLoop, method))
    if stock:
        result_is_awaitable = inspect.iscoroutinefunction(getattr(type(loop), method))
        signature = str(inspect.signature(getattr(type(loop), method))) if not result_is_awaitable else ""
        # A native method may return a future instead; then it says so by having been tested for it elsewhere.
        assert result_is_awaitable or method.startswith("sock_"), f"{method}{signature} is no coroutine function"


@pytest.mark.parametrize("method", METHODS)
def test_arguments_have_the_names_of_asyncio(loop: Any, method: str) -> None:
    try:
        own = inspect.signature(getattr(type(loop), method))
    except ValueError:
        pytest.fail(f"{method} has no signature (__text_signature__)")
    stock = inspect.signature(getattr(asyncio.SelectorEventLoop, method))

    def shape(signature: inspect.Signature) -> dict[str, Any]:
        return {
            name: parameter.kind
            for name, parameter in signature.parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY or parameter.kind is parameter.VAR_KEYWORD
        }

    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in own.parameters.values())
    missing = set(shape(stock)) - set(own.parameters)
    assert takes_any or not missing, f"{method} lacks {missing}"
    assert own.parameters.keys() - stock.parameters.keys() <= {"args", "kwargs", "_"}, (own, stock)


def test_the_loop_is_an_asyncio_loop(loop: Any) -> None:
    assert isinstance(loop, asyncio.AbstractEventLoop)
    assert isinstance(loop, asyncio.BaseEventLoop)
    assert repr(loop).startswith("<")
    assert "running=False" in repr(loop)


def test_a_loop_can_be_subclassed() -> None:
    import oneloop

    class Own(oneloop.Loop):
        extra: str

        def __init__(self) -> None:
            super().__init__()
            self.created = 0

        def create_task(self, *arguments: Any, **options: Any) -> Any:
            self.created += 1
            return super().create_task(*arguments, **options)

    loop = Own()
    loop.extra = "attributes can be set"
    loop.run_until_complete(asyncio.sleep(0))
    assert loop.created == 1
    loop.close()


def test_a_loop_can_be_weakly_referenced_and_collected() -> None:
    import gc
    import weakref

    import oneloop

    loop = oneloop.new_event_loop()
    loop.call_soon(lambda: loop)  # noqa: F821 - a cycle through the closure, whose variable is deleted below
    loop.close()
    alive = weakref.ref(loop)
    del loop
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("name", ["run", "new_event_loop", "install", "Loop"])
def test_public_names(name: str) -> None:
    import oneloop

    assert hasattr(oneloop, name)
    assert name in oneloop.__all__


def test_a_loop_needs_no_dictionary(loop_factory: LoopFactory) -> None:
    """Loop's slots cover what the running version's BaseEventLoop assigns: its methods are found faster so."""
    loop = loop_factory()
    if not hasattr(loop, "statistics"):
        loop.close()
        return
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(loop.run_in_executor(None, int))
    loop.run_until_complete(loop.shutdown_default_executor())
    assert vars(loop) == {}
    loop.close()
