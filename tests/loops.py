"""The loops that behaviour tests run on, by name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import oneloop

LoopFactory = Callable[[], asyncio.AbstractEventLoop]

FACTORIES: dict[str, LoopFactory] = {"asyncio": asyncio.SelectorEventLoop, "oneloop": oneloop.new_event_loop}


def new_loop(name: str) -> asyncio.AbstractEventLoop:
    return FACTORIES[name]()
