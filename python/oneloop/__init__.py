"""One native event loop for all of a Python program's I/O."""

from __future__ import annotations

from oneloop.loop import Loop
from oneloop.run import install, new_event_loop, run
from oneloop.statistics import Statistics

__version__ = "0.1.0"

__all__ = ["Loop", "Statistics", "__version__", "install", "new_event_loop", "run"]
