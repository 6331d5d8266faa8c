"""Selectors of green threads, and stock event loops that use them."""

from __future__ import annotations

import asyncio
import os
import selectors as stock
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from oneloop import green
from oneloop.green import selectors, socket
from oneloop.green.exceptions import BlockingSwitchOutError

CLASSES = [selectors.DefaultSelector, selectors.PollSelector, selectors.SelectSelector]


@pytest.fixture(autouse=True)
def with_a_hub() -> None:
    green.get_hub()


@pytest.fixture
def pair() -> Iterator[tuple[Any, Any]]:
    one, two = socket.socketpair()
    with one, two:
        yield one, two


@pytest.mark.parametrize("kind", CLASSES)
def test_the_life_of_a_selector(kind: Any, pair: tuple[Any, Any]) -> None:
    one, two = pair
    with kind() as selector:
        assert isinstance(selector, stock.BaseSelector)
        assert selector.select(0.001) == []
        key = selector.register(one, selectors.EVENT_READ, "data")
        assert selector.select(0) == selector.select(-1) == selector.select(0.001) == []
        green.spawn_later(0.01, two.sendall, b"x")
        assert selector.select() == [(key, selectors.EVENT_READ)]
        both = selector.modify(one, selectors.EVENT_READ | selectors.EVENT_WRITE, "other")
        assert selector.select(10) == [(both, selectors.EVENT_READ | selectors.EVENT_WRITE)]
        with pytest.raises(KeyError):
            selector.register(one, selectors.EVENT_READ)
        selector.unregister(one)
        with pytest.raises(KeyError):
            selector.unregister(one)
        with pytest.raises(ValueError, match="Invalid events"):
            selector.register(one, 7)


@pytest.mark.parametrize("kind", CLASSES)
def test_others_go_on(kind: Any, pair: tuple[Any, Any]) -> None:
    with kind() as selector:
        selector.register(pair[0], selectors.EVENT_READ)
        other = green.spawn(lambda: "ran")
        assert selector.select(0.001) == []
        assert other.value == "ran"


def test_several_wait_with_one_selector(pair: tuple[Any, Any]) -> None:
    one, two = pair
    with selectors.DefaultSelector() as selector:
        key = selector.register(one, selectors.EVENT_READ)
        waiting = [green.spawn(selector.select) for _ in range(3)]
        killed = green.spawn(selector.select)
        green.sleep(0)
        killed.kill()
        two.sendall(b"x")
        green.joinall(waiting, raise_error=True)
        assert [greenlet.value for greenlet in waiting] == [[(key, selectors.EVENT_READ)]] * 3


def test_registered_while_somebody_waits(pair: tuple[Any, Any]) -> None:
    one, _ = pair
    with selectors.DefaultSelector() as selector:
        waiting = green.spawn(selector.select)
        green.sleep(0)
        key = selector.register(one, selectors.EVENT_WRITE)
        assert waiting.get() == [(key, selectors.EVENT_WRITE)]


def test_closed(pair: tuple[Any, Any]) -> None:
    selector = selectors.DefaultSelector()
    selector.close()
    with pytest.raises(ValueError, match="closed"):
        selector.select(1)


def test_in_a_coroutine(pair: tuple[Any, Any]) -> None:
    async def main() -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(pair[0], selectors.EVENT_READ)
            assert selector.select(0) == []
            with pytest.raises(BlockingSwitchOutError):
                selector.select(1)

    loop = asyncio.SelectorEventLoop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def test_a_stock_loop_and_green_threads_take_turns() -> None:
    """The loop of asyncio with our selector, in the main greenlet and in another one."""
    seen: list[str] = []

    async def count(name: str) -> str:
        for _ in range(3):
            await asyncio.sleep(0.001)
            seen.append(name)
        assert asyncio.current_task() is not None
        return name

    def run(name: str) -> str:
        loop = asyncio.SelectorEventLoop(selectors.DefaultSelector())
        try:
            return loop.run_until_complete(count(name))
        finally:
            loop.close()

    def busy() -> None:
        loop = asyncio.SelectorEventLoop(selectors.DefaultSelector())

        async def until(greenlet: Any) -> None:
            while not greenlet.ready():
                await asyncio.sleep(0)

        try:
            loop.run_until_complete(until(green.spawn(seen.append, "beside a busy loop")))
        finally:
            loop.close()

    other = green.spawn(run, "green")
    assert run("main") == "main"
    assert other.get() == "green"
    assert sorted(seen) == ["green"] * 3 + ["main"] * 3
    assert seen != sorted(seen)
    busy()
    assert seen[-1] == "beside a busy loop"
    assert asyncio._get_running_loop() is None


def test_a_thread_without_a_hub(pair: tuple[Any, Any]) -> None:
    found: list[Any] = []

    def wait() -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(pair[0], selectors.EVENT_READ)
            found.append([key.fd for key, _ in selector.select(10)])

    thread = threading.Thread(target=wait)
    thread.start()
    os.write(pair[1].fileno(), b"x")
    thread.join()
    assert found == [[pair[0].fileno()]]


def test_patching_reaches_classes_that_were_imported_before(
    monkeypatch: pytest.MonkeyPatch, pair: tuple[Any, Any]
) -> None:
    for owner, name, value in selectors.__patched_attributes__:
        monkeypatch.setattr(owner, name, value)
    for kind in (stock.EpollSelector, stock.PollSelector, stock.SelectSelector):
        with kind() as selector:
            selector.register(pair[0], selectors.EVENT_READ)
            other = green.spawn(lambda: "ran")
            assert selector.select(0.001) == []
            assert other.value == "ran"


def test_names() -> None:
    assert selectors.DefaultSelector is selectors.GeventSelector
    assert issubclass(selectors.GeventSelector, selectors.EpollSelector)
    assert issubclass(selectors.DefaultSelector, stock.EpollSelector)
    assert set(selectors.__implements__) < set(selectors.__all__)
    assert selectors._fileobj_to_fd is stock._fileobj_to_fd  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        selectors.no_such_name  # noqa: B018
