"""OpenSSL's `s_client` and `s_server` as a peer; the command line is that of echo.py.

Both copy their standard input to the peer and what comes to their standard output. `s_server` serves one connection
after the other and does not close by itself, so LIMIT must be 0.
"""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from tests.ports import free_port
from tests.tls.peers.content import content

BLOCK = 1 << 16


def is_listening(port: int) -> bool:
    """Asked of the kernel: a connection would be one that the server takes for its client's."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    sockets = (line.split() for line in lines)
    return any(fields[1].endswith(f":{port:04X}") and fields[3] == "0A" for fields in sockets)


def wait_until_listening(process: subprocess.Popen[Any], port: int) -> None:
    while not is_listening(port):
        assert process.poll() is None, "s_server did not start"
        time.sleep(0.005)


def write_all(source: queue.SimpleQueue[bytes], target: IO[bytes]) -> None:
    while True:
        target.write(source.get())
        target.flush()


def serve(pem: str, version: str) -> None:
    port = free_port()
    command = ["openssl", "s_server", "-quiet", "-accept", f"127.0.0.1:{port}", "-cert", pem, "-key", pem]
    command += ["-cert_chain", pem, f"-tls{version.replace('.', '_')}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            wait_until_listening(server, port)
            print(f"ready {port}", flush=True)
            # What comes is taken at once: s_server does not read its input while its output is full.
            waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
            threading.Thread(target=write_all, args=(waiting, server.stdin), daemon=True).start()
            while data := server.stdout.read(BLOCK):
                waiting.put(data)
        finally:
            server.kill()


def call(port: str, authority: str, version: str, closer: str, sizes: list[int]) -> None:
    command = ["openssl", "s_client", "-quiet", "-no_ign_eof", "-connect", f"127.0.0.1:{port}", "-CAfile", authority]
    command += ["-servername", "localhost", "-verify_hostname", "localhost", "-verify_return_error"]
    command += [f"-tls{version.replace('.', '_')}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        assert client.stderr is not None
        try:
            for size in sizes:
                waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
                waiting.put(content(size))
                threading.Thread(target=write_all, args=(waiting, client.stdin), daemon=True).start()
                answer = client.stdout.read(size)
                if answer != content(size):
                    sys.exit(f"wrong answer to {size} bytes: {len(answer)}\n{client.stderr.read().decode()}")
            if closer == "client":
                client.stdin.close()
            assert client.stdout.read() == b"", "data after the last answer"
            said = client.stderr.read().decode()
            assert client.wait() == 0, said
            assert "error" not in said, said
        finally:
            client.kill()


def main() -> None:
    # So that what was started is ended, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    role, *rest = sys.argv[1:]
    if role == "server":
        pem, version, limit = rest
        assert limit == "0", "s_server does not close"
        serve(pem, version)
    else:
        port, authority, version, count, closer, *sizes = rest
        for _ in range(int(count)):
            call(port, authority, version, closer, [int(size) for size in sizes])
        print("ok")


if __name__ == "__main__":
    main()
