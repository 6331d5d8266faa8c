"""A pytest plugin that makes anyio's test suite run on the loop named by ONELOOP_TEST_LOOP."""

from __future__ import annotations

import os
import socket

if os.environ["ONELOOP_TEST_LOOP"] == "oneloop":
    import oneloop

    oneloop.install()

# Where Python knows IPv6 and the machine has no ::1, anyio's `free_tcp_port` tries port after port without end. The
# sockets that it leaves to the garbage collector are blamed on later tests.
if os.environ["ONELOOP_TEST_IPV6"] == "0":
    socket.has_ipv6 = False
