"""What `isinstance()` sees of the native transports.

A native layout cannot have asyncio's transports as base classes, so that the native types present
these classes as their `__class__`. They are never instantiated.
"""

from __future__ import annotations

import asyncio
from asyncio import transports


class StreamTransport(transports._FlowControlMixin, asyncio.Transport):
    """A connected TCP or Unix socket."""


class DatagramTransport(transports._FlowControlMixin, asyncio.Transport, asyncio.DatagramTransport):
    """A datagram socket. Also a `Transport`, as asyncio's own is."""


class ReadPipeTransport(asyncio.ReadTransport):
    """The reading end of a pipe."""


class WritePipeTransport(transports._FlowControlMixin, asyncio.WriteTransport):
    """The writing end of a pipe."""
