"""`Process`: a serving process, alone or as a parent's worker. It loads the application, serves, and handles signals.

Messages from a worker to its parent: `ready`; `replace` with a reason; `over` when its loop is about to end; `alive` as
the response to `P`; `short` when it cannot accept a connection that it was told of, or accepts none any more. Messages
from the parent: `F`, `L` and `N` for an `Ending`, `P` (ping), and `A`: accept what another worker could not.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import functools
import logging
import os
import signal
import ssl
from typing import TYPE_CHECKING

from oneloop.http.application import LoadError, load
from oneloop.http.imports import import_for
from oneloop.http.lifespan import LifespanError
from oneloop.http.listeners import ListenError
from oneloop.http.server import Ending, Server
from oneloop.loop import Loop

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Sequence

    from oneloop.http.listeners import Listener
    from oneloop.http.measures import Measures
    from oneloop.http.options import Options
    from oneloop.http.systemd import Notifier

__all__ = ["STARTUP_FAILURE", "Process", "ignore_signals"]

log = logging.getLogger("oneloop.error")

STARTUP_FAILURE = 3
"""The exit status of a process that could not start; the same as uvicorn's."""

# How long the process waits at exit for threads that still work for cancelled requests.
LATE_S = 2.0

_ENDINGS = {b"F": Ending.FINISH, b"L": Ending.LAST, b"N": Ending.NOW}


class Process:
    """One serving process.

    Args:
        target: the application, or its name.
        options: the options.
        listeners: the listening sockets; they are closed at the end.
        logs_records: send access lines through `logging`.
        measures: the process's counters, for `--metrics`.
        channel: the channel to the parent, if there is one.
        notifier: notifies the service manager, if there is no parent.
        from_file: names of the environment variables that the parent has set from `env_file`.
    """

    def __init__(
        self,
        target: object,
        options: Options,
        listeners: Sequence[Listener],
        *,
        logs_records: bool,
        measures: Measures | None = None,
        channel: socket.socket | None = None,
        notifier: Notifier | None = None,
        from_file: Sequence[str] = (),
    ) -> None:
        self._target = target
        self._options = options
        self._listeners = listeners
        self._logs_records = logs_records
        self._measures = measures
        self._channel = channel
        self._notifier = notifier
        self._from_file = from_file
        self._is_ending = False
        self._serving: tuple[asyncio.Task[int], Server] | None = None
        # That of an exception that nobody expects.
        self._status = 1
        self._is_hurrying = False
        self._has_unfinished = False

    def run(self) -> int:
        """Serve, and return the exit status. After serving has ended, the signals that were handled are ignored."""
        options = self._options
        if self._channel is not None and not faulthandler.is_enabled():
            # Prints the stack of a stuck worker. Fails if there is no stderr.
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                faulthandler.enable()
        try:
            if self._channel is not None and options.env_file is not None:
                from oneloop.http import environment

                # The file may have changed since the parent was started. An EnvironmentFileError is a ValueError.
                environment.load(options.env_file, again=self._from_file)
            if options.green:
                from oneloop.green import monkey

                monkey.patch_all()
            import_for(options)
            app = load(self._target, interface=options.interface, factory=options.factory, app_dir=options.app_dir)
        except (LoadError, OSError, ImportError, ValueError) as error:
            log.error("Cannot load the application: %s", error)
            if isinstance(error, LoadError) and error.details:
                log.error("%s", error.details.rstrip())
            return STARTUP_FAILURE
        if app.is_from_factory:
            log.warning("%s is a factory function and was called to get the application: add --factory.", self._target)
        return self._run_loop(app)

    def _run_loop(self, app: object) -> int:
        try:
            with asyncio.Runner(loop_factory=Loop) as runner:
                try:
                    return runner.run(self._serve(app))
                except KeyboardInterrupt:
                    if self._serving is None or self._serving[0].done():
                        raise
                    return self._end_interrupted(runner.get_loop(), *self._serving)
        finally:
            if signal.getsignal(signal.SIGINT) == self._hurry:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            if self._is_hurrying and not self._has_unfinished:
                signal.setitimer(signal.ITIMER_REAL, 0)

    def _hurry(self, *_: object) -> None:
        """On a second Ctrl-C: threads and tasks of the application may delay the end of the loop for ever."""
        if not self._is_hurrying and not self._has_unfinished:
            self._is_hurrying = True
            _end_late(self._status)

    def _end_interrupted(self, loop: asyncio.AbstractEventLoop, serving: asyncio.Task[int], server: Server) -> int:
        """End as a signal ends it: a task or a green thread of the application has raised KeyboardInterrupt."""
        if self._channel is None:
            self._end_by_signal(server, signal.SIGTERM)
        else:
            server.end(Ending.FINISH)
        while True:
            with contextlib.suppress(KeyboardInterrupt):
                return loop.run_until_complete(serving)

    async def _serve(self, app: object) -> int:
        loop = asyncio.get_running_loop()
        server = Server(
            app,  # type: ignore[arg-type]
            self._options,
            self._listeners,
            logs_records=self._logs_records,
            measures=self._measures,
            on_limit=None if self._channel is None else self._ask_for_successor,
        )
        task = asyncio.current_task()
        assert task is not None
        self._serving = task, server
        if self._channel is None:
            handlers: dict[signal.Signals, Callable[[], None]] = {
                signal.SIGINT: lambda: self._end_by_signal(server, signal.SIGINT),
                signal.SIGTERM: lambda: self._end_by_signal(server, signal.SIGTERM),
                signal.SIGHUP: lambda: self._reload(server),
            }
        else:
            # The parent handles SIGINT and counts signals. SIGTERM to this worker ends it, and the parent replaces it.
            handlers = {signal.SIGTERM: lambda: server.end(Ending.FINISH)}
            self._listen_to_parent(self._channel, server)
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        log.info("Started server process [%d]", os.getpid())
        try:
            await server.run(self._tell_ready)
            self._status = 0
        except LifespanError:
            # The reason was logged before.
            log.error("Application startup failed. Exiting.")
            self._status = STARTUP_FAILURE
        except (ListenError, OSError, ssl.SSLError, ValueError) as error:
            log.error("Cannot start the server: %s", error)
            self._status = STARTUP_FAILURE
        finally:
            ignore_signals(loop, {signal.SIGINT, signal.SIGTERM, *handlers})
            if self._channel is None:
                signal.signal(signal.SIGINT, self._hurry)
            if self._channel is not None:
                loop.remove_reader(self._channel.fileno())
                self._say("over")
            elif self._notifier is not None:
                self._notifier.stopping()
        if self._status:
            return self._status
        self._has_unfinished = server.has_unfinished
        if self._has_unfinished:
            _end_late(0)
        log.info("Finished server process [%d]", os.getpid())
        return 0

    def _tell_ready(self) -> None:
        if self._channel is not None:
            self._say("ready")
            return
        for listener in self._listeners:
            log.info("oneloop running on %s (Press CTRL+C to quit)", listener.shown)
        if self._notifier is not None:
            self._notifier.ready("serving")
            self._keep_alive(self._notifier)

    def _keep_alive(self, notifier: Notifier) -> None:
        if notifier.watchdog_s is not None:
            notifier.alive()
            asyncio.get_running_loop().call_later(notifier.watchdog_s, self._keep_alive, notifier)

    def _ask_for_successor(self, why: str) -> None:
        self._say(f"replace {why}")

    def _say(self, words: str) -> None:
        assert self._channel is not None
        # If the parent has died, `_hear` detects it.
        with contextlib.suppress(OSError):
            self._channel.send(f"{words}\n".encode())

    def _listen_to_parent(self, channel: socket.socket, server: Server) -> None:
        loop = asyncio.get_running_loop()
        channel.setblocking(False)
        loop.add_reader(channel.fileno(), self._hear, server)
        if not self._options.reuse_port:
            pass_on = functools.partial(self._say, "short")
            loop._shared.update((listener.socket, pass_on) for listener in self._listeners)  # type: ignore[attr-defined]

    def _hear(self, server: Server) -> None:
        assert self._channel is not None
        try:
            words = self._channel.recv(64)
        except BlockingIOError:
            return
        except OSError:
            words = b""
        if not words:
            log.error("The parent process has died: worker [%d] is stopping.", os.getpid())
            asyncio.get_running_loop().remove_reader(self._channel.fileno())
            server.end(Ending.LAST)
        for place in range(len(words)):
            word = words[place : place + 1]
            if word == b"P":
                self._say("alive")
            elif word == b"A":
                asyncio.get_running_loop()._look_for_connections()  # type: ignore[attr-defined]
            else:
                server.end(_ENDINGS[word])

    def _end_by_signal(self, server: Server, number: signal.Signals) -> None:
        """End the server. Once it is ending, only SIGINT changes something: supervisors send SIGTERM again."""
        if self._is_ending:
            if number == signal.SIGINT:
                server.end(Ending.NOW)
            return
        self._is_ending = True
        log.info("Shutting down")
        if self._notifier is not None:
            self._notifier.stopping()
        server.end(Ending.LAST)

    def _reload(self, server: Server) -> None:
        if self._notifier is not None:
            self._notifier.reloading()
        server.reload_certificates()
        if self._notifier is not None:
            self._notifier.ready("serving")


def ignore_signals(loop: asyncio.AbstractEventLoop, numbers: Iterable[signal.Signals]) -> None:
    """Ignore signals that the loop has handled: further ones must not interrupt the rest of the shutdown."""
    for number in numbers:
        loop._ignore_signal(number)  # type: ignore[attr-defined]


def _end_late(status: int) -> None:
    """Give threads of the application a limited time to end, then exit the process."""
    # A Python signal handler also runs while the main thread joins another thread.
    signal.signal(signal.SIGALRM, lambda number, frame: os._exit(status))
    signal.setitimer(signal.ITIMER_REAL, LATE_S)
