"""A pytest plugin: the suite's loops on oneloop, virtual time, and a served application.

pytest loads it when oneloop is installed. Nothing changes until its option or one of its fixtures is used. It runs no
`async def` tests itself: pytest-asyncio and anyio do.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["oneloop_serve", "pytest_addoption", "pytest_configure", "virtual_time"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--oneloop`, and the setting `oneloop` for the configuration file."""
    text = "loops that the tests make with asyncio are oneloop loops"
    parser.getgroup("oneloop").addoption("--oneloop", action="store_true", default=None, help=text)
    parser.addini("oneloop", text, type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Make oneloop the loop of the suite if it is asked for."""
    chosen = config.getoption("--oneloop")
    if config.getini("oneloop") if chosen is None else chosen:
        from oneloop import factories

        # For the rest of the process, which ends with the suite.
        factories.replace_factories(named=True)


@pytest.fixture
def virtual_time() -> Callable[..., Any]:
    """`virtual_time(coroutine)` runs a coroutine in virtual time and returns its result."""
    from oneloop import testing

    return testing.run


@pytest.fixture
def oneloop_serve() -> Iterator[Callable[..., str]]:
    """`oneloop_serve(app)` serves an application on a free port in a thread of its own, and returns its URL.

    Arguments are those of `oneloop.http.serve`. The servers are stopped when the test ends.
    """
    with contextlib.ExitStack() as stack:
        yield lambda app, **options: stack.enter_context(_Server(app, options))


class _Server:
    def __init__(self, app: Any, options: dict[str, Any]) -> None:
        self._app = app
        self._options: dict[str, Any] = {"port": 0, "log_level": "error", "access_log": False, **options}
        self._ready = threading.Event()
        self._address = ""
        self._error: BaseException | None = None
        self._stop: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="oneloop_serve")

    def __enter__(self) -> str:
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error
        return self._address

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        import oneloop

        try:
            oneloop.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised in the thread of the test
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        import asyncio

        from oneloop import http

        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def ready(addresses: list[str]) -> None:
            self._address = addresses[0]
            self._stop = lambda: loop.call_soon_threadsafe(stop.set)
            self._ready.set()

        await http.serve(self._app, stop=stop, on_ready=ready, **self._options)
