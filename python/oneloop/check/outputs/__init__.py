"""The outputs of results: JSON lines, CSV and an HTML page.

Each has `write(result)`, which adds a result to a buffer, `flush()`, which writes the buffer, and `close()`. They block
while they write, raise OSError if the file cannot be written, and do not use an event loop.
"""

from __future__ import annotations

from oneloop.check.outputs.html_page import Html
from oneloop.check.outputs.lines import Csv, JsonLines

__all__ = ["Csv", "Html", "JsonLines"]
