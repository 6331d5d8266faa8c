"""Loops that are wrong on purpose: the differential test must find each of them."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

from tests.differential.reference import ReferenceLoop, Transport
from tests.differential.virtual import VirtualLoop


class SwapsCallbacks(ReferenceLoop):
    """Every third callback overtakes the one before it."""

    made = 0

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        handle = super().call_soon(callback, *args, context=context)
        self.made += 1
        ready: Any = self._ready  # type: ignore[attr-defined]
        if self.made % 3 == 0 and len(ready) > 1:
            ready[-1], ready[-2] = ready[-2], ready[-1]
        return handle


class LosesContexts(ReferenceLoop):
    """call_soon() runs in the caller's context, whatever was asked for."""

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        return super().call_soon(callback, *args)


class LateTimers(VirtualLoop):
    """Deadlines are rounded up to half seconds."""

    def call_at(self, when: Any, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        return super().call_at(-(-when // 0.5) * 0.5, callback, *args, context=context)


class LateTransport(Transport):
    """Writes leave at the end of the tick, a long one short of its last byte."""

    def write(self, data: Any) -> None:
        if len(data) >= 5000:
            data = data[:-1]
        if type(data) is bytes and not self._conn_lost:
            self._loop.call_soon(super().write, data)
        else:
            super().write(data)


class LateWrites(ReferenceLoop):
    def _make_socket_transport(self, sock: Any, protocol: Any, waiter: Any = None, **keywords: Any) -> Any:
        return LateTransport(self, sock, protocol, waiter, **keywords)


class EagerTransport(Transport):
    """Reading goes on while it is paused."""

    def pause_reading(self) -> None:
        pass


class LazyTransport(Transport):
    """Reads at every second readiness only."""

    is_awake = True

    def _read_ready(self) -> None:
        self.is_awake = not self.is_awake
        if self.is_awake:
            super()._read_ready()


class LateReads(ReferenceLoop):
    def _make_socket_transport(self, sock: Any, protocol: Any, waiter: Any = None, **keywords: Any) -> Any:
        return LazyTransport(self, sock, protocol, waiter, **keywords)


class NeverPauses(ReferenceLoop):
    def _make_socket_transport(self, sock: Any, protocol: Any, waiter: Any = None, **keywords: Any) -> Any:
        return EagerTransport(self, sock, protocol, waiter, **keywords)


class KeepsReaders(ReferenceLoop):
    """A reader is called once more after it was removed."""

    def remove_reader(self, fd: Any) -> bool:
        key = self._selector.get_map().get(fd) if not self.is_closed() else None  # type: ignore[attr-defined]
        if key is not None and key.data[0] is not None:
            self.call_soon(key.data[0]._callback)
        return super().remove_reader(fd)


class ShortReads(ReferenceLoop):
    """sock_recv() returns at most ten bytes."""

    async def sock_recv(self, sock: socket.socket, n: int) -> bytes:
        return await super().sock_recv(sock, min(n, 10))


class LateDatagrams(ReferenceLoop):
    """Datagrams are handed over a tick later."""

    def _make_datagram_transport(self, sock: Any, protocol: Any, *args: Any, **keywords: Any) -> Any:
        received = protocol.datagram_received
        protocol.datagram_received = lambda data, addr: self.call_soon(received, data, addr)
        return super()._make_datagram_transport(sock, protocol, *args, **keywords)  # type: ignore[misc]


class LosesPipeEnds(ReferenceLoop):
    """A write pipe's protocol is not told that it is lost."""

    def _make_write_pipe_transport(self, pipe: Any, protocol: Any, *args: Any, **keywords: Any) -> Any:
        protocol.connection_lost = lambda _exc: None
        return super()._make_write_pipe_transport(pipe, protocol, *args, **keywords)  # type: ignore[misc]


class LeaksDescriptors(ReferenceLoop):
    """One descriptor is left behind with each connection."""

    def _make_socket_transport(self, sock: Any, protocol: Any, waiter: Any = None, **keywords: Any) -> Any:
        os.dup(sock.fileno())
        return super()._make_socket_transport(sock, protocol, waiter, **keywords)


class CallsFromThreads(ReferenceLoop):
    """call_soon_threadsafe() from a callback's thread runs the callback at once."""

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        if context is not None:
            context.run(callback, *args)
        else:
            callback(*args)
        return asyncio.Handle(callback, args, self, context)


class SignalsTwice(ReferenceLoop):
    def _handle_signal(self, sig: int) -> None:
        super()._handle_signal(sig)  # type: ignore[misc]
        super()._handle_signal(sig)  # type: ignore[misc]


class Hangs(ReferenceLoop):
    """Does not stop when it is told to."""

    def stop(self) -> None:
        pass
