"""`Process`: what a process that serves does, alone or as a parent's worker: loads, serves, and heeds signals.

Words between a worker and its parent: `ready`, `replace` with a reason, and `over` once the loop is about to end;
`F`, `L` and `N` ask for an `Ending`, and `P` for the answer `alive`.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
import ssl
from typing import TYPE_CHECKING

from oneloop.http import environment
from oneloop.http.application import LoadError, load
from oneloop.http.lifespan import LifespanError
from oneloop.http.server import Ending, Server
from oneloop.loop import Loop

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from oneloop.http.listeners import Listener
    from oneloop.http.measures import Measures
    from oneloop.http.options import Options
    from oneloop.http.systemd import Notifier

__all__ = ["STARTUP_FAILURE", "Process"]

log = logging.getLogger("oneloop.error")

STARTUP_FAILURE = 3
"""The exit status of a process that could not begin: uvicorn's."""

# After requests were cut off at the end, threads that still work for them have so long.
LATE_S = 2.0

_ENDINGS = {b"F": Ending.FINISH, b"L": Ending.LAST, b"N": Ending.NOW}


class Process:
    """One process that serves.

    Args:
        target: the application, or its name.
        options: how.
        listeners: where; they are closed at the end.
        logs_records: access lines go through `logging`.
        measures: where it counts.
        channel: to the parent, if there is one.
        notifier: to the service manager, if there is no parent.
        from_file: the environment variables that came from `env_file` in the parent.
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
        self._signals = 0

    def run(self) -> int:
        """Serve; returns the exit status. SIGINT and SIGTERM are ignored from the end of serving on."""
        options = self._options
        if self._channel is not None and not faulthandler.is_enabled():
            # For the stack of a worker that is stuck; without a stderr there is none.
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                faulthandler.enable()
        try:
            if self._channel is not None and options.env_file is not None:
                # It may have changed since the parent began.
                environment.load(options.env_file, again=self._from_file)
            if options.green:
                from oneloop.green import monkey

                monkey.patch_all()
            app = load(self._target, interface=options.interface, factory=options.factory, app_dir=options.app_dir)
        except (LoadError, OSError, ImportError, environment.EnvironmentFileError) as error:
            log.error("The application cannot be loaded: %s", error)
            if isinstance(error, LoadError) and error.details:
                log.error("%s", error.details.rstrip())
            return STARTUP_FAILURE
        if app.is_from_factory:
            log.warning("The application is made by a factory function: add --factory to say so.")
        with asyncio.Runner(loop_factory=Loop) as runner:
            return runner.run(self._serve(app))

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
        if self._channel is None:
            handlers: dict[signal.Signals, Callable[[], None]] = {
                signal.SIGINT: lambda: self._end_by_signal(server),
                signal.SIGTERM: lambda: self._end_by_signal(server),
                signal.SIGHUP: lambda: self._reload(server),
            }
        else:
            # The parent counts signals; asked by somebody else, this worker ends, and the parent replaces it.
            handlers = {signal.SIGTERM: lambda: server.end(Ending.FINISH)}
            self._channel.setblocking(False)
            loop.add_reader(self._channel.fileno(), self._hear, server)
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        log.info("Started server process [%d]", os.getpid())
        try:
            await server.run(self._tell_ready)
        except LifespanError as error:
            log.error("%s Exiting.", error)
            return STARTUP_FAILURE
        except (OSError, ssl.SSLError, ValueError) as error:
            log.error("The server cannot start: %s", error)
            return STARTUP_FAILURE
        finally:
            # Signals that come again are not to cut short what is left, nor do they at any moment in between.
            signal.pthread_sigmask(signal.SIG_BLOCK, handlers)
            for number in handlers:
                loop.remove_signal_handler(number)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, handlers)
            if self._channel is not None:
                loop.remove_reader(self._channel.fileno())
                self._say("over")
            elif self._notifier is not None:
                self._notifier.stopping()
        if server.has_unfinished:
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
        # A parent that has gone is noticed elsewhere.
        with contextlib.suppress(OSError):
            self._channel.send(f"{words}\n".encode())

    def _hear(self, server: Server) -> None:
        assert self._channel is not None
        try:
            words = self._channel.recv(64)
        except BlockingIOError:
            return
        except OSError:
            words = b""
        if not words:
            log.error("The parent process has gone: worker [%d] ends.", os.getpid())
            asyncio.get_running_loop().remove_reader(self._channel.fileno())
            server.end(Ending.LAST)
        for place in range(len(words)):
            word = words[place : place + 1]
            if word == b"P":
                self._say("alive")
            else:
                server.end(_ENDINGS[word])

    def _end_by_signal(self, server: Server) -> None:
        self._signals += 1
        if self._signals == 1:
            log.info("Shutting down")
            if self._notifier is not None:
                self._notifier.stopping()
        server.end(Ending.LAST if self._signals == 1 else Ending.NOW)

    def _reload(self, server: Server) -> None:
        if self._notifier is not None:
            self._notifier.reloading()
        server.reload_certificates()
        if self._notifier is not None:
            self._notifier.ready("serving")


def _end_late(status: int) -> None:
    """Let what was cut off end, for a while: then the process ends all the same."""
    # A handler of Python's runs also while the main thread waits for another thread's end.
    signal.signal(signal.SIGALRM, lambda number, frame: os._exit(status))
    signal.setitimer(signal.ITIMER_REAL, LATE_S)
