"""Checks URLs: how many answer, with which status, how fast, and why the others do not.

`async for result in check(urls): ...`; the command is `oneloop check urls.txt`. The HTTP client is aiohttp: install
`oneloop[check]`.
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("aiohttp") is None or find_spec("aiodns") is None:
    raise ImportError("oneloop.check needs aiohttp and aiodns: pip install 'oneloop[check]'")

from oneloop.check.checking import check
from oneloop.check.options import OptionError, Options
from oneloop.check.result import BadLine, ErrorClass, Hop, Result, Target

__all__ = ["BadLine", "ErrorClass", "Hop", "OptionError", "Options", "Result", "Target", "check"]
