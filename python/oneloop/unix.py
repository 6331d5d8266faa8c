"""Unix sockets: the standard library's code for its own version, on our hooks."""

from __future__ import annotations

import os
import socket
from asyncio import unix_events
from asyncio.log import logger
from typing import Any

from oneloop import _native

_Stock: Any = unix_events._UnixSelectorEventLoop


class UnixMixin:
    """`create_unix_connection` of `oneloop.Loop`."""

    __slots__ = ()

    create_unix_connection = _Stock.create_unix_connection

    def _init_unix(self: Any) -> None:
        # Python 3.13 removes the socket's file when the server stops: socket -> its inode.
        self._unix_server_sockets: dict[socket.socket, int] = {}
        self._listeners: dict[socket.socket, Any] = {}

    def _forget_unix_socket(self: Any, sock: socket.socket) -> None:
        inode = self._unix_server_sockets.pop(sock, None)
        if inode is None:
            return
        path = sock.getsockname()
        try:
            _native.remove_socket_file(os.fsdecode(path), inode)
        except OSError as err:
            logger.error("Unable to clean up listening UNIX socket %r: %r", path, err)
