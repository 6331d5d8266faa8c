"""What each path of the farm does: the first part of the path names the function.

| path | what it does |
|---|---|
| /status/N | answers with the status N |
| /latency/MS | answers 200 after so many milliseconds |
| /slow/first, head, headers, body | never a byte; drips the status line, header lines, the body, for ever |
| /close/first, head, body | ends the stream there |
| /reset/first, head, body | the same with a reset |
| /garbage/bytes, text, version, status, header, length, twolengths | what is no HTTP answer |
| /endless/headers, header, body, chunks, interim | without an end |
| /chunks/good, broken, cut, size | chunked bodies |
| /bytes/N, /short/N | a body of N bytes; one that promises a byte more than it has |
| /redirect/N, loop, to/URL, none, empty | N hops, `?status=` of each; to itself; there; without Location |
| /busy/STATUS/KEY?after=TEXT&times=N | STATUS with Retry-After, N times for each KEY; then 200. `after=date:S` |
| /head/STATUS | STATUS for HEAD, 200 for all others; /head/close ends the stream, /head/body sends a body for it |
| /auth | wants the user `user` with the password `secret` |
| /echo/…, cookie | 200, with a cookie; the farm keeps the request's headers |
| /gzip/MIB | so many MiB of zeros, gzipped |
"""

from __future__ import annotations

import asyncio
import base64
import email.utils
import itertools
import time
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable

from tests.check.farm.request import Answer, Request

DRIP_S = 0.02
AUTHORIZATION = "Basic " + base64.b64encode(b"user:secret").decode()
CHUNK = b"x" * 65_536
CUT_HEAD = b"HTTP/1.1 200 OK\r\nContent-Le"
CUT_BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
GARBAGE = {
    "bytes": bytes(range(128, 256)) * 4 + b"\r\n\r\n",
    "text": b"220 mail.example ESMTP\r\n",
    "version": b"HTTP/9.9 200 OK\r\nContent-Length: 0\r\n\r\n",
    "status": b"HTTP/1.1 2xx OK\r\nContent-Length: 0\r\n\r\n",
    "header": b"HTTP/1.1 200 OK\r\nno colon here\r\nContent-Length: 0\r\n\r\n",
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
    "twolengths": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
}
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = {
    "good": b"3\r\nabc\r\n0\r\n\r\n",
    "broken": b"3\r\nabcdef\r\n0\r\n\r\n",
    "cut": b"ff\r\nabc",
    "size": b"xyz\r\nabc\r\n0\r\n\r\n",
}

_served: Counter[str] = Counter()
"""How often each key of /busy was answered with its status."""


async def status(request: Request, answer: Answer) -> None:
    await answer.good(request.number(1))


async def latency(request: Request, answer: Answer) -> None:
    await asyncio.sleep(request.number(1) / 1000)
    await answer.good()


async def _drip(answer: Answer, parts: itertools.cycle[bytes]) -> None:
    answer.end()
    for part in parts:
        await answer.raw(part)
        await asyncio.sleep(DRIP_S)


async def slow(request: Request, answer: Answer) -> None:
    where = request.parts[1]
    if where == "first":
        await answer.hold()
    elif where == "head":
        await answer.raw(b"HTTP/1.1 200 ")
        await _drip(answer, itertools.cycle([b"a"]))
    elif where == "headers":
        await answer.raw(b"HTTP/1.1 200 OK\r\n")
        await _drip(answer, itertools.cycle([b"X-Drip: 1\r\n"]))
    else:
        await answer.head("Transfer-Encoding: chunked")
        if answer.method != "HEAD":
            await _drip(answer, itertools.cycle([b"1\r\nx\r\n"]))


async def _begin(where: str, answer: Answer) -> None:
    """What comes before the end of the stream; no body for HEAD."""
    if where == "head":
        await answer.raw(CUT_HEAD)
    elif where == "body":
        await answer.raw(CUT_BODY if answer.method == "HEAD" else CUT_BODY + b"abc")


async def close(request: Request, answer: Answer) -> None:
    where = request.parts[1]
    answer.end()
    await _begin(where, answer)


async def reset(request: Request, answer: Answer) -> None:
    where = request.parts[1]
    await _begin(where, answer)
    answer.reset()


async def garbage(request: Request, answer: Answer) -> None:
    answer.end()
    await answer.raw(GARBAGE[request.parts[1]])


async def endless(request: Request, answer: Answer) -> None:
    kind = request.parts[1]
    answer.end()
    if kind == "headers":
        await answer.raw(b"HTTP/1.1 200 OK\r\n")
        for number in itertools.count():
            await answer.raw(b"".join(b"X-%d-%d: some value\r\n" % (number, at) for at in range(200)))
    if kind == "header":
        await answer.raw(b"HTTP/1.1 200 OK\r\nX-Long: ")
    elif kind == "body":
        await answer.head("Connection: close")
    elif kind == "chunks":
        await answer.head("Transfer-Encoding: chunked")
    if answer.method == "HEAD" and kind in ("body", "chunks"):
        return
    part = {"chunks": b"10000\r\n" + CHUNK + b"\r\n", "interim": b"HTTP/1.1 102 Processing\r\n\r\n" * 500}.get(
        kind, CHUNK
    )
    while True:
        await answer.raw(part)


async def chunks(request: Request, answer: Answer) -> None:
    kind = request.parts[1]
    if kind != "good":
        answer.end()
    if answer.method == "HEAD":
        await answer.raw(CHUNKED)
    else:
        await answer.raw(CHUNKED + CHUNKS[kind])


async def bytes_(request: Request, answer: Answer) -> None:
    await answer.good(body=b"x" * request.number(1))


async def short(request: Request, answer: Answer) -> None:
    count = request.number(1)
    answer.end()
    await answer.head(f"Content-Length: {count + 1}")
    if answer.method != "HEAD":
        await answer.raw(b"x" * count)


async def redirect(request: Request, answer: Answer) -> None:
    kind = request.parts[1]
    code = int(request.query.get("status", "302"))
    if kind == "none":
        await answer.good(code)
    elif kind == "empty":
        await answer.good(code, location="")
    elif kind == "loop":
        await answer.good(code, location=request.target)
    elif kind == "to":
        await answer.good(code, location="/".join(request.parts[2:]))
    elif int(kind) == 0:
        await answer.good()
    else:
        await answer.good(code, location=f"/redirect/{int(kind) - 1}?status={code}")


async def busy(request: Request, answer: Answer) -> None:
    key, after = request.parts[2], request.query.get("after", "")
    if _served[key] >= int(request.query.get("times", "1")):
        await answer.good()
        return
    _served[key] += 1
    if after.startswith("date:"):
        after = email.utils.formatdate(time.time() + float(after.removeprefix("date:")), usegmt=True)
    if after:
        await answer.good(request.number(1), retry_after=after)
    else:
        await answer.good(request.number(1))


async def head(request: Request, answer: Answer) -> None:
    if answer.method != "HEAD":
        await answer.good()
    elif request.parts[1] == "close":
        answer.end()
    elif request.parts[1] == "body":
        # A mistake that servers make: the body comes although it was not asked for.
        await answer.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")
    else:
        await answer.good(request.number(1))


async def auth(request: Request, answer: Answer) -> None:
    if request.headers.get("authorization") == AUTHORIZATION:
        await answer.good()
    else:
        await answer.good(401, www_authenticate='Basic realm="farm"')


async def echo(request: Request, answer: Answer) -> None:
    if request.parts[1:] == ["cookie"]:
        await answer.good(set_cookie="one=1")
    else:
        await answer.good()


async def gzip(request: Request, answer: Answer) -> None:
    answer.end()
    await answer.head("Content-Encoding: gzip", "Connection: close")
    if answer.method == "HEAD":
        return
    packer = zlib.compressobj(level=1, wbits=31)
    zeros = bytes(1 << 20)
    for _ in range(request.number(1)):
        await answer.raw(packer.compress(zeros))
    await answer.raw(packer.flush())


Handler = Callable[[Request, Answer], Awaitable[None]]
HANDLERS: dict[str, Handler] = {
    "status": status,
    "latency": latency,
    "slow": slow,
    "close": close,
    "reset": reset,
    "garbage": garbage,
    "endless": endless,
    "chunks": chunks,
    "bytes": bytes_,
    "short": short,
    "redirect": redirect,
    "busy": busy,
    "head": head,
    "auth": auth,
    "echo": echo,
    "gzip": gzip,
}


async def answer_to(request: Request, answer: Answer) -> None:
    """Does what the path names; 404 for what it does not know."""
    handler = HANDLERS.get(request.parts[0])
    if handler is None:
        await answer.good(200 if request.parts == [""] else 404)
    else:
        await handler(request, answer)
