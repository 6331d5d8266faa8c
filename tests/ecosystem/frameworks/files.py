"""The folder of the sites' static file. Processes whose answers are compared share one: `SITE_FOLDER` names it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

folder = os.environ.get("SITE_FOLDER") or tempfile.mkdtemp()
file = Path(folder, "file.txt")
if not file.exists():
    file.write_bytes(b"static " * 1000)
