"""Child processes with pipes, and a pipe of the program."""

from __future__ import annotations

import asyncio
import os

import oneloop
from tests.faults.evidence import Evidence, ViolationError
from tests.faults.runs import Scenario

DATA = os.urandom(200_000)


async def _child(evidence: Evidence) -> None:
    """`cat` returns its input. With a fault in a pipe, less of it, and an error or an earlier end."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(evidence.handler)
    process = await asyncio.create_subprocess_exec(
        "cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate(DATA)
    if not DATA.startswith(output) or errors:
        raise ViolationError("other bytes than were written")
    if output != DATA:
        # `communicate` says nothing when its input is refused (Python's documentation: "ignored").
        evidence.reports.append(f"the output ends after {len(output)} bytes")
    status = await process.wait()
    if status:
        evidence.damaged.append(f"status {status}")


async def _pipe(evidence: Evidence) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(evidence.handler)
    reading, writing = os.pipe()
    lost: list[asyncio.Future[None]] = []

    class Reader(asyncio.Protocol):
        def __init__(self) -> None:
            self.received = bytearray()
            self.gone = loop.create_future()
            lost.append(self.gone)

        def data_received(self, data: bytes) -> None:
            self.received += data

        def connection_lost(self, error: Exception | None) -> None:
            if error is not None:
                evidence.errors.append(error)
            if not self.gone.done():
                self.gone.set_result(None)

    with open(reading, "rb", 0) as source, open(writing, "wb", 0) as target:
        made: list[asyncio.BaseTransport] = []
        try:
            out, reader = await loop.connect_read_pipe(Reader, source)
            made.append(out)
            into, _ = await loop.connect_write_pipe(Reader, target)
            made.append(into)
            for start in range(0, len(DATA), 50_000):
                into.write(DATA[start : start + 50_000])
                await asyncio.sleep(0)
            into.close()
            await asyncio.gather(*lost)
        finally:
            for transport in made:
                transport.close()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    if not DATA.startswith(reader.received):
        raise ViolationError("other bytes than were written")
    if reader.received != DATA:
        evidence.damaged.append(f"the pipe ends after {len(reader.received)} bytes")


SCENARIOS = (
    Scenario("subprocess", lambda evidence: oneloop.run(_child(evidence))),
    Scenario("pipe", lambda evidence: oneloop.run(_pipe(evidence)), (BrokenPipeError,)),
)
