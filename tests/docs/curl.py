"""Stands in for `curl URL` in the documents' examples: prints the body. Waits until the server accepts."""

from __future__ import annotations

import sys
import time
import urllib.error
import urllib.request

LIMIT_S = 50.0


def body(url: str) -> bytes:
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=LIMIT_S) as response:
                return bytes(response.read())
        except urllib.error.HTTPError as error:
            return error.read()
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError) or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


if __name__ == "__main__":
    sys.stdout.buffer.write(body(sys.argv[1]))
