"""`uvloop.loop`: the module in which uvloop defines its loop."""

from __future__ import annotations

from oneloop.loop import Loop

__all__ = ["Loop"]
