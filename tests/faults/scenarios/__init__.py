"""The programs. Each module has a tuple `SCENARIOS`; a module's subject is a room of the package."""

from __future__ import annotations

import importlib
from pathlib import Path

from tests.faults.runs import Scenario

MODULES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in ("__init__", "peers"))


def scenarios() -> dict[str, Scenario]:
    """Return all scenarios by name."""
    found: dict[str, Scenario] = {}
    for name in MODULES:
        module = importlib.import_module(f"{__name__}.{name}")
        found.update({each.name: each for each in module.SCENARIOS})
    return found
