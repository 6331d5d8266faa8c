"""`check()`: each URL gets one result, which is the right one or says what has failed."""

from __future__ import annotations

import asyncio

import oneloop
import oneloop.http
from oneloop.check import check
from tests.faults.evidence import Evidence, ViolationError
from tests.faults.runs import Scenario
from tests.faults.scenarios.peers import TIMEOUT_S
from tests.faults.scenarios.webs import served

COUNT = 12


async def _checked(evidence: Evidence, port: int) -> None:
    asyncio.get_running_loop().set_exception_handler(evidence.handler)
    urls = [f"http://127.0.0.1:{port}/{'large' if number % 3 == 0 else 'small'}" for number in range(COUNT)]
    seen: set[int] = set()
    async for result in check(urls, concurrency=3, retries=0, timeout_s=TIMEOUT_S):
        if result.number in seen:
            raise ViolationError(f"a second result for {result.number}")
        seen.add(result.number)
        if result.error is not None:
            evidence.damaged.append(f"{result.number}: {result.error_text}")
            evidence.reports.append(f"{result.error}: {result.error_text}")
        elif result.status != 200:
            raise ViolationError(f"status {result.status}")
    if seen != set(range(1, COUNT + 1)):
        raise ViolationError(f"{len(seen)} of {COUNT} results")


def _check(evidence: Evidence) -> None:
    with served() as port:
        oneloop.run(_checked(evidence, port))


SCENARIOS = (Scenario("check", _check, (oneloop.http.TransportError,)),)
