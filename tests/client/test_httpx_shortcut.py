"""httpx's own transports on the facade: what a program and its tools see is what they see without the shortcut."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.client.farm import MANNERS, farm
from tests.programs import ROOT

pytest.importorskip("httpx2", reason="needs the packages httpx, httpx2, httpcore and httpcore2")

PACKAGES = ["httpx", "httpx2"]

PROGRAM = """
import asyncio, importlib, json, logging, pickle, sys
from unittest.mock import patch
NAME, PORT, SHORTCUT, PATHS = sys.argv[1], sys.argv[2], sys.argv[3] == "shortcut", sys.argv[4:]
BELOW = NAME.replace("httpx", "httpcore")
package, below = importlib.import_module(NAME), importlib.import_module(BELOW)
transports = importlib.import_module(f"{NAME}._transports.default")
if not SHORTCUT:
    below.AsyncConnectionPool._package.shortcut.install = lambda: None
URL = f"http://127.0.0.1:{PORT}"
found = []

def times(path):
    return package.Timeout(60, read=0.3 if "/stalls" in path else 60)

def shown(response):
    names = [name for name in vars(response) if name != "_decoder"]
    stream = response.stream
    streams = []
    while stream is not None:
        streams.append(type(stream).__name__)
        stream = getattr(stream, "_stream", None) or getattr(stream, "_httpcore_stream", None)
    extensions = sorted(response.extensions)
    again = pickle.loads(pickle.dumps(response))
    return [response.status_code, response.headers.multi_items(), names, streams[:2], extensions, response.http_version,
            response.reason_phrase, response.text, again.text, response.is_closed, response.num_bytes_downloaded]

def failure(error):
    chain = []
    while error is not None:
        kind = type(error)
        chain.append([kind.__module__, kind.__name__, str(error) if "oneloop" not in kind.__module__ else ""])
        if getattr(error, "_request", None) is not None:
            chain[-1].append(str(error.request.url).replace(PORT, ""))
        error = error.__cause__
    return chain

def plain(path, method="GET", **arguments):
    with package.Client(timeout=times(path), verify=False) as client:
        try:
            found.append(shown(client.request(method, URL + path, **arguments)))
        except package.HTTPError as error:
            found.append(failure(error))

async def coroutine(path, method="GET", **arguments):
    async with package.AsyncClient(timeout=times(path), verify=False) as client:
        try:
            found.append(shown(await client.request(method, URL + path, **arguments)))
        except package.HTTPError as error:
            found.append(failure(error))
"""

MANNERED = """
def parts():
    yield b"a"
    yield b"b"
async def later():
    yield b"a"
    yield b"b"
async def main():
    for path in PATHS:
        await coroutine(path)
    await coroutine("/echo", "POST", content=b"body")
    await coroutine("/echo", "POST", content=later())
    await coroutine("/kept", extensions={"target": "/echo"})
    await coroutine("/kept", headers={"Host": "a", "host": "b"})
for path in PATHS:
    plain(path)
plain("/echo", "POST", content=b"body")
plain("/echo", "POST", content=parts())
plain("/kept", extensions={"target": "/echo"})
plain("/kept", headers={"X-Long": "a" * 100})
asyncio.run(main())
with package.Client(timeout=60, verify=False) as client, client.stream("GET", URL + "/chunked") as response:
    found.append([response.is_closed, [piece.decode() for piece in response.iter_raw()], response.is_closed])
print(json.dumps(found))
"""

TOOLS = """
calls = []

def counted(name, original):
    def wrapper(*args, **others):
        calls.append(name)
        return original(*args, **others)
    return wrapper

def used(what):
    plain("/kept")
    asyncio.run(coroutine("/kept"))
    found.append([what, *calls])
    calls.clear()

used("nothing")
for owner, names in (
    (below.ConnectionPool, ["handle_request"]),
    (below.AsyncConnectionPool, ["handle_async_request"]),
    (transports.HTTPTransport, ["handle_request"]),
    (transports.AsyncHTTPTransport, ["handle_async_request"]),
    (below.Request, ["__init__"]),
    (below.URL, ["__init__"]),
    (package.Response, ["__init__", "aread", "read", "aiter_raw", "iter_raw"]),
    (transports.ResponseStream, ["__iter__", "close"]),
    (transports.AsyncResponseStream, ["__aiter__", "aclose"]),
):
    for name in names:
        with patch.object(owner, name, counted(name, getattr(owner, name))):
            used(f"{owner.__name__}.{name}")
        used("nothing again")

def traced(name, info):
    calls.append(name)

async def traced_later(name, info):
    calls.append(name)

plain("/kept", extensions={"trace": traced})
asyncio.run(coroutine("/kept", extensions={"trace": traced_later}))
found.append(calls[:])
calls.clear()

class Kept(logging.Handler):
    def emit(self, record):
        calls.append(f"{record.name} {record.getMessage().partition(' ')[0]}")

logger = logging.getLogger(BELOW)
logger.addHandler(Kept())
logger.setLevel(logging.DEBUG)
used("log")
logger.setLevel(logging.WARNING)

client = package.Client(verify=False)
pool = client._transport._pool
pool.handle_request = counted("of the instance", pool.handle_request)
client.get(URL + "/kept")
client.close()
used("pool")
print(json.dumps(found))
"""


@pytest.fixture
def port() -> Iterator[int]:
    with farm() as served:
        assert served.port is not None
        yield served.port


def ran(name: str, port: int, text: str, kind: str, *paths: str) -> Any:
    below = name.replace("httpx", "httpcore")
    command = [sys.executable, "-m", "oneloop", "run", "--replace", below, "-c", PROGRAM + text]
    done = subprocess.run(
        [*command, name, str(port), kind, *paths],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", PACKAGES)
def test_each_manner(name: str, port: int) -> None:
    """Responses, their attributes, the chains of exceptions, bodies of requests."""
    paths = sorted(MANNERS)
    ours = ran(name, port, MANNERED, "shortcut", *paths)
    for one, other in zip(ours, ran(name, port, MANNERED, "none", *paths), strict=True):
        assert one == other


@pytest.mark.parametrize("name", PACKAGES)
def test_tools(name: str, port: int) -> None:
    """Whoever replaces a method of the packages, or follows the steps of requests, is called as often as before."""
    ours = ran(name, port, TOOLS, "shortcut")
    for one, other in zip(ours, ran(name, port, TOOLS, "none"), strict=True):
        assert one == other


@pytest.mark.parametrize("name", PACKAGES)
def test_it_is_taken(name: str, port: int) -> None:
    """By the releases that are installed; nothing is replaced before a pool of ours is made, and for others."""
    text = """
original = transports.AsyncHTTPTransport.handle_async_request
found.append(original.__code__.co_filename == transports.__file__)
plain("/kept")
method = transports.AsyncHTTPTransport.handle_async_request
found.append([method is not original, method.__qualname__, method.__module__, method.__doc__])
with patch.object(below.AsyncConnectionPool._package, "answer", None):
    plain("/kept")
    asyncio.run(coroutine("/kept"))
print(json.dumps(found))
"""
    module = f"{name}._transports.default"
    before, _, after, *responses = ran(name, port, text, "shortcut")
    assert before is True
    assert after == [True, "AsyncHTTPTransport.handle_async_request", module, None]
    assert [response[0] for response in responses] == [200, 200]
