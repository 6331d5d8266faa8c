"""Debug mode: slow callbacks, call sites, calls from the wrong thread."""

from __future__ import annotations

import asyncio
import logging
import threading
from functools import partial
from typing import Any

import pytest

from tests import programs


def test_debug_can_be_switched(loop: asyncio.AbstractEventLoop) -> None:
    assert not loop.get_debug()
    loop.set_debug(True)
    assert loop.get_debug()
    assert "debug=True" in repr(loop)
    loop.set_debug(False)
    assert not loop.get_debug()


@pytest.mark.parametrize("value", [1, "yes", [0], object(), -1, 0, "", None, [], 0.0])
def test_debug_is_whatever_is_true(loop: asyncio.AbstractEventLoop, value: Any) -> None:
    loop.set_debug(value)
    assert bool(loop.get_debug()) is bool(value)
    handle = loop.call_soon(print)
    assert (type(handle) is asyncio.Handle) is (bool(value) or type(loop) is asyncio.SelectorEventLoop)
    handle.cancel()
    loop.set_debug(False)
    assert not loop.get_debug()


def test_debug_comes_from_the_environment(loop_name: str) -> None:
    out = programs.run_ok(
        loop_name, "loop = new_loop(); print(loop.get_debug()); loop.close()", options=("-X", "dev", "-W", "ignore")
    )
    assert out.strip() == "True"


def test_slow_callbacks_are_reported(loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture) -> None:
    loop.set_debug(True)
    loop.slow_callback_duration = 0.0  # type: ignore[attr-defined]

    def slow() -> None:
        sum(range(10000))

    with caplog.at_level(logging.WARNING, "asyncio"):
        loop.call_soon(slow)
        loop.call_later(0, slow)
        loop.call_later(0.001, loop.stop)
        loop.run_forever()
    loop.set_debug(False)
    messages = [record.getMessage() for record in caplog.records]
    slow_ones = [message for message in messages if message.startswith("Executing <") and "slow" in message]
    assert len(slow_ones) == 2, messages
    assert all("seconds" in message for message in slow_ones)


def test_quick_callbacks_are_not_reported(loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture) -> None:
    loop.set_debug(True)
    loop.slow_callback_duration = 1000.0  # type: ignore[attr-defined]
    with caplog.at_level(logging.WARNING, "asyncio"):
        loop.run_until_complete(asyncio.sleep(0.001))
    loop.set_debug(False)
    assert "Executing" not in caplog.text


def test_handles_say_where_they_were_made(loop: asyncio.AbstractEventLoop, reported: Any) -> None:
    def fail() -> None:
        raise LookupError

    loop.set_debug(True)
    for schedule in (loop.call_soon, loop.call_soon_threadsafe, lambda callback: loop.call_later(0, callback)):
        handle = schedule(fail)
        assert f"created at {__file__}" in repr(handle)
        loop.stop()
        loop.run_forever()
        loop.stop()
        loop.run_forever()
        context = reported.take_one(LookupError)
        assert any(frame.filename == __file__ for frame in context["source_traceback"])
    loop.set_debug(False)


def test_reports_say_where_the_running_handle_was_made(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    loop.set_debug(True)
    loop.set_exception_handler(None)
    loop.call_soon(loop.call_exception_handler, {"message": "reported"})
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.call_exception_handler({"message": "outside"})
    loop.set_debug(False)
    [inside] = [message for message in caplog.messages if message.startswith("reported")]
    [outside] = [message for message in caplog.messages if message.startswith("outside")]
    assert "Handle created at (most recent call last):" in inside
    assert f'File "{__file__}"' in inside
    assert "created at" not in outside


def test_calls_from_another_thread_are_refused(loop: asyncio.AbstractEventLoop) -> None:
    loop.set_debug(True)

    async def main() -> list[str]:
        errors: list[str] = []

        def in_thread() -> None:
            for schedule in (
                partial(loop.call_soon, int),
                partial(loop.call_later, 0, int),
                partial(loop.call_at, 0, int),
            ):
                try:
                    schedule()
                except RuntimeError as error:
                    errors.append(str(error))

        thread = threading.Thread(target=in_thread)
        thread.start()
        while thread.is_alive():
            await asyncio.sleep(0)
        thread.join()
        return errors

    errors = loop.run_until_complete(main())
    loop.set_debug(False)
    assert len(errors) == 3
    assert all("Non-thread-safe operation" in error for error in errors)


@pytest.mark.parametrize("operation", ["call_soon", "call_later"])
def test_the_call_from_another_thread_is_harmless_without_debug(
    loop: asyncio.AbstractEventLoop, operation: str
) -> None:
    """It may be refused or late, but never harms memory: the loop goes on."""

    async def main() -> str:
        def in_thread() -> None:
            for _ in range(1000):
                try:
                    (loop.call_soon(int) if operation == "call_soon" else loop.call_later(0, int)).cancel()
                except RuntimeError:
                    continue

        thread = threading.Thread(target=in_thread)
        thread.start()
        while thread.is_alive():
            await asyncio.sleep(0)
        thread.join()
        return "alive"

    assert loop.run_until_complete(main()) == "alive"
