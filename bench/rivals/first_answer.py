"""How soon peers get their answers from handlers that answer and then compute.

Twenty connections send a question at the same time; each handler writes its answer and then computes for 10 ms. The
client is a separate process, forked before the loop is created, so that the loop's work does not delay its clock. The
result is the time from the question to the first and to the median answer, each the median of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import select
import socket
import statistics
import struct
import time
from typing import Any

from bench.rivals import loops
from bench.rivals.cpu_work import AFTER_ANSWER_S, compute_for
from bench.rivals.report_line import hand_over

CONNECTIONS = 20
QUESTION = b"?"
ANSWER = b"!" * 1024


class Handler(asyncio.Protocol):
    """Answers, then computes."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(ANSWER)
        compute_for(AFTER_ANSWER_S)


def split_cpus() -> tuple[set[int], set[int]]:
    """One CPU for the server and others for the client: on the same CPU, the computation would delay the client."""
    cpus = range(os.cpu_count() or 1)
    return {cpus[0]}, set(cpus[1:]) or {cpus[0]}


def ask(clients: list[socket.socket], rounds: int, least_s: float) -> tuple[float, float]:
    """The client: nanoseconds to the first and to the median answer, of at least so many rounds and seconds."""
    first: list[float] = []
    median: list[float] = []
    began = time.monotonic()
    # The first round does not count: connections are still being set up.
    while len(first) <= rounds or time.monotonic() - began < least_s:
        # The handler that answered last is still computing.
        time.sleep(3 * AFTER_ANSWER_S)
        poll = select.poll()
        for client in clients:
            poll.register(client, select.POLLIN)
        asked = time.perf_counter_ns()
        for client in clients:
            client.sendall(QUESTION)
        came: list[float] = []
        while len(came) < len(clients):
            for number, _ in poll.poll():
                poll.unregister(number)
                came.append(time.perf_counter_ns() - asked)
        for client in clients:
            received = 0
            while received < len(ANSWER):
                received += len(client.recv(len(ANSWER)))
        first.append(came[0])
        median.append(statistics.median(came))
    return statistics.median(first[1:]), statistics.median(median[1:])


async def serve(servers: list[socket.socket], result: int) -> bytes:
    """Runs the server until the client has sent its figures, and returns them."""
    loop = asyncio.get_running_loop()
    for server in servers:
        await loop.create_connection(Handler, sock=server)
    done: asyncio.Future[bytes] = loop.create_future()
    loop.add_reader(result, lambda: done.set_result(os.read(result, 16)))
    data = await done
    loop.remove_reader(result)
    return data


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--loop", required=True, help="or twisted")
    parser.add_argument("--count", type=int, required=True, help="rounds, at least")
    parser.add_argument("--seconds", type=float, default=0.0, help="the rounds are repeated for at least this long")
    options = parser.parse_args()
    pairs = [socket.socketpair() for _ in range(CONNECTIONS)]
    result, report = os.pipe()
    own, others = split_cpus()
    child = os.fork()
    os.sched_setaffinity(0, others if child == 0 else own)
    if child == 0:
        os.close(result)
        for server, _ in pairs:
            server.close()
        os.write(report, struct.pack("dd", *ask([client for _, client in pairs], options.count, options.seconds)))
        os._exit(0)
    os.close(report)
    for server, client in pairs:
        client.close()
        server.setblocking(False)
    found = b""

    async def run() -> None:
        nonlocal found
        found = await serve([server for server, _ in pairs], result)

    if options.loop == "twisted":
        from bench.rivals import twisted_answer

        found = twisted_answer.serve([server for server, _ in pairs], result, ANSWER)
    else:
        loops.run(run(), options.loop)
    os.waitpid(child, 0)
    first, median = struct.unpack("dd", found)
    hand_over({"first_ns": first, "p50_ns": median})


if __name__ == "__main__":
    main()
