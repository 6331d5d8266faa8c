"""A fork while TLS data waits for the socket: the peer gets it from the parent, once."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading

import pytest

from tests import programs
from tests.tls.authority import Authority
from tests.transport.conftest import socket_pair
from tests.transport.test_writes_and_processes import LIMIT_S, OPTIONS

# The first fills the socket and the transport below; the second waits in the TLS transport.
FORK = """
import ssl
# The watchdog is a thread, which a forked child lacks and would wait for at its exit.
faulthandler.cancel_dump_traceback_later()
signal.alarm({limit})
ours = socket.socket(fileno={fd})
ours.setblocking(False)

async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours, ssl=context, server_hostname="localhost")
    transport.write(bytes(3_000_000))
    await asyncio.sleep(0)
    transport.write(b"kept" * 10)
    assert transport.get_write_buffer_size() >= 40
    pid = os.fork()
    if pid == 0:
        {child}
    # The child is gone before anything further is written.
    status = os.waitpid(pid, 0)[1]
    os.write({gate}, b"x")
    transport.write(b"end")
    transport.close()
    while transport.get_extra_info("socket").fileno() >= 0:
        await asyncio.sleep(0.001)
    print(os.waitstatus_to_exitcode(status))

loop = new_loop()
loop.run_until_complete(main())
"""
# What a child does, and its exit status: all that it has kept is its own.
CHILDREN = {
    "_exit": ("os._exit(0)", 0),
    "aborts": ("transport.abort(); os._exit(0)", 0),
    "writes": ('transport.write(b"child"); os._exit(transport.get_write_buffer_size())', 5),
}


def received_from(loop: str, authority: Authority, child: str) -> tuple[bytes, str]:
    """All that the peer of a program gets, which reads nothing before the child has ended; what the program prints."""
    ours, theirs = socket_pair("unix")
    gate = os.pipe()
    received = bytearray()

    def read() -> None:
        theirs.setblocking(True)
        with contextlib.suppress(OSError), authority.server_context().wrap_socket(theirs, server_side=True) as secure:
            os.read(gate[0], 1)
            while data := secure.recv(1 << 16):
                received.extend(data)
            secure.unwrap()

    reader = threading.Thread(target=read)
    body = FORK.format(fd=ours.fileno(), gate=gate[1], child=child, limit=int(LIMIT_S))
    reader.start()
    try:
        done = subprocess.run(
            [sys.executable, *OPTIONS, "-c", programs.source(loop, body, LIMIT_S)],
            cwd=programs.ROOT,
            pass_fds=[ours.fileno(), gate[1]],
            capture_output=True,
            text=True,
            timeout=LIMIT_S + 10,
            check=False,
        )
    finally:
        ours.close()
        os.write(gate[1], b"x")
        reader.join()
        for end in gate:
            os.close(end)
    assert done.returncode == 0, done.stderr
    return bytes(received), done.stdout


@pytest.mark.oneloop_only("asyncio encrypts what waits at once, and keeps it below")
@pytest.mark.parametrize("child", CHILDREN)
def test_what_waits_is_sent_once(loop_name: str, authority: Authority, child: str) -> None:
    action, status = CHILDREN[child]
    received, printed = received_from(loop_name, authority, action)
    assert (len(received), received[-43:]) == (3_000_043, b"kept" * 10 + b"end")
    assert int(printed) == status
