"""`serve` and `run`: serve an application on the caller's loop, or in processes that this module starts."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import signal
import threading
from typing import TYPE_CHECKING

from oneloop.http import logs
from oneloop.http.listeners import ListenError, all_of, open_listeners
from oneloop.http.options import OptionError, Options
from oneloop.http.systemd import Notifier

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence
    from typing import Unpack

    from oneloop.http.given import Given
    from oneloop.http.listeners import Listener

__all__ = ["run", "run_with", "serve"]

log = logging.getLogger("oneloop.error")

STARTUP_FAILURE = 3
# With --reload and without --timeout-graceful-shutdown, requests have this many seconds to end: some never do.
RELOAD_GRACE_S = 1.0


async def serve(
    app: object,
    *,
    stop: asyncio.Event | None = None,
    on_ready: Callable[[list[str]], None] | None = None,
    **given: Unpack[Given],
) -> None:
    """Serve an application on the running oneloop loop, until the server is stopped.

    The server stops when `stop` is set, after `limit_max_requests`, and in the main thread also on SIGINT or SIGTERM.
    It then waits for running requests, at most `timeout_graceful_shutdown` seconds; a second signal cancels them if it
    is SIGINT. If this coroutine is cancelled, requests are cancelled immediately. The application's lifespan is shut
    down in any case. Existing handlers of the loop for SIGINT and SIGTERM are replaced and not restored.

    Args:
        app: an ASGI or WSGI application, or its name, `package.module:app`.
        stop: the server stops when this event is set.
        on_ready: called when the server accepts connections, with the list of addresses as in the log.
        **given: options, with the names and meanings of `oneloop serve`. Options that need other processes (`workers`,
            `reload`, `limit_memory`) or change this process (`green`, `env_file`) are only for `run`.

    Raises:
        OptionError: an option is wrong.
        LoadError: the application cannot be loaded, or it is not clear whether it is ASGI or WSGI.
        ListenError: the socket cannot be opened.
        LifespanError: the application's startup failed.
        OSError, ssl.SSLError, ValueError: the certificates cannot be used.
        TypeError: there is no such option, or the running loop is not a oneloop loop.
    """
    from oneloop.http.application import load
    from oneloop.http.imports import import_for
    from oneloop.http.measures import Board, Measures
    from oneloop.http.server import Ending, Server
    from oneloop.loop import Loop

    options = Options.from_given(given)
    for name in ("reload", "limit_memory", "green", "env_file"):
        if getattr(options, name):
            raise OptionError(f"serve() does not support the option {name!r}: use oneloop.http.run() or oneloop serve")
    if options.workers is not None and options.workers > 1:
        raise OptionError(
            f"serve() runs in one process, so workers={options.workers} is not possible: use oneloop.http.run() or"
            " oneloop serve"
        )
    loop = asyncio.get_running_loop()
    if not isinstance(loop, Loop):
        raise TypeError(
            f"oneloop.http.serve() needs a oneloop event loop, not {type(loop).__name__}: start the program with"
            " oneloop.run(main())"
        )
    logs_records = logs.configure(options)
    import_for(options)
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
    """In the main thread, add signal handlers that stop the server. Return the handled signals."""
    if threading.current_thread() is not threading.main_thread():
        return []
    is_ending = False

    def handle(number: signal.Signals) -> None:
        nonlocal is_ending
        if not is_ending:
            is_ending = True
            end(first)
        elif number == signal.SIGINT:
            end(second)

    numbers = [signal.SIGINT, signal.SIGTERM]
    for number in numbers:
        loop.add_signal_handler(number, handle, number)
    return numbers


def run(app: object, **given: Unpack[Given]) -> None:
    """Serve an application until SIGINT or SIGTERM. With `workers` or `reload` it runs in child processes.

    In these cases the function forks: call it in the main thread, before the program starts threads or a loop.

    Args:
        app: an ASGI or WSGI application, or its name, `package.module:app`. `reload` needs the name.
        **given: options, with the names and meanings of `oneloop serve`.

    Raises:
        OptionError: an option is wrong.
        TypeError: there is no such option.
        RuntimeError: an event loop runs in this thread.
        SystemExit: with status 3 if the application cannot be loaded, its startup fails, or the socket cannot be
            opened. The reason is in the log.
    """
    if asyncio.events._get_running_loop() is not None:
        # Before anything is opened or forked.
        raise RuntimeError(
            "oneloop.http.run() starts an event loop, and one is running already: write await oneloop.http.serve(app)"
        )
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        status = run_with(app, given)
    finally:
        # Restore the program's handlers, because the program may continue.
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)
    if status:
        raise SystemExit(status)


def run_with(app: object, given: Given) -> int:
    """Like `run`, but return the exit status. Afterwards SIGINT, SIGTERM and SIGHUP may be ignored.

    Raises:
        OptionError: an option is wrong.
        TypeError: there is no such option.
    """
    from_file: list[str] = []
    path = given.get("env_file")
    if path is not None:
        from oneloop.http import environment

        try:
            # Load it first, because variables can set options: WEB_CONCURRENCY, FORWARDED_ALLOW_IPS.
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
        raise OptionError(
            "reload imports the application again after each change: pass its name, such as 'package.module:app', not"
            " the object"
        )
    if (options.workers or 1) > 1:
        log.warning("--workers is ignored: with --reload there is one worker.")
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

    # Import inside these functions, because the parent does not need the native core.
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
