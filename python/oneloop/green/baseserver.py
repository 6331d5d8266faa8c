"""`BaseServer`: a listening socket, with a green thread for each accepted connection or datagram.

```text
created → started (accepting ⇄ paused) → stopped
```
Accepting pauses while a bounded pool is full, and for a short time after a temporary error such as EMFILE.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, Any, Self

from oneloop.green import socket as _socket
from oneloop.green.event import Event
from oneloop.green.greenlet import Greenlet, spawn_raw
from oneloop.green.hub import get_hub, getcurrent, sleep
from oneloop.green.pool import Pool
from oneloop.green.steps import wait_here

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BaseServer", "parse_address"]


class BaseServer:
    """Accepts in one green thread, and calls handlers in others.

    Args:
        listener: a bound socket, or an address: `(host, port)`, `"host:port"`, `":port"`, a port, or a Unix socket's
            path.
        handle: called with what was accepted; None means the subclass's `handle` method.
        spawn: how handlers are started. "default": in a new `Greenlet`. "raw": in a raw greenlet. An int: in a `Pool`
            of this size. None: in the accepting green thread itself. A pool: with its `spawn` method. A function:
            called with the handler and its arguments.
    """

    min_delay = 0.01
    """The first pause after an error, in seconds. It doubles with each further error, up to `max_delay`."""
    max_delay = 1.0
    max_accept = 100
    """The number of connections that are accepted before other green threads run."""
    stop_timeout: float | None = 1.0
    """The time that running handlers get when the server stops, in seconds."""
    fatal_errors = (errno.EBADF, errno.EINVAL, errno.ENOTSOCK)
    """If accepting fails with one of these errors, the server stops."""

    def __init__(self, listener: Any, handle: Callable[..., object] | None = None, spawn: Any = "default") -> None:
        self.delay = self.min_delay
        self.pool: Pool | None = None
        self.socket: Any = None
        self.address: Any = None
        self.family: int | None = None
        self._accepting: Greenlet | None = None
        # That of the green thread that accepts.
        self._hub: Any = None
        self._stopped = Event()
        self._stopped.set()
        if self.max_accept < 1:
            raise ValueError(f"max_accept must be at least 1, not {self.max_accept}")
        self.set_spawn(spawn)
        self.set_handle(handle)
        self.set_listener(listener)

    def set_spawn(self, spawn: Any) -> None:
        """Set how handlers are started; see the `spawn` argument of the class."""
        self.pool = None
        if spawn == "default":
            self._spawn: Callable[..., Any] | None = Greenlet.spawn
        elif spawn == "raw":
            self._spawn = spawn_raw
        elif isinstance(spawn, int):
            self.pool = Pool(spawn)
            self._spawn = self.pool.spawn
        elif hasattr(spawn, "spawn"):
            self.pool = spawn
            self._spawn = spawn.spawn
        else:
            self._spawn = spawn

    def set_handle(self, handle: Callable[..., object] | None) -> None:
        """Set the handler; None means the subclass's `handle` method.

        Raises:
            TypeError: `handle` is None and the subclass has no `handle` method.
        """
        if handle is None:
            handle = getattr(self, "handle", None)
            if handle is None:
                raise TypeError("'handle' must be provided")
        else:
            self.handle = handle
        self._handle: Callable[..., object] = handle

    def set_listener(self, listener: Any) -> None:
        """Set where to listen: an address, or a bound socket, which the server closes when it stops.

        Raises:
            TypeError: the listener is a TLS socket; TLS applies to the accepted connections instead.
            ValueError: the listener is not an address.
        """
        if hasattr(listener, "do_handshake"):
            raise TypeError(f"the listener must be a plain socket, not a TLS socket: {listener!r}")
        if hasattr(listener, "accept") or hasattr(listener, "recvfrom"):
            self.family = listener.family
            self.address = listener.getsockname()
            if not isinstance(listener, _socket.socket):
                listener = _socket.socket(
                    listener.family, listener.type, listener.proto, fileno=os.dup(listener.fileno())
                )
            self.socket = listener
        else:
            self.family, self.address = parse_address(listener)

    # -- hooks for subclasses ---------------------------------------------------------------------------

    def init_socket(self) -> None:
        """Create `socket`, if an address was given."""

    def do_read(self) -> tuple[Any, ...] | None:
        """Wait for a connection or datagram. Return the handler's arguments, or None to try again."""
        raise NotImplementedError

    def do_close(self, *args: Any) -> None:
        """Clean up what was accepted, after its handler has ended or could not be started."""

    # -- accepting -----------------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            for _ in range(self.max_accept):
                if self.full():
                    assert self.pool is not None
                    self.pool.wait_available()
                if not self._accept_one():
                    return
            sleep(0)

    def _accept_one(self) -> bool:
        """Accept once. False if the server has stopped accepting."""
        try:
            args = self.do_read()
            self.delay = self.min_delay
        except Exception as error:  # noqa: BLE001 - it is reported
            if not self.is_fatal_error(error):
                self._rest_after(self)
                return True
            if self.started:
                get_hub().handle_error(self, *sys.exc_info())
            self.close()
            return False
        if args is not None:
            try:
                self.do_handle(*args)
            except BaseException as error:
                self.do_close(*args)
                if not isinstance(error, Exception):
                    raise
                self._rest_after((args[1:], self))
        return True

    def _rest_after(self, context: object) -> None:
        """Report the current exception, and pause accepting. Running handlers continue."""
        get_hub().handle_error(context, *sys.exc_info())
        sleep(self.delay)
        self.delay = min(self.max_delay, self.delay * 2)

    def is_fatal_error(self, error: BaseException) -> bool:
        """Whether the server must stop after this error."""
        return isinstance(error, OSError) and error.errno in self.fatal_errors

    def do_handle(self, *args: Any) -> None:
        """Run the handler for what was accepted."""
        if self._spawn is None:
            self._handle_closing(*args)
        else:
            self._spawn(self._handle_closing, *args)

    def _handle_closing(self, *args: Any) -> None:
        try:
            self._handle(*args)
        finally:
            self.do_close(*args)

    # -- starting and stopping ---------------------------------------------------------------------------

    @property
    def started(self) -> bool:
        """Whether the server was started and has not stopped, even if it does not accept now."""
        return not self._stopped.is_set()

    @property
    def closed(self) -> bool:
        """Whether the server has no socket."""
        return self.socket is None

    def full(self) -> bool:
        """Whether the server's pool is full."""
        return self.pool is not None and self.pool.full()

    def start(self) -> None:
        """Listen, and accept in a green thread. No effect if the server is started.

        Raises:
            OSError: the server cannot listen on the address.
            RuntimeError: the server was closed, and it was created with a socket.
        """
        if self.started:
            return
        self.init_socket()
        if self.socket is None:
            raise RuntimeError(f"{self!r} was closed with its socket: create a new server")
        self.address = self.socket.getsockname()
        self._stopped.clear()
        try:
            self.start_accepting()
        except BaseException:
            self.close()
            raise

    def start_accepting(self) -> None:
        """Accept in a green thread, after `stop_accepting`. `start` calls it."""
        if self._hub is not None and self._hub._is_parents:
            self._accepting = None
            self._forget_parents()
        self._hub = get_hub()
        if self._accepting is None:
            self._accepting = Greenlet.spawn(self._accept)

    def _forget_parents(self) -> None:
        """In a forked child: the handlers that run are the parent's."""
        pool = self.pool
        if type(pool) is Pool:
            self.set_spawn(Pool(pool.size, pool.greenlet_class))

    def stop_accepting(self) -> None:
        """Accept no more connections, and keep the socket: the system queues connections until `start_accepting`."""
        accepting, self._accepting = self._accepting, None
        if accepting is not None and accepting is not getcurrent():
            accepting.kill(block=False)

    def close(self) -> None:
        """Stop accepting. Running handlers continue."""
        sock, self.socket = self.socket, None
        self._stopped.set()
        self.stop_accepting()
        if sock is not None:
            sock.close()

    def stop(self, timeout: float | None = None) -> None:
        """Stop accepting, wait for running handlers, and then kill those that are left.

        Args:
            timeout: the time to wait in seconds; None means `stop_timeout`.
        """
        self.close()
        if self.pool is not None:
            self.pool.join(self.stop_timeout if timeout is None else timeout)
            self.pool.kill(block=True, timeout=1)

    def serve_forever(self, stop_timeout: float | None = None) -> None:
        """Start the server, and wait until it is stopped."""
        if not self.started:
            self.start()
        elif self._accepting is not None:
            # After a fork.
            self.start_accepting()
        try:
            wait_here(self._stopped.wait)
        finally:
            Greenlet.spawn(self.stop, timeout=stop_timeout).join()

    @property
    def server_host(self) -> Any:
        """The address of an IP server, or None."""
        return self.address[0] if isinstance(self.address, tuple) else None

    @property
    def server_port(self) -> Any:
        """The port of an IP server, or None. If the address has port 0, the system chooses the port in `start`."""
        return self.address[1] if isinstance(self.address, tuple) else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server."""
        self.stop()

    def __repr__(self) -> str:
        state = "started" if self.started else "closed" if self.closed else "stopped"
        handle = getattr(self._handle, "__self__", None)
        # The repr of its own method would contain that of the server.
        called = (
            f"<bound method {type(self).__name__}.{self._handle.__name__} of self>"
            if handle is self
            else repr(self._handle)
        )
        return f"<{type(self).__name__} at {hex(id(self))} {self.address!r} {state} handle={called}>"


def parse_address(address: Any) -> tuple[int, Any]:
    """Return the socket family and the normalized address.

    Args:
        address: `(host, port)`, `"host:port"`, `":port"`, `"*:port"`, a port, or the path of a Unix socket.

    Raises:
        ValueError: `address` is none of these.
    """
    if isinstance(address, tuple):
        host = address[0]
        is_v6 = isinstance(host, str) and ":" in host
        return (_socket.AF_INET6 if is_v6 else _socket.AF_INET), address
    if isinstance(address, int):
        return _socket.AF_INET, ("", address)
    if isinstance(address, str):
        host, _, port = address.rpartition(":")
        if port.isdigit():
            host = "" if host == "*" else host.strip("[]")
            return (_socket.AF_INET6 if ":" in host else _socket.AF_INET), (host, int(port))
        if "/" in address:
            return _socket.AF_UNIX, address
    raise ValueError(f"an address must be (host, port), 'host:port', a port, or a Unix socket's path, not {address!r}")
