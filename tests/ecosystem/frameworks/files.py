"""What the sites have in common: the folder of the static file, and the parts of streams.

Processes whose answers are compared share a folder: `SITE_FOLDER` names it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

folder = os.environ.get("SITE_FOLDER") or tempfile.mkdtemp()
file = Path(folder, "file.txt")
if not file.exists():
    file.write_bytes(b"static " * 1000)


def parts() -> Iterator[str]:
    for number in range(3):
        yield f"data: {number}\n\n"


async def async_parts() -> AsyncIterator[str]:
    for part in parts():
        yield part
