"""Our server and our client in one loop: HTTP/2 and WebSocket. A fault may be on either side of a connection."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import oneloop
import oneloop.http
from tests.faults.evidence import Evidence, ViolationError
from tests.faults.runs import Scenario
from tests.faults.scenarios.peers import TIMEOUT_S
from tests.faults.scenarios.webs import BODY, echo_app

SIZES = (5, 60_000, 0, 5)
CUT_OFF = (OSError, oneloop.http.TransportError, oneloop.http.WebSocketDisconnect)


def _cut_off(evidence: Evidence, what: str, error: Exception) -> None:
    if isinstance(error, oneloop.http.TimeoutException):
        raise ViolationError(f"{what}: no answer") from error
    evidence.damaged.append(f"{what}: {error!r}")
    # The client sees the end of the connection; the errno may be the server's.
    evidence.reports.append(f"{what} was cut off: {error!r}")


async def _requests(evidence: Evidence, client: oneloop.http.AsyncClient) -> None:
    async def one(number: int, size: int) -> None:
        try:
            response = await client.post("/echo", content=BODY[:size])
        except CUT_OFF as error:
            _cut_off(evidence, f"request {number}", error)
            return
        if response.status_code == 200 and response.content != BODY[:size]:
            raise ViolationError(f"request {number}: other bytes than were sent")

    await asyncio.gather(*(one(number, size) for number, size in enumerate(SIZES)))
    await one(len(SIZES), 5)


async def _messages(evidence: Evidence, client: oneloop.http.AsyncClient) -> None:
    for number in range(2):
        try:
            async with client.websocket("/") as sock:
                for size in (5, 60_000):
                    await sock.send(BODY[:size])
                    if await sock.receive() != BODY[:size]:
                        raise ViolationError("another message than was sent")
        except CUT_OFF as error:
            _cut_off(evidence, f"websocket {number}", error)


async def _both(evidence: Evidence, ask: Any, http: Any, versions: dict[str, bool]) -> None:
    asyncio.get_running_loop().set_exception_handler(evidence.handler)
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        oneloop.http.serve(
            echo_app, port=0, access_log=False, stop=stop, lifespan="off", timeout_graceful_shutdown=1, http=http,
            on_ready=lambda places: ready.set_result(places[0]),
        )
    )  # fmt: skip
    await asyncio.wait([serving, ready], return_when=asyncio.FIRST_COMPLETED)
    if ready.done():
        try:
            async with oneloop.http.AsyncClient(base_url=ready.result(), timeout=TIMEOUT_S, **versions) as client:
                await ask(evidence, client)
        finally:
            stop.set()
    await serving


def _run(ask: Any, http: str, versions: dict[str, bool], evidence: Evidence) -> None:
    oneloop.run(_both(evidence, ask, http, versions))


SCENARIOS = (
    Scenario(
        "http2 both sides",
        functools.partial(_run, _requests, "h2c", {"http1": False, "http2": True}),
        (oneloop.http.TransportError,),
        most_damaged=len(SIZES),
    ),
    Scenario("websocket both sides", functools.partial(_run, _messages, "1", {}), (oneloop.http.TransportError,)),
)
