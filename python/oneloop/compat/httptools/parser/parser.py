"""httptools' parsers, which are native."""

from __future__ import annotations

from oneloop._native import HttpParser, HttpRequestParser, HttpResponseParser

__all__ = ("HttpParser", "HttpRequestParser", "HttpResponseParser")
