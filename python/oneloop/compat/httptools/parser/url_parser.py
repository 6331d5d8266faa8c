"""httptools' `parse_url` and the class of its result, which are native code."""

from __future__ import annotations

from oneloop._native import HttpUrl as URL
from oneloop._native import parse_url

__all__ = ("URL", "parse_url")
