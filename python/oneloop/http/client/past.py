"""`Past`: an exchange that is over, for a copy of its response: one that was pickled, for example."""

from __future__ import annotations

from typing import Any

__all__ = ["Past"]


class Past:
    """What a response asks of its exchange, when that is not there any more.

    Args:
        exchange: the exchange.
    """

    def __init__(self, exchange: Any) -> None:
        self.status = exchange.status
        self.has = exchange.has
        self.response_head = exchange.response_head
        self.elapsed_s = exchange.elapsed_s

    def close(self) -> None:
        """There is nothing to close."""
