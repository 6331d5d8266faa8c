"""The site as an ASGI application, without a framework: the others answer the same.

| path | answer |
|---|---|
| `/hello` | a short body |
| `/echo` | length and SHA-256 of the body that was sent |
| `/big` | 10 MiB; with ranges, an ETag and 304 |
| `/gzip` | text, compressed if the client takes that |
| `/early` | 413, without reading the body |
"""

from __future__ import annotations

import gzip
import hashlib
from typing import Any

HELLO = b'{"hello":"world"}'
BIG = hashlib.shake_256(b"big").digest(1 << 16) * 160
TEXT = b"All work and no play makes Jack a dull boy.\n" * 2000
# The same bytes each time.
ZIPPED = gzip.compress(TEXT, mtime=0)
TAG = '"big-1"'
REFUSAL = b"too much"


def told(length: int, digest: str) -> bytes:
    """The answer of `/echo`."""
    return f"{length} {digest}".encode()


def ranged(fields: dict[str, str]) -> tuple[int, list[tuple[str, str]], bytes]:
    """The answer of `/big` to a request with these fields, whose names are in lower case."""
    if fields.get("if-none-match") == TAG:
        return 304, [("ETag", TAG)], b""
    wanted = fields.get("range", "")
    if not wanted.startswith("bytes=") or fields.get("if-range", TAG) != TAG:
        return 200, [("ETag", TAG), ("Accept-Ranges", "bytes")], BIG
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    begin, end = int(first), min(int(last or len(BIG)), len(BIG) - 1)
    if begin >= len(BIG):
        return 416, [("Content-Range", f"bytes */{len(BIG)}")], b""
    return 206, [("ETag", TAG), ("Content-Range", f"bytes {begin}-{end}/{len(BIG)}")], BIG[begin : end + 1]


def answer(path: str, fields: dict[str, str]) -> tuple[int, list[tuple[str, str]], bytes]:
    """What needs no body of the request."""
    if path == "/hello":
        return 200, [("Content-Type", "application/json")], HELLO
    if path == "/gzip":
        if "gzip" in fields.get("accept-encoding", ""):
            return 200, [("Content-Encoding", "gzip")], ZIPPED
        return 200, [], TEXT
    if path == "/big":
        return ranged(fields)
    return 404, [], b""


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        raise RuntimeError("only HTTP is served")
    fields = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
    path = scope["path"]
    if path == "/early":
        status, own, body = 413, [("Connection", "close")], REFUSAL
    elif path == "/echo":
        length, digest = 0, hashlib.sha256()
        is_over = False
        while not is_over:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            length += len(message.get("body", b""))
            digest.update(message.get("body", b""))
            is_over = not message.get("more_body", False)
        status, own, body = 200, [], told(length, digest.hexdigest())
    else:
        status, own, body = answer(path, fields)
    own = [*own, ("X-Port", str(scope["client"][1]))]
    if status != 304:
        own.append(("Content-Length", str(len(body))))
    headers = [(name.lower().encode(), value.encode()) for name, value in own]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    if scope["method"] == "HEAD":
        body = b""
    for at in range(0, max(1, len(body)), 1 << 18):
        piece = body[at : at + (1 << 18)]
        await send({"type": "http.response.body", "body": piece, "more_body": at + (1 << 18) < len(body)})
