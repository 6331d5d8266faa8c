"""httptools' `parse_url` and what it returns, which are native."""

from __future__ import annotations

from oneloop._native import HttpUrl as URL
from oneloop._native import parse_url

__all__ = ("URL", "parse_url")
