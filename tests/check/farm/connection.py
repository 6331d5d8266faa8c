"""Reads the requests of a connection and has them answered. Strict enough to see what a client does wrong."""

from __future__ import annotations

import asyncio
import json
import traceback

from tests.check.farm.answers import answer_to
from tests.check.farm.counts import Counts
from tests.check.farm.request import Answer, Request

HEAD_LIMIT_BYTES = 65_536


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request, its body read and thrown away; None when the client has ended the connection.

    Raises ValueError for what is no request.
    """
    first_byte = await reader.read(1)
    if not first_byte:
        return None
    if not first_byte.isalpha():
        raise ValueError("no request: a TLS hello, for one")
    head = first_byte + await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, _version = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, target, headers)


class Serving:
    """One listener's connections; `name` is what its counts stand under."""

    def __init__(self, name: str, counts: Counts) -> None:
        self.name, self.counts = name, counts

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a connection to its end. A client that goes is no error of ours."""
        self.counts.connections[self.name] += 1
        self.counts.addresses[writer.get_extra_info("sockname")[0]] += 1
        try:
            await self.serve(reader, writer)
        except ValueError:
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        except (ConnectionError, asyncio.LimitOverrunError, asyncio.IncompleteReadError):
            # Clients that go.
            pass
        except Exception:
            # stderr is looked at when the farm ends: the tests fail.
            traceback.print_exc()
        finally:
            writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader)) is not None:
            answer = Answer(reader, writer, request.method)
            host = request.headers.get("host", "")
            with self.counts.request(self.name, request.method, host, request.target, request.headers):
                await self.answer(request, answer)
            if answer.ends or request.headers.get("connection", "").lower() == "close":
                return

    async def answer(self, request: Request, answer: Answer) -> None:
        await answer_to(request, answer)


class Control(Serving):
    """For the tests, not for what is tested: `/count` tells what was seen, `/clear` forgets it."""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(reader)
        assert request is not None
        if request.target == "/clear":
            self.counts.clear()
        body = json.dumps(self.counts.as_json()).encode()
        await Answer(reader, writer, request.method).good(body=body, connection="close")
        writer.close()
