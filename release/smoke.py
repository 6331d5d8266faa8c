"""The smoke test of a wheel: uses every part of the package in a few seconds, on the interpreter that the wheel is for.

It needs only the package, not pytest. `python smoke.py VERSION` prints one line: the machine, the Python version, the
file engine and whether there is TLS.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import oneloop
from oneloop import _native

LIMIT_S = 60


class Echo(asyncio.Protocol):
    """Sends back what it receives."""

    def connection_made(self, transport: Any) -> None:
        assert isinstance(transport, oneloop.StreamTransport), transport
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


async def streams() -> None:
    """Send data through a TCP echo server over the native transports."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sent = os.urandom(300_000)
    writer.write(sent)
    assert await reader.readexactly(len(sent)) == sent
    writer.close()
    await writer.wait_closed()
    server.close()


async def files(folder: str) -> str:
    """Use files with the engine that this kernel supports; returns the engine's name."""
    path = Path(folder) / "file"
    renamed = path.with_name("renamed")
    async with oneloop.files.open(path, "w") as file:
        await file.write("one\ntwo\n")
    async with oneloop.files.open(path) as file:
        assert [line async for line in file] == ["one\n", "two\n"]
    await oneloop.files.rename(path, renamed)
    assert (await oneloop.files.stat(renamed)).st_size == 8
    return str(oneloop.files.engine_info().engine)


async def others() -> None:
    """Use timers, threads and a child process."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    await asyncio.sleep(0.01)
    assert loop.time() - start >= 0.01
    assert await asyncio.to_thread(threading.get_ident) != threading.get_ident()
    child = await asyncio.create_subprocess_exec("/bin/echo", "child", stdout=subprocess.PIPE)
    assert (await child.communicate())[0] == b"child\n"


async def main(folder: str) -> str:
    """Run all tests on one loop; returns the name of the file engine."""
    assert isinstance(asyncio.get_running_loop(), oneloop.Loop)
    await streams()
    await others()
    return await files(folder)


def check_tls() -> str:
    """Make a TLS context on rustls if Python has the module ssl."""
    if importlib.util.find_spec("_ssl") is None:
        assert not hasattr(oneloop, "tls")
        return "no ssl"
    assert _native.TlsContext is type(oneloop.tls.client_context(verify=False))
    return "ssl"


def check_documents() -> None:
    """Read a page of the documents with the command."""
    command = [sys.executable, "-s", "-m", "oneloop", "docs", "reference/serve"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert "oneloop serve" in done.stdout, done.stdout


if __name__ == "__main__":
    assert oneloop.__version__ == sys.argv[1], oneloop.__version__
    assert not hasattr(oneloop, "green"), "nothing else is installed here"
    check_documents()
    with tempfile.TemporaryDirectory() as made:
        engine = oneloop.run(asyncio.wait_for(main(made), LIMIT_S))
    print(platform.machine(), "CPython", platform.python_version(), "files:", engine, "tls:", check_tls())
