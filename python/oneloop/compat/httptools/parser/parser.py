"""httptools' parsers, which are native code."""

from __future__ import annotations

from oneloop._native import HttpParser, HttpRequestParser, HttpResponseParser

__all__ = ("HttpParser", "HttpRequestParser", "HttpResponseParser")
