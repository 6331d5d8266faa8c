"""Unix sockets: the running Python version's own code, which calls our hooks."""

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
        # From Python 3.13 on, the socket's file is removed when the server stops. Maps socket to inode.
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
