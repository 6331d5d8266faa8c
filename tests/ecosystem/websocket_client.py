"""Sends back every message of the Autobahn test suite's fuzzing server: `python websocket_client.py PORT`."""

from __future__ import annotations

import sys

import oneloop
from oneloop.http import AsyncClient, WebSocketDisconnect

MOST_BYTES = 64 << 20


async def main(url: str) -> None:
    async with AsyncClient(timeout=30) as client:
        async with client.websocket(f"{url}/getCaseCount") as socket:
            count = int(await socket.receive())
        for case in range(1, count + 1):
            place = f"{url}/runCase?case={case}&agent=client"
            try:
                async with client.websocket(place, max_message_bytes=MOST_BYTES) as socket:
                    while True:
                        await socket.send(await socket.receive())
            except WebSocketDisconnect:
                continue
        async with client.websocket(f"{url}/updateReports?agent=client"):
            pass


if __name__ == "__main__":
    oneloop.run(main(f"ws://127.0.0.1:{sys.argv[1]}"))
