"""Checks URLs: how many answer, with which status, how fast, and why the others do not.

`async for result in check(urls): ...`; the command is `oneloop check urls.txt`. The HTTP client is aiohttp: install
`oneloop[check]`.
"""

from __future__ import annotations

from oneloop.check.result import BadLine, ErrorClass, Hop, Result, Target

__all__ = ["BadLine", "ErrorClass", "Hop", "Result", "Target"]
