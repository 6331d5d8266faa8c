"""`serve` and `run`: an application served on the caller's loop, or by processes of its own."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import signal
import threading
from typing import TYPE_CHECKING

from oneloop.http import environment, logs
from oneloop.http.listeners import ListenError, all_of, open_listeners
from oneloop.http.options import OptionError, Options
from oneloop.http.systemd import Notifier

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence
    from typing import Unpack

    from oneloop.http.listeners import Listener
    from oneloop.http.options import Given

__all__ = ["run", "run_with", "serve"]

log = logging.getLogger("oneloop.error")

STARTUP_FAILURE = 3
# With --reload, requests have so long to end where --timeout-graceful-shutdown says nothing: some never do.
RELOAD_GRACE_S = 1.0


async def serve(
    app: object,
    *,
    stop: asyncio.Event | None = None,
    on_ready: Callable[[list[str]], None] | None = None,
    **given: Unpack[Given],
) -> None:
    """Serve an application on the running loop, which is a oneloop loop, until it is told to end.

    It ends when `stop` is set, after `limit_max_requests`, and in the main thread also by SIGINT and SIGTERM: requests
    are finished within `timeout_graceful_shutdown`; a second signal ends them. Cancelled, it ends them at once. The
    application's lifespan is shut down in any case. Handlers of these signals that the loop had are gone afterwards.

    Args:
        app: an ASGI or WSGI application, or its name, `package.module:app`.
        stop: ends the server when it is set.
        on_ready: called when connections are accepted, with the addresses as the log shows them.
        **given: options, with the names and meanings of `oneloop serve`. Those that need other processes (`workers`,
            `reload`, `limit_memory`) or change this one (`green`, `env_file`) are for `run`.

    Raises:
        OptionError: an option is wrong.
        LoadError: the application cannot be loaded, or its interface not be found out.
        ListenError: there is no socket to listen on.
        LifespanError: the application's startup failed.
        OSError, ssl.SSLError: the certificates cannot be used.
        TypeError: there is no such option, or the loop is not oneloop's.
    """
    from oneloop.http.application import load
    from oneloop.http.measures import Board, Measures
    from oneloop.http.server import Ending, Server
    from oneloop.loop import Loop

    options = Options.from_given(given)
    for name in ("reload", "limit_memory", "green", "env_file"):
        if getattr(options, name):
            raise OptionError(f"{name} is for oneloop.http.run(): serve() has one process, and does not change it")
    if options.workers is not None and options.workers > 1:
        raise OptionError("workers is for oneloop.http.run(): serve() has one process")
    loop = asyncio.get_running_loop()
    if not isinstance(loop, Loop):
        raise TypeError(f"oneloop.http.serve() needs a oneloop loop, not {type(loop).__name__}: use oneloop.run()")
    logs_records = logs.configure(options)
    app_dir = options.app_dir if isinstance(app, str) else None
    loaded = load(app, interface=options.interface, factory=options.factory, app_dir=app_dir)
    [listeners] = open_listeners(options)
    board = Board(1) if options.metrics is not None else None
    measures = None if board is None else Measures(board)
    server = Server(loaded, options, listeners, logs_records=logs_records, measures=measures)
    handled = _take_signals(loop, server.end, Ending.LAST, Ending.NOW)
    watching = None if stop is None else loop.create_task(_end_after(stop, lambda: server.end(Ending.LAST)))

    def tell_ready() -> None:
        for listener in listeners:
            log.info("oneloop running on %s", listener.shown)
        if on_ready is not None:
            on_ready([listener.shown for listener in listeners])

    try:
        await server.run(tell_ready)
    finally:
        if watching is not None:
            watching.cancel()
        for number in handled:
            loop.remove_signal_handler(number)


async def _end_after(stop: asyncio.Event, end: Callable[[], None]) -> None:
    await stop.wait()
    end()


def _take_signals(
    loop: asyncio.AbstractEventLoop, end: Callable[..., None], first: object, second: object
) -> list[signal.Signals]:
    """End the server by signals, where they can be handled: in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return []
    counts: list[int] = []

    def handle() -> None:
        counts.append(1)
        end(first if len(counts) == 1 else second)

    numbers = [signal.SIGINT, signal.SIGTERM]
    for number in numbers:
        loop.add_signal_handler(number, handle)
    return numbers


def run(app: object, **given: Unpack[Given]) -> None:
    """Serve an application in this process, or with `workers` and `reload` in processes of its own, until a signal.

    SIGINT and SIGTERM end it. With several workers it has to be called in the main thread, and before the program has
    threads or a loop, for it forks.

    Args:
        app: an ASGI or WSGI application, or its name, `package.module:app`. With `reload` it is a name.
        **given: options, with the names and meanings of `oneloop serve`.

    Raises:
        OptionError: an option is wrong.
        TypeError: there is no such option.
        SystemExit: with status 3, if the application cannot be loaded or its startup fails, or if there is no socket
            to listen on. What was wrong is in the log.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        status = run_with(app, given)
    finally:
        # They are the program's again, which may go on.
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)
    if status:
        raise SystemExit(status)


def run_with(app: object, given: Given) -> int:
    """Do what `run` does, and return the exit status; SIGINT and SIGTERM may be ignored afterwards.

    Raises:
        OptionError: an option is wrong.
        TypeError: there is no such option.
    """
    from_file: list[str] = []
    path = given.get("env_file")
    if path is not None:
        try:
            # First, for variables may be options: WEB_CONCURRENCY, FORWARDED_ALLOW_IPS.
            from_file = environment.load(path)
        except (OSError, environment.EnvironmentFileError) as error:
            raise OptionError(f"--env-file {path}: {error}") from error
    options = _for_reload(Options.from_given(given), app)
    try:
        logs_records = logs.configure(options)
    except logs.LogConfigError as error:
        raise OptionError(str(error)) from error
    if path is not None:
        log.info("Loaded %d environment variable(s) from %s", len(from_file), path)
    notifier = Notifier()
    try:
        groups = open_listeners(options, options.worker_count)
    except ListenError as error:
        log.error("%s", error)
        notifier.close()
        return STARTUP_FAILURE
    try:
        if options.has_parent:
            return _run_parent(app, options, groups, notifier, logs_records=logs_records, from_file=from_file)
        return _run_alone(app, options, groups[0], notifier, logs_records=logs_records)
    finally:
        for listener in all_of(groups):
            listener.close()
        notifier.close()


def _for_reload(options: Options, app: object) -> Options:
    if not options.reload:
        return options
    if not isinstance(app, str):
        raise OptionError("reload needs the application's name, such as 'package.module:app'")
    if (options.workers or 1) > 1:
        log.warning("--workers is left out: with --reload there is one worker.")
    if options.timeout_graceful_shutdown is None:
        return dataclasses.replace(options, timeout_graceful_shutdown=RELOAD_GRACE_S)
    return options


def _run_alone(
    app: object, options: Options, listeners: list[Listener], notifier: Notifier, *, logs_records: bool
) -> int:
    from oneloop.http.measures import Board, Measures
    from oneloop.http.process import Process

    measures = Measures(Board(1)) if options.metrics is not None else None
    process = Process(app, options, listeners, logs_records=logs_records, measures=measures, notifier=notifier)
    return process.run()


def _run_parent(
    app: object,
    options: Options,
    groups: list[list[Listener]],
    notifier: Notifier,
    *,
    logs_records: bool,
    from_file: Sequence[str],
) -> int:
    from oneloop.http.workers import Parent, Work

    board = None
    if options.metrics is not None:
        from oneloop.http.measures import Board

        board = Board()

    # Both import the native core, which the parent does not need.
    def work(listeners: Sequence[Listener], channel: socket.socket, row: int) -> int:
        from oneloop.http.measures import Measures
        from oneloop.http.process import Process

        measures = None if board is None else Measures(board, row)
        process = Process(
            app,
            options,
            listeners,
            logs_records=logs_records,
            measures=measures,
            channel=channel,
            from_file=from_file,
        )
        return process.run()

    def watch(channel: socket.socket) -> int:
        from oneloop.http.reloading import Watching

        return Watching(options).run(channel)

    return Parent(options, Work(work, groups, board, watch if options.reload else None), notifier).run()
