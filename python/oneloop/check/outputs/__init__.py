"""Where results go as they come: JSON lines, CSV, a page of HTML.

Each has `write(result)`, which only remembers, `flush()`, which brings it into the file, and `close()`. They block for
the time of a write, raise OSError where the file cannot be written, and know no loop.
"""

from __future__ import annotations

from oneloop.check.outputs.html_page import Html
from oneloop.check.outputs.lines import Csv, JsonLines

__all__ = ["Csv", "Html", "JsonLines"]
