"""A gateway before two services. See README.md."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from oneloop.http import AsyncClient, HTTPError, Limits, Retry, Timeout

log = logging.getLogger("gateway")
PATIENCE_S = float(os.environ.get("PATIENCE_S", "2"))
# `total` includes all retries.
PATIENCE = Timeout(PATIENCE_S / 2, total=PATIENCE_S)


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    # One client for all requests: it keeps connections open.
    async with AsyncClient(timeout=PATIENCE, retries=Retry(2), limits=Limits(max_connections=100)) as client:
        app.state.client = client
        yield


async def ask(client: AsyncClient, url: str) -> Any:
    """The service's answer, or None."""
    try:
        response = await client.get(url)
        response.raise_for_status()
        return response.json()
    except (HTTPError, ValueError) as error:
        log.warning("%s: %s: %s", url, type(error).__name__, error)
        return None


async def product(request: Request) -> JSONResponse:
    number = request.path_params["number"]
    client = request.app.state.client
    price, stock = await asyncio.gather(
        ask(client, f"{os.environ['PRICES']}/{number}"), ask(client, f"{os.environ['STOCK']}/{number}")
    )
    status = 502 if price is None and stock is None else 200
    return JSONResponse({"number": number, "price": price, "stock": stock}, status)


app = Starlette(routes=[Route("/products/{number:int}", product)], lifespan=lifespan)
